"""Processes that share the flows of one file.

They form a group on the target; its leader assigns tasks of flows by the pure `assignment`, and each process runs its
`flow_share`.
"""
