"""Records as `sparkmirror tail` shows them: any bytes, safely, and never long."""

import json
from dataclasses import replace

import pytest

from sparkmirror.ledger.map_records import ChunkName, MapView, encode_chunk, encode_key
from sparkmirror.ledger.offset_map import OffsetMap
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.operations.sampling import source_offset
from sparkmirror.views.sample import Sample, sample_lines, show_data

ORDERS, REMOTE = TopicPartition("orders", 1), TopicPartition("A.orders", 1)
HEADERS = (("trace\x1b[31m", b"\x00\xff"), ("none", None))
SAMPLE = Sample(FlowName("A", "B"), ORDERS, 7, REMOTE, 5, 1_772_357_400_123, b"k1", b"a\nb", HEADERS)


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (None, "null"),
        (b"", ""),
        ("grün".encode(), "grün"),
        (b"a\x1b[2Jb\r\n\x07", "a\\x1b[2Jb\\r\\n\\x07"),
        ("ab\u202ecd".encode(), "ab\\u202ecd"),
        (b"\x00\x01\xfe", "0x0001fe"),
        (b"x" * 12, "xxxxxxxxxx… (12 bytes)"),
        (b"123456789" + "ü".encode(), "123456789… (11 bytes)"),
    ],
)
def test_no_byte_reaches_the_terminal_as_more_than_text(data: bytes | None, shown: str) -> None:
    assert show_data(data, 10) == shown


def test_a_record_says_where_it_was_and_where_it_is() -> None:
    assert sample_lines(SAMPLE, 100) == [
        "orders-1 7 -> A.orders-1 5  2026-03-01T09:30:00.123+00:00  key k1",
        "  a\\nb",
        "  trace\\x1b[31m: 0x00ff",
        "  none: null",
    ]


def test_a_record_whose_offset_is_kept_says_so() -> None:
    same = replace(SAMPLE, target_offset=7, is_identical=True)
    assert sample_lines(same, 100)[0].startswith("orders-1 7 -> A.orders-1 7 (identical)  2026-")
    assert (same.as_json(2)["identical_offsets"], SAMPLE.as_json(2)["identical_offsets"]) == (True, False)


def test_programs_get_text_or_base64() -> None:
    told = json.loads(json.dumps(SAMPLE.as_json(2)))
    assert (told["offset"], told["target_offset"], told["key"]) == (7, 5, {"text": "k1"})
    assert told["value"] == {"text": "a\n", "bytes": 3}
    assert [header["value"] for header in told["headers"]] == [{"base64": "AP8="}, None]


def test_the_source_offset_is_shown_where_the_map_is_exact() -> None:
    found = OffsetMap(0)
    found.append(0, 4, 0)
    found.append(6, 4, 4)
    found.append_unknown(10, 5)
    view = MapView("A")
    view.take(encode_key("A", ORDERS, ChunkName(1, 1, 1)), encode_chunk(found.as_chunk()))

    def at(target_offset: int) -> int | None:
        return source_offset(view, Sample(SAMPLE.flow, ORDERS, None, REMOTE, target_offset, 0, None, None))

    assert [at(offset) for offset in (0, 3, 4, 7, 9, 99)] == [0, 3, 6, 9, None, None]
