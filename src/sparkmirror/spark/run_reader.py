"""The reading end as a Spark data source: epochs as offsets, one input partition per task.

Spark calls `latestOffset` and `partitions` in a planning process that lives as long as the query, and `read` in Python
workers, on a pickled copy. Correctness rests on none of the life-cycle calls: the ledger decides.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from sparkmirror.pipeline.relay.options import RunsOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from sparkmirror.config.flow.flows import FlowConfig
    from sparkmirror.control.assignment import TaskPlan
    from sparkmirror.pipeline.fetch.reader_options import ReaderOptions
    from sparkmirror.planning.planner import Planner

_IDLE_SECONDS = 0.2
_REHEARSAL = "rehearsal"
_REHEARSING_TASKS_MAX = 4
"""Enough to load all modules; more would only take memory in a process that may wait for long."""
_FRUITLESS_EPOCHS_MAX = 3
_REST_SECONDS = 0.003
_ALWAYS_BYTES = 1 << 40
"""Of a flow with transforms after a small answer, of any size: an answer costs it much, and its records have the longer
way."""


class KafkaRunsReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads one flow's source. An offset is `{"epoch": n, "positions": {topic: {partition: next offset}}}`.

    With Spark's available-now trigger the end offsets are fixed at the start and the query ends when they are reached.
    """

    def __init__(self, options: RunsOptions) -> None:
        self._options = options
        self._once = False
        self._planner: Planner | None = None
        self._fruitless = 0
        self._last: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planner": None}

    def _plan(self) -> "Planner":
        from sparkmirror.logs.handlers import log_to_driver
        from sparkmirror.planning.planner import Planner

        if self._planner is None:
            flow = self._options.flow()
            log_to_driver(flow.name)
            self._planner = Planner(flow, self._options.run, once=self._once, process=self._options.process)
        return self._planner

    def prepareForTriggerAvailableNow(self) -> None:
        self._once = True
        self._plan().ends()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def initialOffset(self) -> dict[str, Any]:
        return {"epoch": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002
        """The next epoch; `start` itself once the run is stopped, or complete when it is bounded.

        A process that joins others begins with an epoch in which nothing happens. Its first epoch is slow (the JVM's
        first query, the first Python workers), so it takes no tasks from the others before that one is over.
        """
        planner = self._plan()
        planner.end_epoch()
        if (start["epoch"] or self._options.process) and (planner.is_stopped() or not planner.has_work()):
            if not start["epoch"] and planner.is_told_to_wait:
                return {"epoch": 1, _REHEARSAL: True}
            planner.back_off(_IDLE_SECONDS)  # Spark asks again at once
            return start
        positions = planner.positions()
        if start["epoch"] and self._once and self._is_over(planner, positions):
            time.sleep(_IDLE_SECONDS)
            return start
        return {"epoch": start["epoch"] + 1, "positions": positions}

    def _is_over(self, planner: "Planner", positions: dict[str, Any]) -> bool:
        self._fruitless = self._fruitless + 1 if positions == self._last else 0
        self._last = positions
        return planner.is_complete() or self._fruitless >= _FRUITLESS_EPOCHS_MAX

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:  # noqa: ARG002
        if end.get(_REHEARSAL):
            return [InputPartition(None)] * min(self._options.flow().tasks_max, _REHEARSING_TASKS_MAX)
        return [InputPartition(plan) for plan in self._plan().begin_epoch(end["epoch"])]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """One task's rows; a repeated attempt starts from the ledger with a new producer epoch."""
        from pyspark import TaskContext

        from sparkmirror.logs.handlers import log_to_driver
        from sparkmirror.pipeline.fetch.reader import read_task
        from sparkmirror.planning.planner import Planner

        if partition.value is None:  # a rehearsal: rows that mean nothing pass all the way
            return iter((self._nothing(),))
        plan: TaskPlan = partition.value
        flow = self._options.flow()
        log_to_driver(flow.name)
        context = TaskContext.get()
        if context is not None and context.attemptNumber() > 0:
            planner = Planner(flow, self._options.run, once=plan.seconds == 0, process=self._options.process)
            try:
                plan = planner.renew(replace(plan, attempt=context.attemptNumber()))
            finally:
                planner.close()
        return read_task(plan, self._task_options(flow))

    def _nothing(self) -> "pa.RecordBatch":
        from sparkmirror.pipeline.relay.schema import close

        return close()

    def _task_options(self, flow: "FlowConfig") -> "ReaderOptions":
        return _reader_options(flow)

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing: the ledger has the progress before Spark knows of it."""

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()
            self._planner = None


def _reader_options(flow: "FlowConfig") -> "ReaderOptions":
    from sparkmirror.kafka.settings import client_settings
    from sparkmirror.pipeline.fetch.connection import FetchLimits
    from sparkmirror.pipeline.fetch.reader_options import ReaderOptions

    consumer = flow.consumer
    limits = FetchLimits(
        bytes_max=flow.fetch_bytes_max,
        partition_bytes_max=consumer.max_partition_fetch_bytes,
        bytes_min=consumer.fetch_min_bytes,
        wait_ms=consumer.fetch_max_wait_ms,
        read_committed=consumer.isolation_level == "read_committed",
        rack=consumer.client_rack,
    )
    commands = flow.ledger_topics.commands
    return ReaderOptions(
        client_settings(consumer.reach(flow.source), "reader"),
        limits,
        flow.lease_ring_bytes,
        flow.should_replicate,
        (client_settings(flow.target, "reader-commands"), commands),
        max(consumer.receive_buffer_bytes, 0),
        propose=_proposal(flow) if flow.has_own_classes else None,
    )


def _proposal(flow: "FlowConfig") -> Callable[[str], str | None]:
    """The user's classes' decision about a source topic, each asked once."""

    @cache
    def propose(topic: str) -> str | None:
        return flow.remote_topic(topic) if flow.should_replicate(topic) else None

    return propose


class FlowRecordsReader(KafkaRunsReader):
    """Plans as `KafkaRunsReader` does; rows are records."""

    def _nothing(self) -> "pa.RecordBatch":
        from sparkmirror.pipeline.relay.schema import padding, record_schema

        return padding(record_schema(self._options.carried))

    def _task_options(self, flow: "FlowConfig") -> "ReaderOptions":
        from sparkmirror.batch.unpacking import bound_for
        from sparkmirror.pipeline.fetch.record_rows import Decoding

        decoding = Decoding(self._options.carried, bound_for(flow.unpacked_bytes_max), self._options.members)
        usual = super()._task_options(flow)
        limits = replace(usual.limits, rest_seconds=_REST_SECONDS, half_rest_bytes=_ALWAYS_BYTES)
        return replace(usual, limits=limits, decode=decoding.rows, stages=self._options.stages)
