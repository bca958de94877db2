"""Named places of the protocol at which a worker process kills or stops itself, for the fault tests.

A test names a directory in the environment (`SPARKMIRROR_KILL_POINTS`) when it starts a mirror, and arms a point by a
file of its name there, which holds how many passages to let go by, the last one included. The process that gets there
removes the file and sends itself the point's signal; no other does. Compiled code, which takes the turns of a mirror
that has caught up, passes no method: while a point is armed that it would pass by, turns are Python's. Called by
`spark.python_daemon` before it forks workers: without the variable nothing here is ever loaded, so a point that is
off costs nothing.
"""

import importlib
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final

ENVIRONMENT: Final = "SPARKMIRROR_KILL_POINTS"
_FILLED_BYTES = 1000


@dataclass(frozen=True, slots=True)
class KillPoint:
    """Before or after a method of a class; `counts` says which calls are passages, by their arguments. A point
    `of_compiled` turns lies behind or beside them; all others lie in Python's."""

    name: str
    module: str
    owner: str
    method: str
    is_after: bool
    counts: Callable[..., bool]
    of_compiled: bool = False
    sends: signal.Signals = signal.SIGKILL


def _brings_records(_reader: Any, _node: Any, _connection: Any, frame: Any, _partitions: Any) -> bool:
    return len(frame.buffer) > _FILLED_BYTES


def _carries_records(_connection: Any, items: Any, _timeout_ms: int) -> bool:
    return any(not partition.is_ledger for _, partition, _ in items)


def _is_of_records(buffer: Any, *_: Any) -> bool:
    return not buffer.is_ledger


def _asks_to_end(_coordinator: Any, _link: Any, question: Any, _now: float) -> bool:
    return type(question).__name__ == "EndTransaction"


def _ends_filler(_transactions: Any, question: Any) -> bool:
    return type(question).__name__ == "EndTransaction"


def _announced(turns: Any) -> bool:
    return bool(turns.announced)


def _took_runs(_books: Any, tables: Any, *_: Any) -> bool:
    return len(tables.runs) > 0


def _always(*_: Any) -> bool:
    return True


_SEND = ("sparkmirror.pipeline.produce.connection", "ProduceConnection", "send")
_READER = ("sparkmirror.pipeline.fetch.responses", "FetchResponseReader", "take_frame")
_SUCCEED = ("sparkmirror.pipeline.produce.buffer", "PartitionBuffer", "succeed")
_ASK = ("sparkmirror.pipeline.produce.coordinator", "Coordinator", "_send")
_FILL = ("sparkmirror.kafka.offset_fillers", "_Transactions", "_ask")
_SETTLE = ("sparkmirror.pipeline.fetch.plain_turns", "_Turns", "settle")
_BOOKS = ("sparkmirror.pipeline.produce.turn_books", "TurnBooks", "keep")

KILL_POINTS: Final = (
    KillPoint("after-fetch", *_READER, False, _brings_records),
    KillPoint("after-lease", *_READER, True, _brings_records),
    KillPoint("after-compiled-fetch-turns", *_SETTLE, False, _announced, of_compiled=True),
    KillPoint("before-produce", *_SEND, False, _carries_records),
    KillPoint("after-produce", *_SEND, True, _carries_records),
    KillPoint("after-compiled-produce-turns", *_BOOKS, False, _took_runs, of_compiled=True),
    KillPoint("after-acknowledgement", *_SUCCEED, True, _is_of_records),
    KillPoint("before-end-txn", *_ASK, False, _asks_to_end),
    KillPoint("after-end-txn-sent", *_ASK, True, _asks_to_end),
    KillPoint("after-end-txn", "sparkmirror.kafka.wire.coordinator", "EndTransaction", "decode", True, _always),
    KillPoint("before-a-hole-is-filled", *_FILL, False, _ends_filler),
    KillPoint("after-a-hole-is-filled", *_FILL, True, _ends_filler),
)
"""The points in the order in which a record passes them. Those of EndTxn are only passed with exactly-once, those of
holes where offsets are kept: there a filler's transaction is open before, and its marker may not be written after.
Behind compiled turns records are announced or written of which no book is kept yet."""

STOP_POINTS: Final = (
    KillPoint("before-first-report", "sparkmirror.pipeline.produce.reports", "Reports", "due", False, _always,
              of_compiled=True, sends=signal.SIGSTOP),
)  # fmt: skip
"""Where a worker stands still until a test wakes it: no sleep of a test is as exact."""

_COMPILED: Final = (
    ("sparkmirror.pipeline.fetch.plain_turns", "PlainTurns", "take", None),
    ("sparkmirror.pipeline.fetch.plain_answers", "PlainAnswers", "take", False),
    ("sparkmirror.pipeline.produce.plain_turns", "PlainTurns", "take", None),
)
"""The ways into compiled code, and what each returns where it leaves things to Python."""


def install(directory: Path) -> None:
    """Put all points into this process and those that it forks. Once."""
    for point in (*KILL_POINTS, *STOP_POINTS):
        _replace(point.module, point.owner, point.method, partial(_watched, point=point, armed=directory / point.name))
    pythons = [directory / point.name for point in KILL_POINTS if not point.of_compiled]
    for module, name, method, left in _COMPILED:
        _replace(module, name, method, partial(_left, points=pythons, left=left))


def _replace(module: str, name: str, method: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    owner = getattr(importlib.import_module(module), name)
    setattr(owner, method, wrap(getattr(owner, method)))


def _left(method: Callable[..., Any], points: Sequence[Path], left: bool | None) -> Callable[..., Any]:
    """Leaves all to Python while one of these is armed."""

    @wraps(method)
    def call(*arguments: Any) -> Any:
        return left if any(point.exists() for point in points) else method(*arguments)

    return call


def _watched(method: Callable[..., Any], point: KillPoint, armed: Path) -> Callable[..., Any]:
    passages = 0

    def note(*arguments: Any) -> None:
        nonlocal passages
        if not armed.exists():
            passages = 0
            return
        if point.counts(*arguments):
            passages += 1
            _signal_if_due(armed, passages, point.sends)

    @wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        if not point.is_after:
            note(*arguments)
        result = method(*arguments, **named)
        if point.is_after:
            note(*arguments)
        return result

    return call


def _signal_if_due(armed: Path, passages: int, which: signal.Signals) -> None:
    try:
        if passages < int(armed.read_text() or 1):
            return
        armed.unlink()
    except FileNotFoundError:  # another process was first
        return
    os.kill(os.getpid(), which)
