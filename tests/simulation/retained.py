"""What a mirror holds once it has caught up and rests: memory is given back, nothing is under way, and nothing grows
with what was mirrored."""

from collections import deque
from collections.abc import Iterator
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any

from tests.simulation.transactions import ONGOING

if TYPE_CHECKING:
    from tests.simulation.history import Scene
    from tests.simulation.mirror import Attempt

_MEMBERS_MAX = 700
"""Of any collection: a history has thousands of records and of batches; an open piece of an offset map weighs 256, and
512 batches are entered into one together."""
_LOOKED_AT = 40
"""Of the members of a collection, how many are looked into."""
_SOCKETS_MAX = 40
"""Of a process: two brokers, some connections each."""


def problems(scene: "Scene") -> Iterator[str]:
    living = [mirror for mirror in scene.mirrors if not mirror.is_over]
    for attempt in (one for mirror in living for one in mirror.attempts.values()):
        if attempt.sender is not None and attempt.reads and not (attempt.problem or attempt.sender.ended):
            yield from _unreturned(attempt)
    for mirror in living:
        for process in mirror.processes:
            if (open_links := sum(one.process is process for one in scene.net.sockets)) > _SOCKETS_MAX:
                yield f"{process.name} holds {open_links} connections"
    for name, transaction in scene.target.coordinator.known.items():
        if transaction.state == ONGOING:
            yield f"the transaction of {name} stays open"


def _unreturned(attempt: "Attempt") -> Iterator[str]:
    """Where a partition is FAILED its records wait, and the reader's memory with them."""
    assert attempt.task_reader is not None, "it reads"
    task, ring = attempt.sender._task, attempt.task_reader._ring
    buffers = task._gate.buffers.values()
    if not any(one.is_failed for one in buffers):
        ring.collect()
        if ring._region_of:
            yield f"{attempt.writer.name} has not given back {len(ring._region_of)} leases"
        if ring.inline_outstanding_bytes:
            yield f"{attempt.writer.name} has not given back {ring.inline_outstanding_bytes} bytes that came in rows"
        if ring.unheard:
            yield f"{attempt.writer.name} has not taken {ring.unheard} announcements"
    for one in buffers:
        if not (one.is_failed or one.idle):
            yield f"{attempt.writer.name} holds records of {one.source} that are not acknowledged"
    if not task._progress.settled:
        yield f"{attempt.writer.name} waits for answers of the ledger"


def grown(scene: "Scene") -> Iterator[str]:
    """Collections of the product's objects that have more members than a mirror that rests needs, at the end."""
    for mirror in (one for one in scene.mirrors if not one.is_over):
        roots: list[tuple[str, Any]] = [("planner", mirror.planner), ("jobs", mirror.jobs and mirror.jobs._jobs)]
        for attempt in mirror.attempts.values():
            roots += [("sender", attempt.sender), ("reader", attempt.task_reader)]
        for path, size in _collections(roots):
            if size > _MEMBERS_MAX:
                yield f"{mirror.name} holds {size} members in {path}"


def _collections(roots: list[tuple[str, Any]]) -> Iterator[tuple[str, int]]:
    """Those that can be reached, each once."""
    left, seen = deque(roots), set[int]()
    while left:
        path, one = left.popleft()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, dict | list | tuple | set | frozenset | deque):
            yield path, len(one)
        left.extend((f"{path}.{name}", member) for name, member in _members(one))


def _members(one: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(one, dict):
        for _, (key, value) in zip(range(_LOOKED_AT), one.items(), strict=False):
            yield from (("key", key), ("value", value))
    elif isinstance(one, list | tuple | set | frozenset | deque):
        yield from (("member", member) for _, member in zip(range(_LOOKED_AT), one, strict=False))
    elif isinstance(one, MethodType):
        yield "self", one.__self__
    elif isinstance(one, partial):
        yield from (("argument", member) for member in (one.func, *one.args))
    elif type(one).__module__.startswith("sparkmirror."):
        slots = [name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())]
        named = {name: getattr(one, name, None) for name in slots} | getattr(one, "__dict__", {})
        yield from named.items()
