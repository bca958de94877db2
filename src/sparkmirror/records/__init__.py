"""Spark data sources for any program: `kafka-records`, the records of Kafka topics, and `kafka-runs`, their batches.

`entry` gives Spark what it asks for; `options` reads the options, which are those of Spark's Kafka connector. Reading:
`source_log` asks the cluster, `ranges` plans pure, `rows` and `run_rows` make Arrow of record batches. Writing:
`sink_columns` and `run_columns` make batches of Arrow, `batch_producer` appends them.
"""
