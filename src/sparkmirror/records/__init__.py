"""`kafka-records`: a Spark data source for any program, which reads and writes the records of Kafka topics.

`kafka_records` is the source; `options` reads its options, which are those of Spark's Kafka connector. Reading:
`source_log` asks the cluster, `ranges` plans pure, `rows` makes Arrow of record batches. Writing: `sink_columns` makes
records of Arrow, `batch_producer` appends their batches.
"""
