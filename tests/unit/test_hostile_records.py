"""Each reader of an internal topic is fed hostile records: none may raise, take long, or make something of nothing.

`make test` feeds a thousand to each, `make faults` a million to each (`docs/security.md` has its result).
"""

import json
import random
import time
from collections.abc import Callable, Iterator
from itertools import count, cycle
from typing import Final
from uuid import UUID

import pytest

from sparkmirror.config.flow.flows import parse_config
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.control.assignment import Assigned
from sparkmirror.control.commands import (
    Assign,
    Command,
    Pause,
    Selection,
    Share,
    Throttle,
    command_record,
    decode_command,
)
from sparkmirror.errors import ProtocolError
from sparkmirror.kafka.commit_log import COMMITS_TOPIC, parse_commit
from sparkmirror.kafka.tail import TailRecord
from sparkmirror.ledger import connect, gaps, map_records, positions
from sparkmirror.ledger.gaps import Gap
from sparkmirror.ledger.map_records import ChunkName, MapView
from sparkmirror.ledger.map_segments import Chunk, Segment
from sparkmirror.ledger.mirror_records import Checkpoint, Heartbeat, OffsetSync
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import Connector, FlowName, Position, TopicPartition
from sparkmirror.operations.cluster_checks import judge_records
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
from sparkmirror.stored_json import encode
from sparkmirror.sync.acl_job import noted
from sparkmirror.sync.canary_job import probe_number
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.histogram import Histogram
from sparkmirror.telemetry.records import encode_key

Record = tuple[bytes, bytes]
Reader = Callable[[bytes | None, bytes | None], object]

WHERE: Final = TopicPartition("orders", 3)
MM2: Final = Connector.of_dedicated_mode("A")
LOOK_EVERY: Final = 1000
SECONDS_MAX: Final = 5.0
"""For one record, on a machine that is busy otherwise; a reader that stalls takes minutes."""


def looking(take: Callable[[bytes | None, bytes | None], object], look: Callable[[], object]) -> Reader:
    """A reader that remembers all it was given: what it holds is looked at once for a thousand records."""
    numbers = count()

    def read(key: bytes | None, value: bytes | None) -> object:
        take(key, value)
        return look() if next(numbers) % LOOK_EVERY == 0 else take

    return read


def ledger() -> Reader:
    view = LedgerView(MM2)

    def take(key: bytes | None, value: bytes | None) -> None:
        view.take_connect(key, value)
        view.take_ours(key, value)

    def look() -> object:
        assert all(0 <= position.offset < 1 << 63 for position in view.positions.values())
        assert not view.problems.keys() & view.positions.keys(), "unknown is not a position"
        assert not {*view.unknown_tenures} - {*view.problems}
        return view

    return looking(take, look)


def board() -> Reader:
    shown = StatusBoard("A")
    return looking(lambda key, value: shown.take(key, value, 1), shown.status)


def offset_map() -> Reader:
    view = MapView("A")

    def read(key: bytes | None, value: bytes | None) -> object:
        where = view.take(key, value)
        found = view.map_of(where) if where is not None else None
        return found.translate(1000) if found is not None else None

    return read


def refusing(parse: Callable[[bytes | None, bytes | None], object]) -> Callable[[], Reader]:
    """A reader that may say that it cannot read a record, in the one way that is expected."""

    def read(key: bytes | None, value: bytes | None) -> object:
        try:
            return parse(key, value)
        except ProtocolError:
            return None

    return lambda: read


def some_gaps(key: bytes | None, value: bytes | None) -> object:
    return [gap.as_json() for gap in gaps.list_gaps("A", [(key, value)])]


def doctor() -> Reader:
    """Each record on the next topic."""
    places = cycle(TopicPartition(topic, 0) for topic in ledger_topics("A"))

    def read(key: bytes | None, value: bytes | None) -> object:
        return list(judge_records(FLOW, ledger_topics("A"), [TailRecord(next(places), 7, 1, key, value)]))

    return read


