"""`kafka-records`: the Spark data source that reads and writes the records of Kafka topics, in any Spark program.

    where = {"kafka.bootstrap.servers": "b1:9092", "subscribe": "orders"}
    orders = spark.read.format("kafka-records").options(**where).load()

Spark finds it by the package `pyspark_sparkmirror`; `spark.dataSource.register(KafkaRecords)` does the same. Options
and columns are those of Spark's Kafka connector where they mean the same; docs/spark.md lists them. Spark makes this
object in several short-lived processes: what they do not need is imported where it is used.
"""

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from sparkmirror.records.batch_reader import RecordsReader
    from sparkmirror.records.sink import RecordsStreamWriter, RecordsWriter
    from sparkmirror.records.stream_reader import RecordsStreamReader


class KafkaRecords(DataSource):
    """Columns of a read: key, value, topic, partition, offset, timestamp, timestampType, headers. Columns of a write:
    value, and as far as they are wanted key, headers, topic, partition, timestamp."""

    @classmethod
    def name(cls) -> str:
        return "kafka-records"

    def schema(self) -> str:
        from sparkmirror.records.entry import source_ddl

        return source_ddl(self.name(), self.options)

    def reader(self, schema: Any) -> "RecordsReader":
        from sparkmirror.records.entry import batch_reader

        return batch_reader(self.name(), self.options, schema)

    def streamReader(self, schema: Any) -> "RecordsStreamReader":
        from sparkmirror.records.entry import stream_reader

        return stream_reader(self.name(), self.options, schema)

    def writer(self, schema: Any, overwrite: bool) -> "RecordsWriter":
        from sparkmirror.records.entry import batch_writer

        return batch_writer(self.name(), self.options, schema, overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> "RecordsStreamWriter":
        from sparkmirror.records.entry import stream_writer

        return stream_writer(self.name(), self.options, schema, overwrite)
