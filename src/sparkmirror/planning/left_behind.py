"""Ends what former tasks of a flow have left open in the target's partitions, before other tasks write there.

Brokers leave the marker of a transaction out where a partition has no leader as it ends. A task ends what its own
transactional id has left so (`pipeline.produce.left_open`); no marker of its own ends another id's, whose records, and
all behind them, stay unseen by read_committed consumers. So the leaders are asked whenever a partition goes to a task.
What is open there of an id that was taken over, and that no task uses yet, is ended under it, by the partition's
`CommittedEnd`; as an epoch begins under the id of its own task too, which may get nothing more to write there. Where
that cannot be done now, or where no leader answers for a partition that another producer wrote to last, the partition
gets no task yet. Blocks; owned by `planning.planner`, and by `planning.renewal` for one task.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import groupby
from typing import Final, NamedTuple

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.assignment import Assigned, Assignment
from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.fencing import ProducerIdentity, may_still_end, transactional_id
from sparkmirror.kafka.known_ids import used_producers
from sparkmirror.kafka.wire.leader_epochs import LeaderEpochs
from sparkmirror.kafka.wire.lookup import with_servers_from
from sparkmirror.kafka.wire.open_transactions import Looked, OpenTransaction, look
from sparkmirror.ledger.committed_end import CommittedEnd, Verdict, judge
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.model import Position, TopicPartition
from sparkmirror.planning.empty_transactions import end_left_open
from sparkmirror.planning.fencing import Taken, held_identities

log = logging.getLogger(__name__)

_NOBODY: Final = -1
_NAMED_MAX: Final = 5
_PAUSE_SECONDS: Final = 0.05
_PAUSE_SECONDS_MAX: Final = 0.5
_LOOK_SECONDS: Final = 3.0
_BOUNDED_LOOK_SECONDS: Final = 15.0
"""How long one look waits for leaders, and for markers that are under way: of a run that ends, it is the only one."""
_SILENT: Final = "no leader on the target has said whether a transaction of its former task is open in it"
_ENDING: Final = "the coordinator has yet to end a transaction of its former task there"
_HELD: Final = "a transaction of its former task lies open there, and another process has that task's transactional id"
_IN_USE: Final = "a transaction of its former task lies open there, which the next epoch ends"
_STAYS: Final = "its leader goes on saying that a transaction of its former task is open in it, which has ended"
_UNKNOWN: Final = """%s: a transaction of %s lies open in %s, and nobody knows whether it was committed: it is \
committed now, and its records may come twice."""

Tell = Callable[[Mapping[TopicPartition, str]], None]


class _Place(NamedTuple):
    """A partition of the target. `source` goes to a task whose producer id is `own`; to none here where that is
    _NOBODY. `end` is what is committed there, by the ledger."""

    source: TopicPartition
    end: CommittedEnd | None
    own: int

    @property
    def must_be_known(self) -> bool:
        """Whether another producer than its task's has written there last."""
        return self.own != _NOBODY and self.end is not None and self.end.producer_id != self.own


class _Open(NamedTuple):
    """What lies open in `where` under the transactional id of task `number`."""

    number: int
    commits: bool
    where: TopicPartition


