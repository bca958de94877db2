"""The data path's protocol code: bulk connections, leaders, requests that carry data, transactions.

Fetch and Produce are encoded and decoded without a copy. `lookup` asks for leaders with one short connection; `leaders`
remembers them for a loop and dials them.
"""
