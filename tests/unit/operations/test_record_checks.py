"""What `sparkmirror doctor` says of records that nobody can read."""

import pytest
from tests.flows import flow_of

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.commands import Stop, command_record
from sparkmirror.kafka.tail import TailRecord
from sparkmirror.ledger import connect, positions
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import TopicPartition
from sparkmirror.operations.cluster_checks import judge_records
from sparkmirror.telemetry.records import encode_key
from sparkmirror.views.findings import Level

ORDERS = TopicPartition("orders", 0)
TOPICS = ledger_topics("A")


@pytest.fixture
def flow() -> FlowConfig:
    return flow_of()


def record(topic: str, key: bytes | None, value: bytes | None, offset: int = 7) -> TailRecord:
    return TailRecord(TopicPartition(topic, 0), offset, 0, key, value)


def good(flow: FlowConfig) -> list[TailRecord]:
    return [
        record(TOPICS.offsets, connect.encode_key(flow.connector, ORDERS), connect.encode_value(4)),
        record(TOPICS.offsets, b'["another",{"file":"x"}]', b'{"line":4}'),
        record(TOPICS.positions, positions.encode_key("C", ORDERS), b"another flow's to judge"),
        record(TOPICS.commands, *command_record(Stop("run"))),
        record(TOPICS.status, encode_key("flow", "A", "p"), b'{"run":"r","state":"RUNNING"}'),
        record(TOPICS.status, b'["failover","A","B"]', b"packed"),
        record(TOPICS.gaps, b'["C","orders"]', b"another flow's"),
    ]


def test_records_that_can_be_read_are_one_good_line(flow: FlowConfig) -> None:
    (found,) = judge_records(flow, TOPICS, good(flow))
    assert (found.level, found.said) == (Level.OK, "A->B: all records can be read")


def test_an_unknown_position_fails_and_what_is_passed_by_is_counted_with_its_first_place(flow: FlowConfig) -> None:
    strange = [
        record(TOPICS.positions, positions.encode_key("A", ORDERS), b"garbage", 9),
        record(TOPICS.commands, b"one", b"[" * 100_000, 11),
        record(TOPICS.commands, b"another", b'{"kind":"pause"}', 12),
        record(TOPICS.status, encode_key("task", "A", 0), b"{}", 13),
        record(TOPICS.gaps, b"\xff", b"{}", 14),
        record(TOPICS.offset_map, b"[]", b"\x01", 15),
    ]
    found = list(judge_records(flow, TOPICS, [*good(flow), *strange]))
    assert [one.level for one in found] == [Level.FAIL] + [Level.WARN] * 4
    assert f"A->B orders-0: its position is unknown: topic {TOPICS.positions}, partition 0, offset 9" in found[0].said
    told = {one.said for one in found[1:]}
    assert (
        f"A->B: 2 records of {TOPICS.commands} cannot be read, and are passed by; "
        f"the first: topic {TOPICS.commands}, partition 0, offset 11"
    ) in told
