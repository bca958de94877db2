"""The integration with Spark: data sources, query plans, session and JVM.

`session` is the only place that builds a session; `run_reader` and `run_writer` are the two ends as Spark data sources;
`flow_plan` and `record_plan` make the DataFrame of a flow.
"""
