"""What is left of JSON values, and what stays whole because a parser may see it otherwise."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.batch.arrow_content import content_arrays
from sparkmirror.batch.columns import Columns

ASKED = frozenset({"region", "id"})
NESTED_TOO_DEEP = b'{"a": ' + b"[" * 61 + b"]" * 61 + b"}"
LONG_NAME = b'{"' + b"n" * 100 + b'": 1}'
LARGE = b'{"a": "' + b"x" * 1_000_000 + b'"}'
LONG_NUMBER = b'{"a": ' + b"1" * 101 + b"}"


def columns_of(values: list[bytes | None]) -> Columns:
    content, places = bytearray(b"key"), np.zeros((len(values), 6), np.int32)
    for at, value in enumerate(values):
        places[at] = 0, 3, len(content), -1 if value is None else len(value), len(content) + len(value or b""), 0
        content += value or b""
    numbers = np.arange(len(values), dtype=np.int64)
    return Columns(np.frombuffer(bytes(content), np.uint8), numbers, numbers, places)


def left_of(*values: bytes | None) -> list[bytes | None]:
    arrays = content_arrays(columns_of(list(values)), ("key", "value"), ASKED)
    assert arrays["key"].to_pylist() == [b"key"] * len(values)
    found: pa.Array = arrays["value"]
    found.validate(full=True)
    return found.to_pylist()


@pytest.mark.parametrize(
    ("value", "left"),
    [
        (b"{}", b"{}"),
        (b'{"region": "north", "id": 7}', b'{"region": "north","id": 7}'),
        (b'{"other": 1, "region": "north", "more": 2}', b'{"region": "north"}'),
        (b' {\t"a" : 1 ,\r\n"region" : [1, {"id": []}] } ', b'{"region" : [1, {"id": []}]}'),
        (b'{"region": 1, "a": 2, "region": null}', b'{"region": 1,"region": null}'),
        (b'{"a": {"region": 1}, "regio": 2, "regions": 3}', b"{}"),
        (b'{"a": [], "b": [[]], "c": {}, "d": {"e": {}}, "f": [1, {"g": [null]}, true]}', b"{}"),
        (b'{"a": "\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9", "b": "\xff\xc3", "c": "\x7f"}', b"{}"),
        (b'{"a": 0, "b": -0.50e+3, "c": 10E-2, "d": 1e5, "e": false, "f": ""}', b"{}"),
        (b'{"a": "' + b"x" * 1000 + b'", "id": "' + b"y" * 999 + b'"}', b'{"id": "' + b"y" * 999 + b'"}'),
    ],
)
def test_the_members_that_are_asked_for_stay(value: bytes, left: bytes) -> None:
    assert left_of(value, value) == [left, left]


@pytest.mark.parametrize("name", [b"reg\\u0069on", b"\xc3\xa4", b"\xff", b"x\\n"])
def test_a_member_stays_whose_name_another_parser_may_read_otherwise(name: bytes) -> None:
    member = b'"' + name + b'": 1'
    assert left_of(b'{"a": 0, ' + member + b"}") == [b"{" + member + b"}"]


@pytest.mark.parametrize(
    "value",
    [
        b"", b" ", b"[1]", b'"text"', b"7", b"null", b"{", b'{"a"', b'{"a":', b'{"a": 1', b'{"a": 1,', b'{"a": "x',
        b'{"a": 1,}', b'{,"a": 1}', b'{"a" 1}', b'{"a": 1 "b": 2}', b'{a: 1}', b"{'a': 1}", b'{"a": 1} x', b'{"a": 1}}',
        b'{"a": 01}', b'{"a": -}', b'{"a": 1.}', b'{"a": .5}', b'{"a": 1e}', b'{"a": +1}', b'{"a": NaN}', b'{"a": 1x}',
        b'{"a": tru}', b'{"a": TRUE}', b'{"a": nullx}', b'{"a": "\n"}', b'{"a": "\\x"}', b'{"a": "\\u12g4"}',
        b'{"a": "\\u12', b'{"a": "\\', b'{"a": [1,]}', b'{"a": [1}', b'{"a": {"b": 1]}', b'{"a": {"b"}}', b'{"a": [,]}',
        b'{"a": {1: 2}}', b'{"a": 1 /* why */}', b"\xef\xbb\xbf{}", b"\xff", b"\0", b'{"a": ' + b"x" * 40 + b"\x01}",
        b'{"a": "' + b"x" * 40 + b'\x01"}', NESTED_TOO_DEEP, LONG_NAME, LARGE, LONG_NUMBER,
    ],
)  # fmt: skip
def test_what_is_in_doubt_stays_whole(value: bytes) -> None:
    good = b'{"a": 1}'
    assert left_of(good, value, good) == [b"{}", value, b"{}"]


def test_nulls_stay_nulls_and_nothing_asked_for_leaves_all() -> None:
    values = [None, b'{"a": 1}', None, b""]
    assert left_of(*values) == [None, b"{}", None, b""]
    assert content_arrays(columns_of(values), ("value",))["value"].to_pylist() == values
    assert left_of() == []


NAMES = st.sampled_from(["region", "id", "other", "regio", "", "ä"]) | st.text(max_size=8)
TEXTS = st.text(max_size=40)
NUMBERS = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
)


@given(value=st.dictionaries(NAMES, JSON, max_size=6), spaced=st.booleans(), escaped=st.booleans())
def test_of_what_json_writes_the_others_go(value: dict[str, Any], spaced: bool, escaped: bool) -> None:
    separators = (" , ", "\t: ") if spaced else (",", ":")
    (left,) = left_of(json.dumps(value, ensure_ascii=escaped, separators=separators).encode("utf-8", "replace"))
    assert left is not None
    found = json.loads(left)
    wanted = {name: one for name, one in value.items() if name in ASKED}
    assert {name: found[name] for name in ASKED if name in found} == wanted
    assert all(name in ASKED or not (name.isascii() and name.isprintable()) or set(name) & set('"\\') for name in found)


@given(data=st.binary(max_size=60) | st.text('{}[]":, \\abu019-.e', max_size=30).map(str.encode))
def test_rubbish_is_neither_shortened_nor_read_beyond(data: bytes) -> None:
    (left,) = left_of(data)
    if left != data:
        json.loads(data.decode(errors="replace"))
