"""The bulk connections of the data path: links, requests that carry data, transactions."""