class LeftBehind:
    """Of one flow. `tell` gets the partitions that wait, with the reasons; in a bounded run none may."""

    def __init__(
        self, flow: FlowConfig, tell: Tell = lambda _: None, *, is_bounded: bool = False, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._flow = flow
        self._tell = tell
        self._is_bounded = is_bounded
        self._clock = clock
        self._epochs = LeaderEpochs()
        self._turn = 0
        self._own: Mapping[int, int] = {}
        self._free: Mapping[int, ProducerIdentity] = {}
        self._tasks: Collection[int] = ()
        self.in_use: set[TopicPartition] = set()
        """The partitions that wait for the next epoch, since the id of a task that runs has something open there."""
        self._ended_for: set[TopicPartition] = set()

    def begin(
        self,
        target: Admin,
        taken: Mapping[int, Taken],
        assignment: Assignment,
        assigned: Mapping[TopicPartition, Assigned],
        records: Mapping[TopicPartition, PositionRecord],
        positions: Mapping[TopicPartition, Position],
    ) -> dict[TopicPartition, Assigned]:
        """Ends what lies open as an epoch begins, whose tasks write under the ids that were `taken` over: also where
        the partition goes to no task here, by the ledger's `records`, and by none of them that is older than the
        position that counts. Returns those that may begin. Raises ClusterError, for a bounded run where any may not."""
        self._ended_for = set(self.in_use)
        held = held_identities(taken)
        self._own = {task: one.identity.producer_id for task, one in taken.items()}
        self._tasks = taken.keys()
        used = {number for task in assignment for number in _used(taken[task])}
        self._free = {number: identity for number, identity in held.items() if number not in used}
        if not self._looks:
            return dict(assigned)
        places = [
            _Place(where, assigned[where].committed_end, self._own[task])
            for task, members in assignment.items()
            for where in members
            if where in assigned and _has_start(assigned[where])
        ]
        ours = {identity.producer_id for identity in held.values()}
        places += [
            _Place(where, record.committed_end if record.position == positions.get(where) else None, _NOBODY)
            for where, record in records.items()
            if where not in assigned and record.committed_end is not None and record.committed_end.producer_id in ours
        ]
        waits = self._clear(target, places, held, _BOUNDED_LOOK_SECONDS if self._is_bounded else _LOOK_SECONDS)
        if self._is_bounded and (waiting := waits.keys() & assigned.keys()):
            first = min(waiting)
            raise ClusterUnreachable(f"{self._flow.name}: {first} cannot begin: {waits[first]}.")
        return {where: item for where, item in assigned.items() if where not in waits}

    def renew(self, target: Admin, task: int, taken: Taken, items: list[Assigned]) -> list[Assigned]:
        """As `begin`, for one task that is tried again, whose ids alone were `taken` over."""
        assigned = {item.partition: item for item in items}
        begun = self.begin(target, {task: taken}, {task: frozenset(assigned)}, assigned, {}, {})
        return [item for item in items if item.partition in begun]

    def give(self, target: Admin, task: int, items: list[Assigned]) -> list[Assigned]:
        """Those that the task may be given inside the epoch. Raises ClusterError."""
        if not self._looks or not items:
            return items
        own = self._own.get(task, _NOBODY)
        places = [_Place(item.partition, item.committed_end, own) for item in items if _has_start(item)]
        waits = self._clear(target, places, self._free, _LOOK_SECONDS)
        return [item for item in items if item.partition not in waits]

    def free(self, taken: Mapping[int, Taken]) -> None:
        """Inside the epoch these ids were taken over, and no task uses them before the next one."""
        self._free = {**self._free, **held_identities(taken)}

    @property
    def asks_for_epoch(self) -> bool:
        """Whether something lies open that the next epoch ends, when the tasks of this process are fenced. What that
        one could not end waits for the one after, at its time."""
        return not self.in_use <= self._ended_for

    @property
    def _looks(self) -> bool:
        """Where records of several partitions go to one, several tasks may write there."""
        return self._flow.is_exactly_once and not self._flow.transforms.steps and self._flow.partitioning != "key"

    # One look.

    def _clear(
        self, target: Admin, places: Iterable[_Place], held: Mapping[int, ProducerIdentity], seconds: float
    ) -> dict[TopicPartition, str]:
        """Ends what may be ended under the ids that are `held`; the source's partitions that have to wait, and why."""
        left = {TopicPartition(self._flow.remote_topic(one.source.topic), one.source.partition): one for one in places}
        self.in_use -= {one.source for one in left.values()}
        pause, ends_at = _PAUSE_SECONDS, self._clock.monotonic() + seconds
        reasons: dict[TopicPartition, str] = {}
        while left:
            reasons = self._end_open(target, left, held)
            left = {where: left[where] for where in reasons}
            if not left or self._clock.monotonic() + pause > ends_at:
                break
            self._clock.sleep(pause)
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)
        waits = {left[where].source: why for where, why in reasons.items() if left[where].own != _NOBODY}
        self.in_use |= {source for source, why in waits.items() if why == _IN_USE}
        if waits:
            named, why = ", ".join(map(str, sorted(waits)[:_NAMED_MAX])), "; ".join(sorted(set(waits.values())))
            log.warning("%s: %s get no task yet: %s.", self._flow.name, named, why, extra={"event": "left-open"})
            self._tell(waits)
        return waits

    def _end_open(
        self, target: Admin, left: Mapping[TopicPartition, _Place], held: Mapping[int, ProducerIdentity]
    ) -> dict[TopicPartition, str]:
        """One question to each leader, and what follows: those that are not clear yet, and why."""
        looked = self._ask(target, left)
        waits = {where: _SILENT for where, one in left.items() if one.must_be_known and where not in looked.everyones}
        numbers = {identity.producer_id: number for number, identity in held.items()}
        found = [
            (where, producer_id, transaction)
            for where, place in left.items()
            for producer_id, transaction in looked.everyones.get(where, {}).items()
            if producer_id != place.own or producer_id in numbers
        ]
        if any(producer_id not in numbers for _, producer_id, _ in found):
            numbers = {**used_producers(target, self._flow.connector), **numbers}
        to_end = [one for where in looked.refused if (one := self._unseen(where, left[where], numbers)) is not None]
        for where in looked.refused:  # nobody says more of them
            waits.pop(where, None)
        for where, producer_id, transaction in found:
            number = numbers.get(producer_id)
            if number is None:
                continue  # another program's
            if number in held:
                commits = self._commits(where, left[where], producer_id, transaction, number)
                to_end.append(_Open(number, commits, where))
                if producer_id != left[where].own:  # else its task asks again, and reports what it finds
                    waits[where] = _STAYS
            else:
                waits[where] = self._why_not(target, number, where)
        for (number, commits), lot in groupby(sorted(one for one in to_end if one.number in held), key=lambda x: x[:2]):
            where_open = [one.where for one in lot]
            if why := end_left_open(self._flow, target, number, held[number], where_open, commits=commits):
                waits |= {one.where: why for one in to_end if one[:2] == (number, commits) and one.where in waits}
        return waits

    def _ask(self, target: Admin, left: Mapping[TopicPartition, _Place]) -> Looked:
        self._turn += 1
        settings = with_servers_from(target.connection.settings, self._turn, target.brokers().values())
        return look(settings, self._epochs, left.keys(), _NOBODY)

    def _commits(
        self, where: TopicPartition, place: _Place, producer_id: int, found: OpenTransaction, number: int
    ) -> bool:
        verdict = judge(found, producer_id, place.end)
        if verdict is Verdict.UNKNOWN:
            name = transactional_id(self._flow.connector, number)
            log.warning(_UNKNOWN, self._flow.name, name, where, extra={"event": "left-open"})
        return verdict is not Verdict.ABORTED

    def _unseen(self, where: TopicPartition, place: _Place, numbers: Mapping[int, int]) -> _Open | None:
        """Where the principal may not READ it is committed, as the former task itself would do."""
        if place.end is None or not place.must_be_known or place.end.producer_id not in numbers:
            return None
        return _Open(numbers[place.end.producer_id], True, where)

    def _why_not(self, target: Admin, number: int, where: TopicPartition) -> str:
        if may_still_end(target, transactional_id(self._flow.connector, number), where):
            return _ENDING
        return _IN_USE if number % self._flow.tasks_max in self._tasks else _HELD


def _has_start(item: Assigned) -> bool:
    """Whether its task is to write transactions there."""
    return not item.unknown and item.append is None


def _used(taken: Taken) -> set[int]:
    return {taken.number} if taken.spare is None else {taken.number, taken.spare[0]}
