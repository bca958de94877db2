"""Which task reads which partition, from where: the planning of a flow.

`planner` runs in Spark's planning process. It fences predecessors, reads the ledger, assigns partitions by the pure
`plan` and `balance`, and moves them between tasks inside an epoch (`hand_over`).
"""
