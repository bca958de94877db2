"""`kafka-runs`: the Spark data source that reads and writes whole runs of Kafka record batches.

Programs import it from `relay.kafka_runs`, which says how it is used. Streams with a mirror's file are those of
`spark.run_reader` and `spark.run_writer`; all else is what `records.entry` makes of topics.

Spark makes this object in several short-lived processes, one after the other, before the first record flows: what they
do not need is imported where it is used.
"""

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

from sparkmirror.pipeline.relay.options import RunsOptions

if TYPE_CHECKING:
    from sparkmirror.records.batch_reader import RecordsReader
    from sparkmirror.records.sink import RecordsStreamWriter, RecordsWriter
    from sparkmirror.records.stream_reader import RecordsStreamReader
    from sparkmirror.spark.run_reader import KafkaRunsReader
    from sparkmirror.spark.run_writer import KafkaRunsWriter


class KafkaRuns(DataSource):
    """With the options of `kafka-records`, batches of topics. Columns of a read: topic, partition, first_offset,
    next_offset, batches, records, bytes, max_timestamp, payload. Columns of a write: payload, partition, topic. With
    the option `config`, rows of `pipeline.relay.schema`."""

    @classmethod
    def name(cls) -> str:
        return "kafka-runs"

    def schema(self) -> str:
        if self._is_of_mirror():
            from sparkmirror.pipeline.relay.schema import ROW_DDL

            return ROW_DDL
        from sparkmirror.records.entry import source_ddl

        return source_ddl(self.name(), self.options)

    def reader(self, schema: Any) -> "RecordsReader":
        from sparkmirror.records.entry import batch_reader

        return batch_reader(self.name(), self.options, schema)

    def streamReader(self, schema: Any) -> "KafkaRunsReader | RecordsStreamReader":
        if self._is_of_mirror():
            from sparkmirror.spark.run_reader import KafkaRunsReader

            return KafkaRunsReader(RunsOptions.from_mapping(self.options))
        from sparkmirror.records.entry import stream_reader

        return stream_reader(self.name(), self.options, schema)

    def writer(self, schema: Any, overwrite: bool) -> "RecordsWriter":
        from sparkmirror.records.entry import batch_writer

        return batch_writer(self.name(), self.options, schema, overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> "KafkaRunsWriter | RecordsStreamWriter":
        if self._is_of_mirror():
            from sparkmirror.spark.run_writer import KafkaRunsWriter

            return KafkaRunsWriter(RunsOptions.from_mapping(self.options))
        from sparkmirror.records.entry import stream_writer

        return stream_writer(self.name(), self.options, schema, overwrite)

    def _is_of_mirror(self) -> bool:
        names = self.options.keys()
        return "config" in names and names.isdisjoint(("bootstrap.servers", "kafka.bootstrap.servers"))
