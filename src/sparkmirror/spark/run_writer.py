"""The writing end as a Spark data source, the counterpart of `spark.run_reader`.

Cheap to import: before the first task begins Spark loads it in a process of its own, only to create the object (0.02 s
of CPU; with all of `pipeline.produce.writer` 0.4 s).

Spark sees a writer's exception only when the reader ends, so `write` catches everything, tells the reader through the
control page, drains its input, and raises then.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from sparkmirror.errors import FencedError, SparkMirrorError
from sparkmirror.pipeline.produce.receipts import Receipt
from sparkmirror.pipeline.relay.options import STANDALONE, RunsOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from sparkmirror.config.flow.flows import FlowConfig
    from sparkmirror.pipeline.produce.writer import WritingTask


class KafkaRunsWriter(DataSourceStreamArrowWriter):
    """Produces runs to the target and keeps the ledger. Spark makes a new one for every epoch."""

    def __init__(self, options: RunsOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """Write one task's rows until its reader ends. Raises the sender's final error; the epoch is then repeated."""
        from sparkmirror.logs.handlers import log_to_driver

        flow = self._options.flow()
        log_to_driver(flow.name)
        task = self._task(flow)
        try:
            for batch in iterator:
                task.take(batch)
            return task.finish()
        except FencedError as problem:
            task.fail()
            if task.is_orphan:  # the next attempt of this very task has taken over: the run goes on
                _drain(iterator)
                raise
            self._stop_other_tasks()
            _drain(iterator)
            return Receipt(task.number, fenced=str(problem))
        except BaseException:
            task.fail()
            _drain(iterator)
            raise

    def _task(self, flow: "FlowConfig") -> "WritingTask":
        from sparkmirror.pipeline.produce.repartition import Repartition
        from sparkmirror.pipeline.produce.writer import WritingTask, sender_options

        return WritingTask(sender_options(flow), Repartition(flow) if flow.partitioning == "key" else None)

    def _stop_other_tasks(self) -> None:
        """Order the run's other tasks to stop: a task that has no record to send is not refused, so its epoch would go
        on."""
        from sparkmirror.control.commands import Stop, command_record
        from sparkmirror.kafka.publish import publish

        if self._options.run == STANDALONE:
            return
        flow = self._options.flow()
        topic = flow.ledger_topics.commands
        with suppress(SparkMirrorError):
            publish(flow.target, topic, [command_record(Stop(self._options.run, self._options.process))])

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002
        """Ends the query when a newer instance has taken over; the ledger has the progress already."""
        for message in messages:
            if isinstance(message, Receipt) and message.fenced:
                raise FencedError(message.fenced)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Undoes nothing: the ledger has all acknowledged positions, the rest is read again."""


def _drain(iterator: Iterator["pa.RecordBatch"]) -> None:
    with suppress(Exception):
        for _ in iterator:
            pass


class FlowRecordsWriter(KafkaRunsWriter):
    """Produces records to the target and keeps the ledger."""

    def _task(self, flow: "FlowConfig") -> "WritingTask":
        from sparkmirror.pipeline.produce.record_writer import RecordTask
        from sparkmirror.pipeline.produce.writer import sender_options

        return RecordTask(sender_options(flow), flow, self._options.returned)
