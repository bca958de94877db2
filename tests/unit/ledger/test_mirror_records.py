"""MirrorMaker's internal records: the bytes that its own classes write."""

from typing import Any

import pytest

from sparkmirror.errors import ProtocolError
from sparkmirror.ledger.mirror_records import Checkpoint, Heartbeat, OffsetSync
from sparkmirror.model import FlowName, TopicPartition

ORDERS = TopicPartition("orders", 3)
REMOTE = TopicPartition("A.orders", 3)
VECTORS: list[tuple[Any, str, str]] = [
    (OffsetSync(ORDERS, 1000, 998), "00066f726465727300000003", "00000000000003e800000000000003e6"),
    (
        OffsetSync(TopicPartition("my.heartbeats", 0), 0, 0),
        "000d6d792e6865617274626561747300000000",
        "00000000000000000000000000000000",
    ),
    (
        Checkpoint("grp1", REMOTE, 1005, 999),
        "0004677270310008412e6f726465727300000003",
        "000000000000000003ed00000000000003e70000",
    ),
    (
        Checkpoint("grp1", REMOTE, 1005, 999, "md"),
        "0004677270310008412e6f726465727300000003",
        "000000000000000003ed00000000000003e700026d64",
    ),
    (
        Checkpoint("g1", TopicPartition("A.orders", 0), 123, 102, "meta-123"),
        "000267310008412e6f726465727300000000",
        "0000000000000000007b000000000000006600086d6574612d313233",
    ),
    (Heartbeat(FlowName("A", "B"), 1700000000000), "000141000142", "00000000018bcfe56800"),
]


@pytest.mark.parametrize(("record", "key", "value"), VECTORS)
def test_bytes_are_those_of_mirrormaker(record: Any, key: str, value: str) -> None:
    assert (record.key().hex(), record.value().hex()) == (key, value)
    assert type(record).parse(bytes.fromhex(key), bytes.fromhex(value)) == record


@pytest.mark.parametrize(("record", "key", "value"), VECTORS)
def test_what_is_no_such_record_is_refused(record: Any, key: str, value: str) -> None:
    right_key, right_value = bytes.fromhex(key), bytes.fromhex(value)
    for wrong_key, wrong_value in [(None, right_value), (right_key, None), (right_key[:-1], right_value),
                                   (right_key, right_value[:-1]), (b"\xff\xff", right_value)]:  # fmt: skip
        with pytest.raises(ProtocolError):
            type(record).parse(wrong_key, wrong_value)


def test_what_follows_the_last_field_is_ignored_as_in_java() -> None:
    sync = OffsetSync(ORDERS, 1, 2)
    assert OffsetSync.parse(sync.key() + b"x", sync.value() + b"x") == sync
