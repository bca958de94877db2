"""`kafka-runs`: the Spark data source that reads and writes whole runs of Kafka record batches.

    spark.dataSource.register(KafkaRuns)
    runs = spark.readStream.format("kafka-runs").option("config", text).option("flow", "A->B").load()

`config` is the text of a `connect-mirror-maker.properties`, `flow` names one of its flows, `run` (optional) is the id
that commands to the running query carry. Both ends take the same options. Register it in any Spark session.
"""

from typing import Any

from pyspark.sql.datasource import DataSource

from sparkmirror.config.flows import FlowConfig, parse_config
from sparkmirror.config.properties import parse_properties
from sparkmirror.errors import ConfigError
from sparkmirror.kafka.settings import client_settings
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.relay.schema import ROW_DDL
from sparkmirror.source.stream import KafkaRunsReader
from sparkmirror.target.progress import ProgressOptions
from sparkmirror.target.sender import SenderOptions
from sparkmirror.target.writer import KafkaRunsWriter


class KafkaRuns(DataSource):
    """Rows of `relay.schema`; see the module for its options."""

    @classmethod
    def name(cls) -> str:
        return "kafka-runs"

    def schema(self) -> str:
        return ROW_DDL

    def streamReader(self, schema: Any) -> KafkaRunsReader:  # noqa: ARG002
        return KafkaRunsReader(self._flow(), self.options.get("run", "standalone"))

    def streamWriter(self, schema: Any, overwrite: bool) -> KafkaRunsWriter:  # noqa: ARG002
        flow = self._flow()
        progress = ProgressOptions(
            flow.name.source,
            ledger_topics(flow.name.source, flow.offset_storage_topic),
            flow.offset_storage_partitions,
            flow.offset_flush_interval_ms / 1000,
        )
        options = SenderOptions(
            client_settings(flow.target, "writer"),
            progress,
            flow.connections_per_broker,
            max(flow.producer.send_buffer_bytes, 0),
            flow.producer.request_timeout_ms / 1000,
        )
        return KafkaRunsWriter(options)

    def _flow(self) -> FlowConfig:
        text, name = self.options.get("config"), self.options.get("flow")
        if not text or not name:
            raise ConfigError(
                "kafka-runs needs the options `config` and `flow`.", 'For example .option("flow", "A->B")'
            )
        return parse_config(parse_properties(text.encode("latin-1"), "the option config"), flows=[name]).flows[0]
