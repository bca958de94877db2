"""Whether a target holds what its source holds: `sparkmirror verify`, a Spark batch job over both clusters.

`plan` cuts partitions into spans, a Spark task reads and compares one span (`matching`, `regions`), `report` says what
was found.
"""
