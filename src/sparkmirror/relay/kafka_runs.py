"""`kafka-runs`: the Spark data source that reads and writes whole runs of Kafka record batches.

    spark.dataSource.register(KafkaRuns)
    runs = spark.readStream.format("kafka-runs").option("config", text).option("flow", "A->B").load()

`config` is the text of a `connect-mirror-maker.properties`, `flow` names one of its flows, `run` (optional) is the id
that commands to the running query carry. Both ends take the same options. Register it in any Spark session.
"""

from sparkmirror.spark.kafka_runs import KafkaRuns

__all__ = ["KafkaRuns"]
