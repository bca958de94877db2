"""Finds out whether another process of this machine still lives, and whether any process may still run tasks that this
one takes over.

A mark in the client id names the machine's boot and the process namespace, so that equal process ids of two containers
are not confused. A process that sleeps or cannot be reached may still write what it has under way. A process that has
released tasks, or leaves, writes so to the command topic; that a process was killed can be seen on its own machine.
Called by `sharing.group`.
"""

import re
from collections.abc import Set
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from os import getpid, kill
from pathlib import Path

from sparkmirror.control.commands import Began, Share

_MARK = re.compile(r"-share-([0-9a-f]{8})-(\d+)-(\d+)(?:-[0-9a-f-]{36})?$")
"""The mark at the end of a client id, or of the member id that a broker makes of it."""
_ENDED = (b"Z", b"X")
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
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None if _exists(pid) else 0
    state, *fields = stat.rpartition(b")")[2].split()  # the name before it may contain any byte
    return 0 if state in _ENDED else int(fields[_START_FIELD])


def _exists(pid: int) -> bool:
    try:
        kill(pid, 0)
    except (ProcessLookupError, OverflowError):  # a number that no process can have, by a client of any name
        return False
    except PermissionError:
        return True
    return True


@cache
def _machine() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return sha256(f"{boot} {Path('/proc/self/ns/pid').readlink()}".encode()).hexdigest()[:8]


@dataclass(slots=True)
class _Holder:
    """A process in one flow, given by the command topic and the run: `tasks` are those of its last share, and `running`
    those that it may still run."""

    topic: str
    share: Share
    member: str
    running: frozenset[int]


class Predecessors:
    """What each process may run, as the command topics have it, and the tasks that processes have let go of.

    A share that takes a task away asks for its end: the process has ended it once it keeps to the share (`Began`), or
    says with its last share that all have ended.
    """

    def __init__(self) -> None:
        self._holders: list[_Holder] = []
        self._left: dict[tuple[str, str], frozenset[int]] = {}

    def note(self, topic: str, share: Share) -> None:
        """Takes in a command; call it in the order of the topic. A later share of the same query, or of the same
        process, replaces the earlier one."""
        before = [one for one in self._holders if _is_same(one, topic, share)]
        self._holders = [one for one in self._holders if not _is_same(one, topic, share)]
        ran = frozenset[int]().union(*(one.running for one in before if one.share.run == share.run))
        member = share.member or next((one.member for one in before), "")
        if share.has_ended:
            self._note_left(topic, share.run, ran)
        else:
            self._holders.append(_Holder(topic, share, member, ran | share.tasks))

    def note_began(self, topic: str, began: Began) -> None:
        """Takes in a command, as `note`."""
        for one in self._holders:
            if (one.topic, one.share.process) == (topic, began.process) and one.share.number <= began.number:
                self._note_left(topic, one.share.run, one.running - one.share.tasks)
                one.running = one.share.tasks

    def _note_left(self, topic: str, run: str, tasks: frozenset[int]) -> None:
        self._left[topic, run] = self._left.get((topic, run), frozenset()) | tasks

    def have_ended(self, topic: str, share: Share, tasks: Set[int]) -> bool:
        """Whether all other processes that ran any of these `tasks`, which the share adds, have ended.

        Who ran a task of which the topic says nothing is unknown: its share may be older than the topic's retention.
        """
        others = [one for one in self._holders if (one.topic, one.share.run) == (topic, share.run)]
        others = [one for one in others if one.running & tasks and not _is_same(one, topic, share)]
        known = self._left.get((topic, share.run), frozenset()).union(*(one.running for one in others))
        return tasks <= known and all(is_dead_neighbour(one.member) for one in others)


def _is_same(one: _Holder, topic: str, share: Share) -> bool:
    return one.topic == topic and (one.share.process == share.process or _are_one(one.member, share.member))


def _are_one(one: str, other: str) -> bool:
    """Whether two member ids are of one process, which gets another one when it joins again."""
    return bool(one and other) and _owner(one) == _owner(other)


def _owner(member: str) -> tuple[str, ...]:
    found = _MARK.search(member)
    return (member,) if found is None else found.groups()
