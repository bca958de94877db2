"""The bulk connections of the data path: links, requests that carry data, transactions.

Fetch and Produce are encoded and decoded without a copy. `lookup` finds the leader of a partition.
"""
