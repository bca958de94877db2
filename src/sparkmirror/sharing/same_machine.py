"""Tells whether another process of this machine still lives, and whether any process can still run tasks that this one
takes.

A mark in the client id names the machine's boot and the process namespace, so that a process id of another container is
not taken for one of this. A process that sleeps, or that cannot be reached, may write for a moment what it has under
way. A process that releases tasks, or leaves, says so; one that was killed is known to be dead on its own machine.
Called by `sharing.group`.
"""

import re
from collections.abc import Set
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from os import getpid, kill
from pathlib import Path

from sparkmirror.control.commands import Share

_MARK = re.compile(r"-share-([0-9a-f]{8})-(\d+)-(\d+)(?:-[0-9a-f-]{36})?$")
"""Ends a client id, or the member id that a broker makes of it."""
_ENDED = ("Z", "X")
_START_FIELD = 18
"""`starttime` of proc(5), the 22nd of all, counted from behind the state."""


def own_mark() -> str:
    """`share-<machine>-<pid>-<start>`, the role that ends this process's client id."""
    return f"share-{_machine()}-{getpid()}-{_started(getpid())}"


def is_dead_neighbour(name: str) -> bool:
    """Whether the client or member id is that of a process of this machine that has died. False for ids of other
    machines."""
    found = _MARK.search(name)
    if found is None or found[1] != _machine():
        return False
    started = _started(int(found[2]))
    return started is not None and started != int(found[3])


def _started(pid: int) -> int | None:
    """In clock ticks since boot, which no setting of the clock changes; 0 when there is no such process, or one that
    has ended and is not collected, and None for one of another user that is hidden from us.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None if _exists(pid) else 0
    state, *fields = stat.rpartition(")")[2].split()  # the name before it may hold anything
    return 0 if state in _ENDED else int(fields[_START_FIELD])


def _exists(pid: int) -> bool:
    try:
        kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@cache
def _machine() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return sha256(f"{boot} {Path('/proc/self/ns/pid').readlink()}".encode()).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class _Told:
    """A share, and the command topic of its flow."""

    topic: str
    share: Share


class Predecessors:
    """The tasks that each process was last given, as the command topics have them."""

    def __init__(self) -> None:
        self._told: list[_Told] = []

    def note(self, topic: str, share: Share) -> None:
        """Takes in a command; call in the order of the topic. A process that starts its query again, or joins again,
        has one share still."""
        self._told = [one for one in self._told if not _is_same(one, topic, share)]
        if share.tasks:
            self._told.append(_Told(topic, share))

    def have_ended(self, topic: str, share: Share, tasks: Set[int]) -> bool:
        """All others that ran any of the `tasks`, which are to be the share's."""
        others = [one for one in self._told if (one.topic, one.share.run) == (topic, share.run)]
        others = [one for one in others if one.share.tasks & tasks and not _is_same(one, topic, share)]
        return all(is_dead_neighbour(one.share.member) for one in others)


def _is_same(one: _Told, topic: str, share: Share) -> bool:
    return one.topic == topic and (one.share.process == share.process or one.share.member == share.member)
