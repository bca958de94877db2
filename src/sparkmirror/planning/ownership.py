"""Decides which tasks of a flow this process runs: all of them, or its share if several processes share the flow.

A share comes over the command topic (`control.command_state`) and holds while its member is in the group of processes.
Owned by `planning.planner`.
"""

from collections.abc import Callable, Mapping

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.assignment import home_task
from sparkmirror.control.command_state import CommandState
from sparkmirror.control.commands import Began, Pause, Resume, Share, Throttle
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.membership import list_peers
from sparkmirror.ledger.topics import SHARING_GROUP
from sparkmirror.model import Topic, TopicPartition
from sparkmirror.planning.source_topics import partitions_of


class TaskOwnership:
    """`tasks` are those that it has taken. Without a `process` it does not share the flow."""

    def __init__(
        self, flow: FlowConfig, run: str, process: str, book: CommandState, tell: Callable[[Began], None]
    ) -> None:
        """`tell` writes to the command topic."""
        self._flow = flow
        self._run = run
        self._process = process
        self._book = book
        self._tell = tell
        self._began = 0
        self.tasks: frozenset[int] = frozenset()

    def has_work(self, target: Admin) -> bool:
        """Whether this process has any task, by the commands read so far."""
        if not self._process:
            return True
        share = self._book.share
        return share is not None and bool(share.tasks) and is_member(target, share)

    @property
    def is_told_to_wait(self) -> bool:
        """Whether others run all tasks, and this process still does not say that it is there to take some."""
        share = self._book.share
        return share is not None and not share.tasks and not self._book.is_stopped

    @property
    def can_grow(self) -> bool:
        """Whether others run tasks that may become this process's while its own go on; not when the epoch is to end."""
        share = self._book.share
        if share is None or not 0 < len(self.tasks) < self._flow.tasks_max:
            return False
        return share.tasks == self.tasks or (share.at_once and share.tasks > self.tasks)

    @property
    def orders(self) -> tuple[Pause | Resume | Throttle, ...]:
        """What persons have ordered, by the commands read so far."""
        return self._book.orders

    @property
    def granted_slots(self) -> int | None:
        """The number of tasks that a Spark cluster lets run at once; None on one machine."""
        slots = self._book.slots
        return None if slots is None else slots.tasks

    @property
    def epoch_seconds(self) -> float:
        slots = self._book.slots
        return float(self._flow.epoch_seconds if slots is None or not slots.turn_seconds else slots.turn_seconds)

    def take(self, target: Admin) -> None:
        """Take the tasks of the share as an epoch begins."""
        everything, share = frozenset(range(self._flow.tasks_max)), self._book.share
        if not self._process:
            self.tasks = everything
        else:
            self.tasks = share.tasks & everything if share is not None and is_member(target, share) else frozenset()

    def growth(self, target: Admin) -> frozenset[int]:
        """The tasks that may be taken beside `tasks` now, inside the epoch."""
        share = self._book.share
        if not self.can_grow or self._book.is_stopped or share is None or not self.tasks < share.tasks:
            return frozenset()
        if not is_member(target, share):
            return frozenset()
        return share.tasks & frozenset(range(self._flow.tasks_max)) - self.tasks

    def own(self, topics: Mapping[str, Topic]) -> list[TopicPartition]:
        """The partitions that this process mirrors."""
        return [where for where in partitions_of(topics) if home_task(where, self._flow.tasks_max) in self.tasks]

    def back_off(self) -> None:
        """No task runs in this process; tell the others."""
        if self._process and not self._book.is_stopped:
            self.tasks = frozenset()
            self.tell_began()

    def tell_began(self) -> None:
        """Tell the group that this process has ended what it ran beyond its share."""
        share = self._book.share
        if share is not None and share.number > self._began:
            self._tell(Began(self._run, self._process, share.number))
            self._began = share.number


def is_member(target: Admin, share: Share) -> bool:
    """Whether the share's member is still in the group. A process that the group removed while it slept must not fence:
    other processes have its tasks. Raises ClusterError where the coordinator does not say: one that is away puts nobody
    out."""
    return any(peer.member_id == share.member for peer in list_peers(target, SHARING_GROUP))
