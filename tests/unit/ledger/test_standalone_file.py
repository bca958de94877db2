"""The offsets file of a standalone worker: read as Java wrote it, and nothing else taken for one."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.errors import ConfigError, ProtocolError
from sparkmirror.ledger import connect
from sparkmirror.ledger.standalone_file import BYTES_MAX, parse, read_positions
from sparkmirror.model import Connector, TopicPartition

CONNECTOR = Connector("us", "connect", "us-source")
HEAD = bytes.fromhex(
    "aced0005737200116a6176612e7574696c2e486173684d61700507dac1c31660d103000246000a6c6f6164466163746f724900097468726573"
    "686f6c6478703f4000000000000c"
)
BYTES_CLASS = bytes.fromhex("7200025b42acf317f8060854e002000078 70")
END = b"x"


def serialised(entries: list[tuple[bytes | None, bytes | None]]) -> bytes:
    """As `ObjectOutputStream.writeObject` does with a HashMap of arrays of bytes that are all different objects."""
    written, has_class = b"", False
    for item in (one for entry in entries for one in entry):
        if item is None:
            written += b"p"
            continue
        kind = bytes.fromhex("71007e0002") if has_class else BYTES_CLASS
        has_class = True
        written += b"u" + kind + len(item).to_bytes(4) + item
    return HEAD + b"w\x08" + (16).to_bytes(4) + len(entries).to_bytes(4) + written + END


@given(st.dictionaries(st.binary(max_size=40), st.none() | st.binary(max_size=40), max_size=20))
def test_what_java_writes_is_read(entries: dict[bytes, bytes | None]) -> None:
    assert parse(serialised(list(entries.items()))) == entries


def test_an_array_that_came_before_is_named_by_its_handle() -> None:
    once = b"u" + BYTES_CLASS + (1).to_bytes(4) + b"k"
    text = HEAD + b"w\x08" + (16).to_bytes(4) + (1).to_bytes(4) + once + bytes.fromhex("71007e0003") + END
    assert parse(text) == {b"k": b"k"}


def test_a_null_key_is_left_out() -> None:
    assert parse(serialised([(None, b"v"), (b"k", b"v")])) == {b"k": b"v"}


WHOLE = serialised([(b"key", b"value"), (b"other", None)])


@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_a_file_that_is_cut_off_is_none(length: int) -> None:
    with pytest.raises(ProtocolError):
        parse(WHOLE[:length])


@pytest.mark.parametrize(
    "damaged",
    [
        WHOLE + b"x",
        WHOLE.replace(b"java.util.HashMap", b"java.util.HashSet"),
        WHOLE.replace(b"[B", b"[C"),
        WHOLE.replace((2).to_bytes(4) + b"u", (-1).to_bytes(4, signed=True) + b"u"),
        WHOLE.replace((2).to_bytes(4) + b"u", (1 << 30).to_bytes(4) + b"u"),
        WHOLE.replace((5).to_bytes(4) + b"value", (1 << 30).to_bytes(4) + b"value"),
        WHOLE.replace((5).to_bytes(4) + b"value", (-1).to_bytes(4, signed=True) + b"value"),
        WHOLE.replace(bytes.fromhex("71007e0002"), bytes.fromhex("71007e0003"), 1),
        WHOLE[: -len(b"px")] + bytes.fromhex("71007e0009") + END,
    ],
)
def test_what_is_anything_else_is_none(damaged: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse(damaged)


@given(st.binary(max_size=300), st.integers(0, len(WHOLE)))
def test_nothing_but_a_protocol_error_comes_of_anything(noise: bytes, at: int) -> None:
    for text in (noise, WHOLE[:at] + noise, WHOLE[:at] + noise + WHOLE[at:]):
        try:
            parse(text)
        except ProtocolError:
            continue


def position(connector: Connector, topic: str, value: bytes | None) -> tuple[bytes | None, bytes | None]:
    return connect.encode_key(connector, TopicPartition(topic, 0)), value


def test_the_positions_of_the_connector_alone_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "connect.offsets"
    other = Connector("us", "connect", "another")
    entries = [
        position(CONNECTOR, "orders", connect.encode_value(7)),
        position(CONNECTOR, "gone", None),
        position(other, "orders", connect.encode_value(9)),
        (b"something else", b"{}"),
    ]
    file.write_bytes(serialised(entries))
    assert read_positions(str(file), CONNECTOR) == {TopicPartition("orders", 0): 7}
    with pytest.raises(ConfigError, match="no position of the connector `us-source` with the source alias `eu` among"):
        read_positions(str(file), Connector("eu", "connect", "us-source"))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"key=value\n", "this is not the offsets file of a standalone worker"),
        (serialised([position(CONNECTOR, "orders", b'{"offset":"soon"}')]), "the position of orders-0"),
        (bytes(BYTES_MAX + 1), "more than 64 MiB"),
    ],
)
def test_a_file_of_no_use_is_reported_by_its_name(data: bytes, told: str, tmp_path: Path) -> None:
    file = tmp_path / "connect.offsets"
    file.write_bytes(data)
    with pytest.raises(ConfigError, match=told) as caught:
        read_positions(str(file), CONNECTOR)
    assert str(file) in str(caught.value)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_positions(str(tmp_path / "nothing"), CONNECTOR)
