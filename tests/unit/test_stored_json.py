"""The one decoder of what is read from topics: what does not fit a declared type is never used."""

import subprocess
import sys
from dataclasses import dataclass, field

import pytest

from sparkmirror.errors import ProtocolError
from sparkmirror.stored_json import (
    BYTES_MAX,
    Count,
    Moment,
    Name,
    Number,
    Offset,
    TopicName,
    decode,
    decode_or_none,
    encode,
    encode_lossy,
    encode_sorted,
)


@dataclass(frozen=True, slots=True)
class Told:
    """One member of each kind."""

    topic: TopicName
    partition: Number = 0
    offset: Offset = 0
    count: Count = 0
    at_ms: Moment = 0
    run: Name = ""
    more: tuple[int, ...] = field(default=())


def test_members_that_a_version_does_not_know_are_ignored() -> None:
    assert decode(b'{"topic": "t", "offset": 4, "of": {"a": ["newer version"]}}', Told, "a record") == Told(
        "t", offset=4
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"{",
        b'{"topic": ""}',
        b'{"topic": "' + b"t" * 250 + b'"}',
        b'{"topic": 7}',
        b'{"topic": "t", "partition": -1}',
        b'{"topic": "t", "partition": 2147483648}',
        b'{"topic": "t", "partition": 1.5}',
        b'{"topic": "t", "partition": true}',
        b'{"topic": "t", "partition": "1"}',
        b'{"topic": "t", "offset": -1}',
        b'{"topic": "t", "offset": 9223372036854775807}',
        b'{"topic": "t", "count": 9223372036854775808}',
        b'{"topic": "t", "at_ms": 253402300800000}',
        b'{"topic": "t", "run": "' + b"r" * 1025 + b'"}',
        b'{"topic": "t", "more": [[1]]}',
        b'{"topic": "t", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"topic": "t", "run": "\xff"}',
    ],
    ids=lambda data: repr(data[:40]),
)
def test_whatever_does_not_fit_is_one_error_that_shows_little_of_it(data: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"^the record of a test cannot be read") as refused:
        decode(data, Told, "the record of a test")
    assert len(str(refused.value)) < 600
    assert decode_or_none(data, Told) is None


def test_what_is_too_long_is_not_even_read() -> None:
    fits = b'{"topic": "t"}'
    assert decode(fits.ljust(BYTES_MAX), Told, "it").topic == "t"
    with pytest.raises(ProtocolError, match="1,048,577 bytes"):
        decode(fits.ljust(BYTES_MAX + 1), Told, "it")
    with pytest.raises(ProtocolError, match="it is empty"):
        decode(None, Told, "it")


def test_mappings_keep_their_order_and_equal_sets_have_equal_bytes() -> None:
    assert encode({"b": 1, "a": (2, None)}) == b'{"b":1,"a":[2,null]}'
    assert encode_sorted([frozenset({64, 1, 33}), {"b": 1, "a": 2}]) == b'[[1,33,64],{"a":2,"b":1}]'


def test_an_odd_file_name_in_the_text_of_an_error_does_not_end_its_writer() -> None:
    odd = b"jars/\xff.jar".decode(errors="surrogateescape")
    with pytest.raises(UnicodeEncodeError):
        encode({"reason": odd})
    assert encode_lossy({"reason": odd, "more": "ü"}) == '{"reason":"jars/?.jar","more":"ü"}'.encode()
    assert encode_lossy({"reason": "ü"}) == encode({"reason": "ü"})


_MANY_THREADS = """
import sys, threading
from dataclasses import make_dataclass
from sparkmirror.stored_json import {call}

sys.setswitchinterval(1e-6)
for _ in range(100):
    parts = [(f"h{{at}}", dict[str, tuple[int, ...]] | None, None) for at in range(30)]
    inner = make_dataclass("Inner", [("g", int), *parts])
    kind = make_dataclass("Outer", [(f"f{{at}}", inner | None, None) for at in range(40)])
    ready = threading.Barrier(8)
    threads = [
        threading.Thread(target=lambda: (ready.wait(), {call}({value}, kind, "it"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


@pytest.mark.parametrize(("call", "value"), [("decode", b'{"f0":{"g":1}}'), ("convert", {"f0": {"g": 1}})])
def test_threads_that_read_a_kind_for_the_first_time_at_once_do_not_end_the_process(call: str, value: object) -> None:
    """Flows are prepared side by side: msgspec's own building of what it knows of a class is not safe then."""
    program = _MANY_THREADS.format(call=call, value=value)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