def a_commit(key: bytes | None, value: bytes | None) -> object:
    return parse_commit(TailRecord(TopicPartition(COMMITS_TOPIC, 0), 7, 0, key, value))


FLOW: Final = parse_config(
    parse_properties(
        b"clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n", "hostile"
    )
).flows[0]
TASK = {"run": "r", "epoch": 1, "failed": {"orders-3": "why"}, "latency": Histogram().as_json(), "paused": ["x"]}
GAP = Gap(WHERE, "retention", 100, 130, "went on", 1_700_000_000_000, UUID(int=7), "run")
RECORD = PositionRecord(Position(42, ((3, 7),), UUID(int=7)), generation=5, task=1, run="r")
ORDERS: Final[list[Command]] = [
    Assign("run", 4, 1, (Assigned(WHERE, 42),), (WHERE,), {"orders": 4}),
    Share("run", "p", 3, frozenset({0, 1}), "member"),
    Throttle("run", "orders.*", 1000),
    Pause.of("run", Selection("(a|b)+", 3), 5),
]
CARD = MemberMetadata(
    "host", 7, "m.properties", (Claim("A->B", 4, "abc", 9, frozenset({1}), "run", "A-mm2", "Connector"),)
)
JOURNAL = Journal({"fence": Taken({"acls": [1, 2]}, "done")})

COMMIT_KEY: Final = bytes.fromhex("0001000267310006" + b"orders".hex() + "00000003")

READERS: Final[dict[str, tuple[Callable[[], Reader], list[Record]]]] = {
    "ledger": (
        ledger,
        [
            (connect.encode_key(MM2, WHERE), connect.encode_value(42)),
            (positions.encode_key("A", WHERE), positions.encode_value(RECORD)),
        ],
    ),
    "commands": (refusing(lambda _, value: decode_command(value)), [command_record(order) for order in ORDERS]),
    "status": (
        board,
        [
            (encode_key("task", "A", 0), encode(TASK)),
            (encode_key("partition", "A", "orders", 3), encode({"run": "r", "task": 0, "epoch": 1, "offset": 4})),
            (encode_key("flow", "A", "p"), encode({"run": "r", "state": "RUNNING"})),
            (encode_key("job", "A", "topics"), encode({"run": "r", "state": "RUNNING"})),
            (encode_key("canary", "A"), encode({"run": "r", "sent": 4})),
        ],
    ),
    "gaps": (lambda: some_gaps, [(gaps.encode_key("A", GAP), gaps.encode_value(GAP))]),
    "offset map": (
        offset_map,
        [
            (
                map_records.encode_key("A", WHERE, ChunkName(1, 2, 3)),
                map_records.encode_chunk(Chunk((Segment(5, 0, -5), Segment(90, 80, -10)), 120, 110)),
            )
        ],
    ),
    "offset syncs": (refusing(OffsetSync.parse), [(OffsetSync(WHERE, 5, 7).key(), OffsetSync(WHERE, 5, 7).value())]),
    "checkpoints": (
        refusing(Checkpoint.parse),
        [(Checkpoint("g", WHERE, 5, 7).key(), Checkpoint("g", WHERE, 5, 7).value())],
    ),
    "heartbeats": (
        refusing(Heartbeat.parse),
        [(Heartbeat(FlowName("A", "B"), 5).key(), Heartbeat(FlowName("A", "B"), 5).value())],
    ),
    "journal": (refusing(lambda _, value: decode_journal(value or b"")), [(b"", encode_journal(JOURNAL))]),
    "shares": (
        refusing(lambda key, value: (decode_metadata(key or b""), decode_assignments(value or b""))),
        [(encode_metadata(CARD), encode_assignments([MemberAssignment("A->B", "run", frozenset({0}))]))],
    ),
    "probes": (lambda: lambda _, value: probe_number(value, "run"), [(b"A->B", b'{"canary": "run", "n": 4}')]),
    "commits": (
        lambda: a_commit,
        [
            (COMMIT_KEY, bytes.fromhex("0003" + "000000000000002a" + "00000005" + "00026d64" + "00" * 8)),
            (COMMIT_KEY, bytes.fromhex("0004" + "000000000000002a" + "00000005" + "036d64" + "00" * 9)),
        ],
    ),
    "doctor": (
        doctor,
        [
            (connect.encode_key(MM2, WHERE), connect.encode_value(42)),
            (positions.encode_key("A", WHERE), positions.encode_value(RECORD)),
            (encode_key("partition", "A", "orders", 3), encode({"run": "r", "task": 0, "epoch": 1, "offset": 4})),
            (gaps.encode_key("A", GAP), gaps.encode_value(GAP)),
        ],
    ),
    "ACL notes": (
        refusing(lambda key, _: noted(key, "A")),
        [(json.dumps(["acl", "A", ["orders", "LITERAL", "User:a", "*", "READ", "ALLOW"]]).encode(), b"{}")],
    ),
}

