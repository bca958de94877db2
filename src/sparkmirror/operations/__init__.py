"""Procedures for operators: failover, failback, migration, offsets, inspection.

A `*_snapshot` module observes both clusters, a pure module judges what it found, and a `*_run` or `*_job` module
applies steps that a journal keeps. The `*_checks` modules change nothing.
"""
