"""Processes that share the flows of one file.

They form a consumer group on the target. The group's leader plans with `assignment` which process runs which tasks, and
each process runs the tasks of its `flow_share`.
"""
