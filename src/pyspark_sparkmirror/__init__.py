"""By this package's name Spark finds the data source `kafka-records`, which no program has to register.

PySpark looks for one `DefaultSource` in each package that is named so (`pyspark.sql.worker.lookup_data_sources`).
"""

from sparkmirror.records.kafka_records import KafkaRecords as DefaultSource

__all__ = ["DefaultSource"]
