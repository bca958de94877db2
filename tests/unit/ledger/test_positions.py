"""Our own position records, and who is believed when they differ from Connect's."""

from dataclasses import replace
from uuid import UUID

import pytest

from sparkmirror.errors import ProtocolError
from sparkmirror.ledger.committed_end import CommittedEnd
from sparkmirror.ledger.lineage import Extent
from sparkmirror.ledger.positions import (
    LOG_HEADER,
    PositionRecord,
    authoritative,
    decode_key,
    decode_log,
    decode_value,
    encode_key,
    encode_log,
    encode_producer,
    encode_value,
    is_of_this_log,
    producer_key,
)
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import Connector, Position, Topic, TopicPartition

TOPIC_ID = UUID("5f7e8cb2-7de3-4b90-b5a2-2deea7c721fb")
RECORD = PositionRecord(Position(1001, ((5, 0), (7, 900)), TOPIC_ID), generation=4, task=2, released=True)
AHEAD = Position(1500, ((5, 0), (7, 900), (8, 1200)), TOPIC_ID)
LANDED = replace(RECORD, extent=Extent("A.orders", TOPIC_ID, 2002))


def test_records_are_compact_json() -> None:
    assert encode_key("A", TopicPartition("orders", 3)) == b'["A","orders",3]'
    assert encode_value(RECORD) == (
        b'{"offset":1001,"epochs":[[5,0],[7,900]],"id":"5f7e8cb2-7de3-4b90-b5a2-2deea7c721fb","generation":4,"task":2,"released":true,"run":"",'
        b'"target":null}'
    )


def test_records_survive_the_round_trip() -> None:
    assert decode_key(encode_key("A", TopicPartition("orders", 3))) == ("A", TopicPartition("orders", 3))
    assert decode_value(encode_value(RECORD)) == RECORD
    assert decode_value(encode_value(LANDED)) == LANDED
    aligned = replace(LANDED, is_aligned=True)
    assert decode_value(encode_value(aligned)) == aligned
    more = b',"aligned":true,"sequence":null}'
    assert encode_value(aligned) == encode_value(LANDED)[:-1] + more, "without it, as ever"
    assert decode_value(encode_value(replace(aligned, sequence=0))) == replace(aligned, sequence=0)
    assert decode_value(None) is None
    committed = replace(LANDED, committed_end=CommittedEnd(7, 3, 9))
    assert decode_value(encode_value(committed)) == committed
    assert encode_value(committed) == encode_value(LANDED)[:-1] + b',"committed":[7,3,9]}'


def test_the_producer_of_a_flow_that_keeps_offsets_is_no_position() -> None:
    key = producer_key("A")
    assert decode_key(key) is None
    view = LedgerView(Connector.of_dedicated_mode("A"))
    assert view.take_ours(key, encode_producer(4711)) is None
    assert (view.offsets_producer, view.positions, list(view.tenures())) == (4711, {}, [])
    view.take_ours(producer_key("B"), encode_producer(1))
    assert view.offsets_producer == 4711
    view.take_ours(key, b"damaged")
    assert view.offsets_producer == 4711, "a log is written with one producer id for good"
    view.take_ours(key, None)
    assert view.offsets_producer is None


def test_of_two_processes_that_begin_at_once_the_first_gives_the_producer() -> None:
    key, view = producer_key("A"), LedgerView(Connector.of_dedicated_mode("A"))
    view.take_ours(key, encode_producer(1))
    view.take_ours(key, encode_producer(2))
    assert (view.offsets_producer, view.last_offsets_producer) == (1, 2)
    view.take_ours(key, encode_producer(1))
    assert (view.offsets_producer, view.last_offsets_producer) == (1, 1), "what compaction leaves is the first"


def test_members_of_a_later_version_are_ignored_and_missing_ones_have_defaults() -> None:
    assert decode_value(b'{"offset":5,"generation":1,"task":0,"new":[]}') == PositionRecord(Position(5), 1, 0)


@pytest.mark.parametrize("key", [None, b"", b"{}", b'["A","orders"]', b'["A","orders","3"]', b'["A",1,3]'])
def test_foreign_keys_are_left_alone(key: bytes | None) -> None:
    assert decode_key(key) is None


@pytest.mark.parametrize(
    "value", [b"x", b"[]", b'{"offset":"many"}', b'{"offset":1,"id":"no","generation":1,"task":0}', b'{"offset":1}']
)
def test_a_damaged_record_is_said(value: bytes) -> None:
    with pytest.raises(ProtocolError, match="cannot be read"):
        decode_value(value)


@pytest.mark.parametrize(
    ("connect", "ours", "believed"),
    [
        (None, None, None),
        (None, RECORD, None),
        (Position(1001), None, Position(1001)),
        (Position(1001), RECORD, RECORD.position),
        (Position(1500), RECORD, Position(1500)),
        (Position(900), RECORD, Position(900)),
        (AHEAD, RECORD, AHEAD),
        (AHEAD, None, AHEAD),
    ],
)
def test_connect_is_the_authority(
    connect: Position | None, ours: PositionRecord | None, believed: Position | None
) -> None:
    assert authoritative(connect, ours) == believed


def test_a_position_that_a_writer_of_before_stored_when_it_woke_does_not_count() -> None:
    late = Position(900)
    assert authoritative(late, RECORD, RECORD.generation - 1) == RECORD.position
    for written_by in (None, RECORD.generation, RECORD.generation + 1):
        assert authoritative(late, RECORD, written_by) == late, "a person's, or the writer's own"
    assert authoritative(None, RECORD, RECORD.generation - 1) is None, "a reset by Connect's tools"


def test_a_record_of_connects_that_we_wrote_tells_its_log() -> None:
    assert decode_log(1500, [(LOG_HEADER, encode_log(AHEAD))]) == AHEAD


@pytest.mark.parametrize("header", [None, b"", b"[]", b'["no",[]]', encode_log(AHEAD)[:-1]])
def test_a_header_that_tells_no_log_leaves_the_position_unknown(header: bytes | None) -> None:
    """Without it, another log of that name would be taken for the one that was mirrored."""
    with pytest.raises(ProtocolError):
        decode_log(1500, [(LOG_HEADER, header)])


def test_a_record_that_another_program_wrote_tells_no_log() -> None:
    assert decode_log(1500, [("traceparent", b"x")]) == Position(1500)


def test_a_position_of_a_topic_that_was_deleted_on_the_target_tells_nothing_of_its_successor() -> None:
    extent = Extent("orders", UUID(int=1), 300)
    record = PositionRecord(Position(300), 1, 0, extent=extent, is_aligned=True)
    assert is_of_this_log(record, Topic("orders", UUID(int=1), 1, 1))
    assert not is_of_this_log(record, Topic("orders", UUID(int=2), 1, 1))
    assert is_of_this_log(replace(record, extent=None), Topic("orders", UUID(int=2), 1, 1)), "nobody knows"
    assert not is_of_this_log(replace(record, is_aligned=False), Topic("orders", UUID(int=1), 1, 1))
