"""The operators' procedures: failover, failback, migration, offsets, inspection.

A `*_snapshot` observes both clusters, a pure module judges, and a `*_run` or `*_job` applies steps that a journal
keeps. The `*_checks` change nothing.
"""
