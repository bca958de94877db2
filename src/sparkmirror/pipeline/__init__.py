"""The path of a record through a Spark task: fetch, relay, produce.

The two ends are processes on one host that meet in `relay` alone.
"""
