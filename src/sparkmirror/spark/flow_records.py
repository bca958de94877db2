"""`flow-records`: the Spark data source that reads and writes single Kafka records, for flows with transforms.

Takes the options of `kafka-runs` and plans, fences and keeps progress as that does; its rows are the record rows of
`pipeline.relay.schema`. `spark.record_plan` makes a flow of both ends.
"""

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

from sparkmirror.pipeline.relay.options import RunsOptions, carried_columns

if TYPE_CHECKING:
    from sparkmirror.spark.run_reader import FlowRecordsReader
    from sparkmirror.spark.run_writer import FlowRecordsWriter


class FlowRecords(DataSource):
    """Rows of `pipeline.relay.schema`; see the module for its options."""

    @classmethod
    def name(cls) -> str:
        return "flow-records"

    def schema(self) -> str:
        from sparkmirror.pipeline.relay.schema import record_ddl

        return record_ddl(carried_columns(self.options))

    def streamReader(self, schema: Any) -> "FlowRecordsReader":  # noqa: ARG002
        from sparkmirror.spark.run_reader import FlowRecordsReader

        return FlowRecordsReader(self._options())

    def streamWriter(self, schema: Any, overwrite: bool) -> "FlowRecordsWriter":  # noqa: ARG002
        from sparkmirror.spark.run_writer import FlowRecordsWriter

        return FlowRecordsWriter(self._options())

    def _options(self) -> RunsOptions:
        return RunsOptions.from_mapping(self.options)
