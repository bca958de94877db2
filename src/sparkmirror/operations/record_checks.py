"""Which records of a flow's internal topics cannot be read; changes nothing. Asked by `operations.cluster_checks`.

A mirror passes them by, but for those of its own that say where it stands: those keep a partition, or the flow, still.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.command_decoding import decode_command
from sparkmirror.decoding import decode_or_none
from sparkmirror.errors import AuthorizationFailed, ProtocolError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_tail
from sparkmirror.kafka.tail import TailRecord
from sparkmirror.ledger import gaps, map_records
from sparkmirror.ledger.topics import LedgerTopics, ledger_topics
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import TopicPartition
from sparkmirror.telemetry.records import encode_key, parse_record
from sparkmirror.views.findings import Finding, Level

_READ_SECONDS_MAX = 30.0
_WHAT = "internal topics"


def check_records(flow: FlowConfig, target: Admin) -> Iterator[Finding]:
    """Not of what may not be read, which `operations.needs` tells. Raises ClusterError."""
    topics = ledger_topics(flow.name.source, flow.offset_storage_topic)
    there = target.list_topics(list(topics))
    where = [TopicPartition(name, number) for name, topic in there.items() for number in range(topic.partitions)]
    if not where:
        return
    with open_tail(flow.target, "doctor", where) as tail:
        try:
            records = tail.read_to_end(_READ_SECONDS_MAX)
        except AuthorizationFailed:
            return
        yield from judge_records(flow, topics, records)


def judge_records(flow: FlowConfig, topics: LedgerTopics, records: Iterable[TailRecord]) -> Iterator[Finding]:
    """A line for each partition whose position is unknown, one for each topic with other records that are none."""
    view = LedgerView(flow.connector)
    strange: Counter[str] = Counter()
    first: dict[str, str] = {}
    takes: dict[str, Callable[[TailRecord], object]] = {
        topics.offsets: lambda one: view.take_connect(one.key, one.value, one.place, one.headers) or _is_json(one.key),
        topics.positions: lambda one: view.take_ours(one.key, one.value, one.place) or _is_json(one.key),
        topics.commands: lambda record: decode_command(record.value),
        topics.status: lambda record: _is_status(record, flow.name.source),
        topics.gaps: lambda record: _is_gap(record, flow.name.source),
        topics.offset_map: _is_chunk,
    }
    last = {(record.partition, record.key): record for record in records}
    for record in last.values():
        if record.value is not None and not takes[record.partition.topic](record):
            strange[record.partition.topic] += 1
            first.setdefault(record.partition.topic, record.place)
    alias = flow.name.target
    for where, problem in sorted(view.problems.items()):
        yield Finding(Level.FAIL, alias, _WHAT, f"{flow.name} {where}: {problem}")
    for topic, count in sorted(strange.items()):
        said = f"{flow.name}: {count:,} records of {topic} cannot be read, and are passed by; the first: {first[topic]}"
        yield Finding(Level.WARN, alias, _WHAT, said, "see who may write to that topic")
    if not view.problems and not strange:
        yield Finding(Level.OK, alias, _WHAT, f"{flow.name}: all records can be read")


def _is_json(key: bytes | None) -> bool:
    return decode_or_none(key, list[Any]) is not None


def _is_status(record: TailRecord, source_alias: str) -> bool:
    """Another flow's, a journal or a note of an ACL is no status record of this flow, and no strange one."""
    kinds = ("flow", "task", "partition", "job", "verify", "canary")
    is_ours = any((record.key or b"").startswith(encode_key(kind, source_alias)[:-1]) for kind in kinds)
    if is_ours:
        return parse_record(record.key, record.value, source_alias, record.timestamp_ms) is not None
    return _is_json(record.key)


def _is_gap(record: TailRecord, source_alias: str) -> bool:
    found = gaps.decode(source_alias, record.key, record.value)
    return _is_json(record.key) if found is None else found.cause != gaps.UNREADABLE


def _is_chunk(record: TailRecord) -> bool:
    try:
        return map_records.decode_key(record.key) is not None and bool(map_records.decode_chunk(record.value or b""))
    except ProtocolError:
        return False