STRANGE: Final = [
    b"", b"null", b"{}", b"[]", b"[" * 50_000, b'{"a":' * 50_000, b"\xff" * 4096, b'"' + b"x" * (1 << 20) + b'"',
    b"9" * 5000, b"1e999", b"-1", b"NaN", b'"\\ud800"', b"\x00" * 64, b"true", b"\xef\xbb\xbf{}",
]  # fmt: skip
ATOMS: Final = [
    b"-1", b"9223372036854775807", b"9223372036854775808", b"1" * 400, b"1.5", b"true", b"null", b'""', b'"\\u0000"',
    b"[]", b"{}", b"[[[[[[]]]]]]", b'"(("', b'"' + b"a" * 3000 + b'"', b"-9223372036854775809", b"1e308",
]  # fmt: skip


def hostile(sample: bytes, chance: random.Random) -> bytes | None:
    """The sample, damaged: bits, cuts, more bytes, other values in the place of its own, or something else."""
    kind = chance.randrange(8)
    if kind == 0:
        return chance.choice([*STRANGE, None]) if chance.random() < 0.02 else b""
    data = bytearray(sample)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(data) + 1)
        if kind <= 2 and data:
            data[at - 1] ^= 1 << chance.randrange(8)
        elif kind == 3:
            del data[at : at + chance.randrange(1, 9)]
        elif kind == 4:
            data[at:at] = chance.randbytes(chance.randrange(1, 9))
        else:
            data = bytearray(_with_another_value(bytes(data), chance))
    return bytes(data)


def _with_another_value(data: bytes, chance: random.Random) -> bytes:
    marks = [at for at, byte in enumerate(data) if byte in b":,[" and at + 1 < len(data)]
    if not marks:
        return data + chance.choice(ATOMS)
    start = chance.choice(marks) + 1
    end = start + 1
    while end < len(data) and data[end] not in b",]}":
        end += 1
    return data[:start] + chance.choice(ATOMS) + data[end:]


def records(samples: list[Record], number: int, seed: int) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Half of them keep their key: those are the ones that a reader takes for its own."""
    chance = random.Random(seed)
    for strange in STRANGE:
        for key, value in samples:
            yield key, strange
            yield strange, value
    for _ in range(number):
        key, value = chance.choice(samples)
        yield (key if chance.random() < 0.5 else hostile(key, chance)), hostile(value, chance)


def feed(name: str, number: int) -> None:
    make, samples = READERS[name]
    read = make()
    for key, value in records(samples, number, seed=number):
        began = time.thread_time()
        read(key, value)
        assert time.thread_time() - began < SECONDS_MAX, (name, (key or b"")[:200], (value or b"")[:200])


@pytest.mark.parametrize("name", READERS)
def test_hostile_records_end_no_reader(name: str) -> None:
    feed(name, 1000)


@pytest.mark.parametrize("name", READERS)
def test_the_samples_themselves_are_read(name: str) -> None:
    make, samples = READERS[name]
    read = make()
    assert all(read(*sample) for sample in samples)


@pytest.mark.long
@pytest.mark.parametrize("name", READERS)
def test_a_million_hostile_records_end_no_reader(name: str) -> None:
    feed(name, 1_000_000)
