"""`kafka-records`: the Spark data source that reads and writes single Kafka records, for flows with transforms.

    spark.dataSource.register(KafkaRecords)
    rows = spark.readStream.format("kafka-records").option("config", text).option("flow", "A->B").load()

Takes the options of `kafka-runs` and plans, fences and keeps progress as that does; its rows are the record rows of
`pipeline.relay.schema`. `spark.record_plan` makes a flow of both ends.
"""

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

from sparkmirror.pipeline.relay.options import RunsOptions

if TYPE_CHECKING:
    from sparkmirror.spark.run_reader import KafkaRecordsReader
    from sparkmirror.spark.run_writer import KafkaRecordsWriter


class KafkaRecords(DataSource):
    """Rows of `pipeline.relay.schema`; see the module for its options."""

    @classmethod
    def name(cls) -> str:
        return "kafka-records"

    def schema(self) -> str:
        from sparkmirror.pipeline.relay.schema import RECORD_DDL

        return RECORD_DDL

    def streamReader(self, schema: Any) -> "KafkaRecordsReader":  # noqa: ARG002
        from sparkmirror.spark.run_reader import KafkaRecordsReader

        return KafkaRecordsReader(self._options())

    def streamWriter(self, schema: Any, overwrite: bool) -> "KafkaRecordsWriter":  # noqa: ARG002
        from sparkmirror.spark.run_writer import KafkaRecordsWriter

        return KafkaRecordsWriter(self._options())

    def _options(self) -> RunsOptions:
        return RunsOptions.from_mapping(self.options)
