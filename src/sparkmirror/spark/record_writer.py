"""The writing end of `kafka-records` as Spark knows it, the counterpart of `spark.record_reader`."""

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.pipeline.produce.record_writer import RecordTask
from sparkmirror.pipeline.produce.writer import sender_options
from sparkmirror.spark.run_writer import KafkaRunsWriter


class KafkaRecordsWriter(KafkaRunsWriter):
    """Produces records to the target and keeps the ledger."""

    def _task(self, flow: FlowConfig) -> "RecordTask":
        return RecordTask(sender_options(flow), flow)
