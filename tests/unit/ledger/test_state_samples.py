"""What one version has stored, the next ones read: samples of all that is kept on a target, as each version wrote it.

A change of a format keeps the old file and adds one, `state-<version>.json`, of what is written now.
"""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from sparkmirror import __version__
from sparkmirror.control.commands import (
    Began,
    Command,
    Pause,
    Restart,
    Resume,
    Retry,
    Selection,
    Share,
    Stop,
    Throttle,
    command_record,
    decode_command,
)
from sparkmirror.ledger import connect, gaps, map_records, positions
from sparkmirror.ledger.gaps import Gap
from sparkmirror.ledger.lineage import Extent
from sparkmirror.ledger.map_records import ChunkName
from sparkmirror.ledger.map_segments import Chunk, Segment
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.model import Connector, Position, TopicPartition
from sparkmirror.operations.journal import decode_journal, encode_journal
from sparkmirror.operations.steps import Journal, Taken
from sparkmirror.sharing.assignment import (
    Claim,
    MemberAssignment,
    MemberMetadata,
    decode_assignments,
    decode_metadata,
    encode_assignments,
    encode_metadata,
)

SAMPLES = sorted(Path(__file__).parent.glob("state-*.json"))
NEWEST = SAMPLES[-1] if SAMPLES else Path()
CONNECTOR = Connector.of_dedicated_mode("A")
WHERE = TopicPartition("orders", 3)
ID, REMOTE_ID = UUID(int=7), UUID(int=8)
POSITION = PositionRecord(Position(42, ((5, 0),), ID), 12, 1, True, "run", Extent("A.orders", REMOTE_ID, 40))
GAP = Gap(WHERE, "truncated", 10, 8, "continue", 1_700_000_000_000, ID, "run")
NAME = ChunkName(12, 1_700_000_000_000, 0)
CHUNK = Chunk((Segment(5, 0, 5, True), Segment(90, -3, 88, False)), 120, 117)
SPLIT_CHUNK = Chunk((Segment(5, 0, -5, splits=True), Segment(6, 3, -3)), 120, 117)
BITS_CHUNK = Chunk((Segment(5, 0, -5, bits=0b1101), Segment(9, 3, -6, splits=True), Segment(10, 5, -5)), 120, 115)
JOURNAL = Journal({"fence": Taken({"denied": ["orders"]}, "Nobody writes to orders.")}, True)
COMMANDS: tuple[Command, ...] = (
    Stop("run"),
    Stop("run", "p1"),
    Share("run", "p1", 2, frozenset({0, 2}), "member"),
    Began("run", "p1", 2),
    Throttle("run", "orders.*", 1000),
    Pause.of("run", Selection("orders.*", 3), 1_700_000_000_000),
    Resume.of("run", Selection(), 1_700_000_000_001),
    Retry.of("run", Selection("orders"), 1_700_000_000_002),
    Restart("run", 1_700_000_000_003),
)
CARD = MemberMetadata(
    "host", 7, "m.properties", (Claim("A->B", 4, "abc", 9, frozenset({1}), "run", "A-mm2", "Connector"),)
)
GRANTS = (MemberAssignment("A->B", "run", frozenset({0, 1}), "process 9 on other", False),)


def written() -> dict[str, list[str | None]]:
    """All samples as this version writes them: keys and values, bytes that are no text in base64."""
    records: dict[str, tuple[bytes | None, bytes]] = {
        "connect": (connect.encode_key(CONNECTOR, WHERE), connect.encode_value(42)),
        "position": (positions.encode_key("A", WHERE), positions.encode_value(POSITION)),
        "gap": (gaps.encode_key("A", GAP), gaps.encode_value(GAP)),
        "map": (map_records.encode_key("A", WHERE, NAME), map_records.encode_chunk(CHUNK)),
        "map of splits": (map_records.encode_key("A", WHERE, NAME), map_records.encode_chunk(SPLIT_CHUNK)),
        "map of bits": (map_records.encode_key("A", WHERE, NAME), map_records.encode_chunk(BITS_CHUNK)),
        "journal": (None, encode_journal(JOURNAL)),
        "card": (None, encode_metadata(CARD)),
        "grants": (None, encode_assignments(GRANTS)),
    }
    records |= {f"command {number}": command_record(command) for number, command in enumerate(COMMANDS)}
    return {name: [_text(part) for part in record] for name, record in records.items()}


def stored(file: Path) -> Iterator[tuple[str, bytes, bytes]]:
    for name, (key, value) in json.loads(file.read_text()).items():
        yield name, _bytes(key or ""), _bytes(value)


@pytest.mark.parametrize("file", SAMPLES, ids=lambda file: str(file.stem))
def test_what_any_version_has_stored_means_the_same_to_this_one(file: Path) -> None:
    read = {name: _read(name.split(" ")[0], key, value) for name, key, value in stored(file)}
    commands = [read.pop(name) for name in sorted(read) if name.startswith("command")]
    assert set(commands) <= set(COMMANDS) and commands
    expected = {
        "connect": (WHERE, 42),
        "position": (("A", WHERE), POSITION),
        "gap": GAP,
        "map": (("A", WHERE, NAME), CHUNK),
        "map of splits": (("A", WHERE, NAME), SPLIT_CHUNK),
        "map of bits": (("A", WHERE, NAME), BITS_CHUNK),
        "journal": JOURNAL,
        "card": CARD,
        "grants": GRANTS,
    }
    assert read.items() <= expected.items()


def test_what_is_written_now_is_kept_as_a_sample() -> None:
    """Else the next version could not be tested with it."""
    kept = json.loads(NEWEST.read_text())
    now = written()
    assert {name: record for name, record in now.items() if name != "journal"} == {
        name: record for name, record in kept.items() if name != "journal"
    }, f"a format has changed since {NEWEST.name}: add state-{__version__}.json, and keep the old file"


def _read(kind: str, key: bytes, value: bytes) -> object:
    match kind:
        case "connect":
            return connect.decode_key(key, CONNECTOR), connect.decode_value(value)
        case "position":
            return positions.decode_key(key), positions.decode_value(value)
        case "gap":
            return gaps.decode("A", key, value)
        case "map":
            return map_records.decode_key(key), map_records.decode_chunk(value)
        case "journal":
            return decode_journal(value)
        case "card":
            return decode_metadata(value)
        case "grants":
            return decode_assignments(value)
    return decode_command(value)


def _text(part: bytes | None) -> str | None:
    if part is None:
        return None
    try:
        return part.decode("ascii")
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(part).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text.removeprefix("base64:")) if text.startswith("base64:") else text.encode()
