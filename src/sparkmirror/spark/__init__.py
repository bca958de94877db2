"""Everything that Spark sees: data sources, query plans, session and JVM.

`session` is the only place that builds a session; `run_reader` and `run_writer` are the ends as Spark knows them;
`flow_plan` and `record_plan` make the DataFrame of a flow.
"""
