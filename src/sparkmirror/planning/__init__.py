"""The planning of a flow: which task reads which partition, and from which offset.

`planner` runs in Spark's planning process. It fences predecessors, reads the ledger, assigns partitions by the pure
`plan` and `balance`, and moves them between tasks inside an epoch (`hand_over`).
"""
