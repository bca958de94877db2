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
    from sparkmirror.records.options import WriteOptions
    from sparkmirror.records.sink import RecordsStreamWriter, RecordsWriter
    from sparkmirror.records.stream_reader import RecordsStreamReader


class KafkaRecords(DataSource):
    """Columns of a read: key, value, topic, partition, offset, timestamp, timestampType, headers. Columns of a write:
    value, and as far as they are wanted key, headers, topic, partition, timestamp."""

    @classmethod
    def name(cls) -> str:
        return "kafka-records"

    def schema(self) -> str:
        from sparkmirror.records.options import check_names
        from sparkmirror.records.rows import DDL

        check_names(self.options)
        return DDL

    def reader(self, schema: Any) -> "RecordsReader":
        from sparkmirror.records.batch_reader import RecordsReader
        from sparkmirror.records.options import read_options

        _check_schema(schema)
        return RecordsReader(read_options(self.options, is_stream=False))

    def streamReader(self, schema: Any) -> "RecordsStreamReader":
        from sparkmirror.records.options import read_options
        from sparkmirror.records.stream_reader import RecordsStreamReader

        _check_schema(schema)
        return RecordsStreamReader(read_options(self.options, is_stream=True))

    def writer(self, schema: Any, overwrite: bool) -> "RecordsWriter":
        from sparkmirror.records.sink import RecordsWriter

        return RecordsWriter(self._write_options(schema, overwrite, is_stream=False))

    def streamWriter(self, schema: Any, overwrite: bool) -> "RecordsStreamWriter":
        from sparkmirror.records.sink import RecordsStreamWriter

        return RecordsStreamWriter(self._write_options(schema, overwrite, is_stream=True))

    def _write_options(self, schema: Any, overwrite: bool, *, is_stream: bool) -> "WriteOptions":
        from sparkmirror.errors import ConfigError
        from sparkmirror.records.options import write_options
        from sparkmirror.records.sink_columns import check_columns

        if overwrite:
            raise ConfigError("kafka-records appends to topics and cannot overwrite them.", 'Use .mode("append").')
        options = write_options(self.options, is_stream=is_stream)
        check_columns([(field.name, field.dataType.simpleString()) for field in schema.fields], options.topic)
        return options


def _check_schema(schema: Any) -> None:
    """A read has the columns that it has. Raises ConfigError."""
    from sparkmirror.errors import ConfigError
    from sparkmirror.records.rows import SCHEMA

    if list(schema.names) != SCHEMA.names:
        raise ConfigError("kafka-records has columns of its own and takes no schema.", "Leave .schema(…) out.")
