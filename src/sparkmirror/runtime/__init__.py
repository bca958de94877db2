"""A running mirror: its flows, jobs, reports and life cycle.

`start` launches the JVM, `run` wires flows, jobs, page and groups together and stops them cleanly. `running_flow` keeps
one query alive; `jobs` runs the jobs of `sync` in rounds.
"""
