"""Jobs that keep topics in step: observe, plan, apply.

Each job has a pure planner beside it (`topics`, `configs`, `acls`, `source_group`). `offset_job` writes offset syncs
and checkpoints and commits group offsets.
"""
