"""By this package's name Spark finds the data source `kafka-runs`, which no program has to register.

PySpark looks for one `DefaultSource` in each package that is named so (`pyspark.sql.worker.lookup_data_sources`).
"""

from sparkmirror.spark.kafka_runs import KafkaRuns as DefaultSource

__all__ = ["DefaultSource"]
