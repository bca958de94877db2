"""`kafka-runs`: the Spark data source that reads and writes whole runs of Kafka record batches.

    spark.dataSource.register(KafkaRuns)
    runs = spark.readStream.format("kafka-runs").option("config", text).option("flow", "A->B").load()

`config` is the text of a `connect-mirror-maker.properties`, `flow` names one of its flows, `run` (optional) is the id
that commands to the running query carry. Both ends take the same options. Register it in any Spark session.

Spark makes this object in several short-lived processes, one after the other, before the first record flows: what they
do not need is imported where it is used.
"""

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

from sparkmirror.relay.options import RunsOptions

if TYPE_CHECKING:
    from sparkmirror.source.stream import KafkaRunsReader
    from sparkmirror.target.stream import KafkaRunsWriter


class KafkaRuns(DataSource):
    """Rows of `relay.schema`; see the module for its options."""

    @classmethod
    def name(cls) -> str:
        return "kafka-runs"

    def schema(self) -> str:
        from sparkmirror.relay.schema import ROW_DDL

        return ROW_DDL

    def streamReader(self, schema: Any) -> "KafkaRunsReader":  # noqa: ARG002
        from sparkmirror.source.stream import KafkaRunsReader

        return KafkaRunsReader(self._options())

    def streamWriter(self, schema: Any, overwrite: bool) -> "KafkaRunsWriter":  # noqa: ARG002
        from sparkmirror.target.stream import KafkaRunsWriter

        return KafkaRunsWriter(self._options())

    def _options(self) -> RunsOptions:
        return RunsOptions.from_mapping(self.options)
