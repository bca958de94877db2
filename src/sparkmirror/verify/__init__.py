"""Compares a target with its source: `sparkmirror verify`, a Spark batch job over both clusters.

`plan` cuts partitions into spans, a Spark task reads and compares one span (`matching`, `regions`), `report` renders
the result.
"""
