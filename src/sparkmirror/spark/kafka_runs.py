"""`kafka-runs`: the Spark data source that reads and writes whole runs of Kafka record batches.

Programs import it from `relay.kafka_runs`, which says how it is used.

Spark makes this object in several short-lived processes, one after the other, before the first record flows: what they
do not need is imported where it is used.
"""

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

from sparkmirror.pipeline.relay.options import RunsOptions

if TYPE_CHECKING:
    from sparkmirror.spark.run_reader import KafkaRunsReader
    from sparkmirror.spark.run_writer import KafkaRunsWriter


class KafkaRuns(DataSource):
    """Rows of `pipeline.relay.schema`; see the module for its options."""

    @classmethod
    def name(cls) -> str:
        return "kafka-runs"

    def schema(self) -> str:
        from sparkmirror.pipeline.relay.schema import ROW_DDL

        return ROW_DDL

    def streamReader(self, schema: Any) -> "KafkaRunsReader":  # noqa: ARG002
        from sparkmirror.spark.run_reader import KafkaRunsReader

        return KafkaRunsReader(self._options())

    def streamWriter(self, schema: Any, overwrite: bool) -> "KafkaRunsWriter":  # noqa: ARG002
        from sparkmirror.spark.run_writer import KafkaRunsWriter

        return KafkaRunsWriter(self._options())

    def _options(self) -> RunsOptions:
        return RunsOptions.from_mapping(self.options)
