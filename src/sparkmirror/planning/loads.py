"""What each partition of a run carries, by what its tasks tell on the status topic. Owned by `planning.planner`."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_tail
from sparkmirror.kafka.tail import TailRecord, TopicTail
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import TopicPartition
from sparkmirror.planning.balance import Load
from sparkmirror.telemetry.records import PartitionRecord, PartitionState, encode_key, parse_record

_BEHIND_SECONDS: Final = 5.0
"""A partition whose backlog is worth less of its own rate keeps up: so much is always under way."""
_READ_SECONDS_MAX: Final = 10.0


class Loads:
    """Means over the time between two calls of `read`. For one thread."""

    def __init__(self, flow: FlowConfig, run: str) -> None:
        self._flow = flow
        self._run = run
        self._where = TopicPartition(ledger_topics(flow.name.source, flow.offset_storage_topic).status, 0)
        self._prefix = encode_key("partition", flow.name.source)[:-1]
        self._open = ExitStack()
        self._tail: TopicTail | None = None
        self._before: dict[TopicPartition, PartitionRecord] = {}
        self._latest: dict[TopicPartition, PartitionRecord] = {}

    def read(self, target: Admin, owners: Mapping[TopicPartition, int]) -> dict[TopicPartition, Load]:
        """By partition; those of which their task has told nothing carry nothing. The first call finds none.

        Raises ClusterError.
        """
        if self._tail is None:
            end = target.await_end(self._where)
            self._tail = self._open.enter_context(open_tail(self._flow.target, "loads", [self._where]))
            self._tail.seek(self._where, end)
        latest = dict(self._latest)
        for record in self._tail.read_to_end(_READ_SECONDS_MAX):
            told = self._parse(record)
            if told is not None:
                latest[told.source] = told
        latest = {where: told for where, told in latest.items() if owners.get(where) == told.task}
        self._before, self._latest = self._latest, latest
        return {where: load_between(self._before.get(where), told) for where, told in latest.items()}

    def _parse(self, record: TailRecord) -> PartitionRecord | None:
        if not (record.key or b"").startswith(self._prefix):
            return None
        told = parse_record(record.key, record.value, self._flow.name.source, record.timestamp_ms)
        return told if isinstance(told, PartitionRecord) and told.run == self._run else None

    def close(self) -> None:
        """Ends the connection; the next `read` begins with what comes from then on."""
        self._open.close()
        self._tail = None


def load_between(before: PartitionRecord | None, latest: PartitionRecord) -> Load:
    """The mean rate between two records of one attempt of a task, else the one that was told."""
    rate = latest.bytes_per_second
    if (
        before is not None
        and (before.task, before.epoch, before.producer_epoch) == (latest.task, latest.epoch, latest.producer_epoch)
        and latest.at_ms > before.at_ms
    ):
        rate = max(latest.bytes - before.bytes, 0) * 1000 / (latest.at_ms - before.at_ms)
    backlog_seconds = (latest.lag_records or 0) / latest.records_per_second if latest.records_per_second else 0.0
    return Load(rate, latest.state is PartitionState.RUNNING and backlog_seconds > _BEHIND_SECONDS)
