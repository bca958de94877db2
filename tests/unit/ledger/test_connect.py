"""Kafka Connect's offset records: bytes and partitions as dumped from a live MirrorMaker 2."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.errors import ProtocolError
from sparkmirror.ledger.connect import (
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    jackson_string,
)
from sparkmirror.model import Connector, TopicPartition
from sparkmirror.policy.partitioner import murmur2_partition

MM2 = Connector.of_dedicated_mode("A")
ORDERS_3 = b'["MirrorSourceConnector",{"cluster":"A","partition":3,"topic":"orders"}]'


def test_a_key_is_written_as_connect_writes_it() -> None:
    assert encode_key(MM2, TopicPartition("orders", 3)) == ORDERS_3
    assert decode_key(ORDERS_3, MM2) == TopicPartition("orders", 3)


@pytest.mark.parametrize(
    ("topic", "partition", "stored_in"),
    [
        ("orders", 0, 3),
        ("orders", 1, 11),
        ("orders", 3, 4),
        ("txn", 0, 13),
        ("heartbeats", 0, 23),
        ("my.heartbeats", 0, 16),
        ("foo.internal", 0, 16),
        ("foo-internal", 0, 0),
        ("re1", 0, 17),
        ("re2", 0, 6),
    ],
)
def test_keys_live_where_a_live_mirrormaker_put_them(topic: str, partition: int, stored_in: int) -> None:
    assert murmur2_partition(encode_key(MM2, TopicPartition(topic, partition)), 25) == stored_in


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain", '"plain"'),
        ('a"b\\c', '"a\\"b\\\\c"'),
        ("\b\f\n\r\t", '"\\b\\f\\n\\r\\t"'),
        ("\x00\x1f\x0b", '"\\u0000\\u001F\\u000B"'),
        ("a/b\x7f", '"a/b\x7f"'),
        ("größe", '"größe"'),
        ("😀", '"\\uD83D\\uDE00"'),
    ],
)
def test_strings_are_escaped_as_jackson_does(text: str, written: str) -> None:
    assert jackson_string(text) == written


@given(st.text(st.characters(codec="utf-8"), max_size=30), st.integers(0, 100_000))
def test_any_alias_survives_the_round_trip(alias: str, partition: int) -> None:
    connector = Connector.of_dedicated_mode(alias)
    key = encode_key(connector, TopicPartition("orders", partition))
    assert decode_key(key, connector) == TopicPartition("orders", partition)
    assert json.loads(key)[1] == {"cluster": alias, "partition": partition, "topic": "orders"}


@pytest.mark.parametrize(
    "key",
    [
        None,
        b"",
        b"not json",
        b"17",
        b'["MirrorSourceConnector",{"cluster":"A","topic":"orders","partition":3}]',
        b'["MirrorSourceConnector", {"cluster":"A","partition":3,"topic":"orders"}]',
        b'["MirrorSourceConnector",{"cluster":"A","partition":true,"topic":"orders"}]',
        b'["MirrorSourceConnector",{"cluster":1,"partition":3,"topic":"orders"}]',
        b'["MirrorCheckpointConnector",{"partition":3,"topic":"A.orders","group":"grp1"}]',
    ],
)
def test_a_key_that_connect_would_not_find_is_not_ours_either(key: bytes | None) -> None:
    assert decode_key(key, MM2) is None


def test_a_renamed_connector_has_keys_of_its_own() -> None:
    strimzi = Connector("A", "mirrormaker2-cluster", "A->B.MirrorSourceConnector")
    key = encode_key(strimzi, TopicPartition("orders", 3))
    assert key == b'["A->B.MirrorSourceConnector",{"cluster":"A","partition":3,"topic":"orders"}]'
    assert decode_key(key, strimzi) == TopicPartition("orders", 3)
    assert decode_key(key, MM2) is None


def test_the_stored_offset_is_the_last_mirrored_one() -> None:
    assert encode_value(1001) == b'{"offset":1000}'
    assert decode_value(b'{"offset":1000}') == 1001


def test_nothing_mirrored_yet_is_stored_as_what_mirrormaker_takes_for_uncommitted() -> None:
    assert encode_value(0) == b'{"offset":-1}'
    assert decode_value(encode_value(0)) == 0
    with pytest.raises(ValueError, match="negative"):
        encode_value(-1)


@pytest.mark.parametrize("value", [None, b"null", b"{}", b'{"offset":null}', b'{"offset":-7}'])
def test_absent_and_negative_offsets_are_uncommitted(value: bytes | None) -> None:
    assert decode_value(value) is None


@pytest.mark.parametrize("value", [b'{"offset":1.0}', b'{"offset":"7"}', b'{"offset":true}', b"[1]", b"\xff", b""])
def test_what_breaks_mirrormaker_is_said(value: bytes) -> None:
    with pytest.raises(ProtocolError, match="A stored position"):
        decode_value(value)
