"""`kafka-runs`: the Spark data source that reads and writes whole runs of Kafka record batches.

    where = {"kafka.bootstrap.servers": "b1:9092", "subscribe": "orders"}
    runs = spark.read.format("kafka-runs").options(**where).load()

Spark finds it by the package `pyspark_sparkmirror_runs`; `spark.dataSource.register(KafkaRuns)` does the same. Options
are those of `kafka-records`; docs/spark.md lists the columns. With a mirror's file it streams what a flow mirrors:

    runs = spark.readStream.format("kafka-runs").option("config", text).option("flow", "A->B").load()

`config` is the text of a `connect-mirror-maker.properties`, `flow` names one of its flows, `run` (optional) is the id
that commands to the running query carry. Both ends take the same options.
"""

from sparkmirror.spark.kafka_runs import KafkaRuns

__all__ = ["KafkaRuns"]
