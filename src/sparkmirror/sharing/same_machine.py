"""Finds out whether another process of this machine still lives, and whether any process may still run tasks that this
one takes over.

A mark in the client id names the machine's boot and the process namespace, so that equal process ids of two containers
are not confused. A process that sleeps or cannot be reached may still write what it has under way. A process that
releases tasks, or leaves, writes so to the command topic; that a process was killed can be seen on its own machine.
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
"""The mark at the end of a client id, or of the member id that a broker makes of it."""
_ENDED = ("Z", "X")
_START_FIELD = 18
"""The index of `starttime`, the 22nd field of proc(5), among the fields after the state."""


def own_mark() -> str:
    """`share-<machine>-<pid>-<start>`: the role at the end of this process's client id."""
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
    """The start of a process in clock ticks since boot, which do not change when the clock is set. 0 when there is no
    such process, or it has ended and its parent has not waited for it; None when it is of another user and /proc hides
    it.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None if _exists(pid) else 0
    state, *fields = stat.rpartition(")")[2].split()  # the name before it may contain any character
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
class _Seen:
    """A share that was read, and the command topic of its flow."""

    topic: str
    share: Share


class Predecessors:
    """The last share of each process, as the command topics have it, and the tasks that processes have let go of."""

    def __init__(self) -> None:
        self._seen: list[_Seen] = []
        self._left: dict[tuple[str, str], frozenset[int]] = {}

    def note(self, topic: str, share: Share) -> None:
        """Takes in a command; call it in the order of the topic. A later share of the same query, or of the same group
        member, replaces the earlier one."""
        before = [one.share for one in self._seen if _is_same(one, topic, share) and one.share.run == share.run]
        left = frozenset[int]().union(*(one.tasks for one in before)) - share.tasks
        self._left[topic, share.run] = self._left.get((topic, share.run), frozenset()) | left
        self._seen = [one for one in self._seen if not _is_same(one, topic, share)]
        if share.tasks:
            self._seen.append(_Seen(topic, share))

    def have_ended(self, topic: str, share: Share, tasks: Set[int]) -> bool:
        """Whether all other processes that ran any of these `tasks`, which the share adds, have ended.

        Who ran a task of which the topic says nothing is unknown: its share may be older than the topic's retention.
        """
        others = [one for one in self._seen if (one.topic, one.share.run) == (topic, share.run)]
        others = [one for one in others if one.share.tasks & tasks and not _is_same(one, topic, share)]
        known = self._left.get((topic, share.run), frozenset()).union(*(one.share.tasks for one in others))
        return tasks <= known and all(is_dead_neighbour(one.share.member) for one in others)


def _is_same(one: _Seen, topic: str, share: Share) -> bool:
    return one.topic == topic and (one.share.process == share.process or one.share.member == share.member)
