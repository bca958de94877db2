"""Whether anybody can still be at tasks that a process is to take. No I/O but a look at this machine's processes.

A process that sleeps, or that nobody can reach, may go on for a moment with what it has under way. Who lets go of
tasks, or leaves, says so; one that was killed is known to be dead on its own machine. Owned by `sharing.group`.
"""

from collections.abc import Set
from dataclasses import dataclass

from sparkmirror.control.commands import Share
from sparkmirror.sharing.same_machine import is_dead_neighbour


@dataclass(frozen=True, slots=True)
class _Told:
    """A share, and the command topic of its flow."""

    topic: str
    share: Share


class Predecessors:
    """What every process was last told to run, as command topics have it."""

    def __init__(self) -> None:
        self._told: list[_Told] = []

    def note(self, topic: str, share: Share) -> None:
        """In the order of the topic. A process that starts its query anew, or joins anew, still has one share."""
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
