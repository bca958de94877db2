"""Who reads what, from where: the planning of a flow, in Spark's planning process.

At the start of each epoch: fence predecessors, read the ledger, list the source's partitions, assign them
(`planning.plan`). During the epoch a thread looks for new topics and partitions and hands them out by commands, and
moves partitions between tasks: released by the one, visible in the ledger, then given to the other. It also hands out
what another process has left (`planning.ownership`). It shares nothing with the program that started the query but
options and Kafka. Owned by `spark.run_reader`.
"""

import logging
import secrets
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.admission import prove
from sparkmirror.control.assignment import Assigned, Assignment, TaskPlan
from sparkmirror.control.command_state import CommandState
from sparkmirror.control.commands import Assign, Command, Restart, command_record, in_parts
from sparkmirror.errors import ClusterUnreachable, SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.publish import Publisher
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.ledger.setup import ensure_ledger_topics
from sparkmirror.ledger.topics import LedgerTopics
from sparkmirror.model import Position, Topic, TopicPartition
from sparkmirror.planning.balance import after_moves
from sparkmirror.planning.fencing import last_generation, stop_if_replaced, take_over
from sparkmirror.planning.hand_over import HandOvers, Partings, by_new_task
from sparkmirror.planning.idle_ids import IdleIds
from sparkmirror.planning.left_behind import LeftBehind
from sparkmirror.planning.left_in_ledger import read_through
from sparkmirror.planning.ownership import TaskOwnership
from sparkmirror.planning.plan import plan_assignment, plan_moves
from sparkmirror.planning.renewal import renew
from sparkmirror.planning.sizing import Sizing
from sparkmirror.planning.source_topics import SourceTopics, Withheld, by_topic, partitions_of
from sparkmirror.planning.starts import assign_starts
from sparkmirror.planning.status_records import StatusRecords

log = logging.getLogger(__name__)

_LEDGER_POLL_SECONDS = _HEAR_SECONDS = 0.2
_RELEASE_SECONDS_MAX, _LOADS_SECONDS, _LOOK_SECONDS_MAX = 10.0, 30.0, 60.0


class Planner:
    """Plans one flow's query. `run` is the query's own id: commands of other runs are ignored."""

    def __init__(self, flow: FlowConfig, run: str, *, once: bool, process: str = "") -> None:
        """`process` is one of those that share the flow, and works as far as it has a share; without, it takes all."""
        self._flow = flow
        self._run = run
        self._process = process
        self._book = CommandState(flow, run, process)
        self._ownership = TaskOwnership(flow, run, process, self._book, self._tell)
        self._once = once
        self._topics: LedgerTopics = flow.ledger_topics
        self._open = ExitStack()
        self._source: Admin | None = None
        self._target: Admin | None = None
        self._ledger: LedgerReader | None = None
        self._publisher: Publisher | None = None
        self._ends: Mapping[TopicPartition, int] | None = None
        self._assignment: Assignment = {}
        self._generation = 0
        self._secret = secrets.token_bytes(32)
        self._status = StatusRecords(flow, run)
        self._left_behind = LeftBehind(flow, self._status.note_waiting, is_bounded=once)
        self._idle_ids = IdleIds(flow)
        self._source_topics, self._withheld = SourceTopics(flow), Withheld(flow)
        self._handed_out: Mapping[str, Topic] | None = None
        self._hand_overs = HandOvers(flow, run)
        self._sizing = Sizing(flow, self._ownership, once=once)
        self._partings = Partings()
        self._balance_at, self._balances = 0.0, flow.balance_interval_seconds > 0
        self._is_in_doubt = False
        self._watcher: threading.Thread | None = None
        self._stopping = threading.Event()

    # Called by Spark's planning, on its thread.

    def begin_epoch(self, epoch: int) -> list[TaskPlan]:
        """The plans of all tasks for one epoch.

        Raises SparkMirrorError when a cluster does not answer, FencedError when a later run works in our place.
        """
        self.end_epoch()
        source, target, ledger = self._clients()
        # Unknown is not 0: pauses and throttles would look forgotten.
        if commands_from := target.await_end(TopicPartition(self._topics.commands, 0)):
            self._book.read()
        stop_if_replaced(self._flow, self._run, ledger, self._generation)
        self._ownership.take(target)
        taken = take_over(self._flow, target, ledger, self._ownership.tasks)
        self._ownership.tell_began()
        positions = read_through(self._flow, target, ledger, taken)
        wanted = self._handed_out = self._source_topics.read(source)
        partitions = [tp for tp in self._ownership.own(wanted) if not self._once or tp in self.ends()]
        if not self._once:
            partitions = self._withheld.ready(partitions, self._assignment, target)
        assigned = {item.partition: item for item in self._assigned(partitions, wanted, positions)}
        tasks, kept = self._sizing.begin(assigned.values(), ledger.view.records, self._assignment, source)
        self._status.begin_epoch(self._ownership.tasks - set(tasks), ledger.view.known, wanted)  # of who left, too
        self._assignment = plan_assignment(partitions, tasks, kept, self._hand_overs.rates)
        assigned = self._left_behind.begin(target, taken, self._assignment, assigned, ledger.view.records, positions)
        self._generation = last_generation(self._flow, ledger, self._generation, self._book.ordered_generation) + 1
        self._sizing.note_held(assigned, self._generation)
        self._idle_ids.bar(target, taken, self._assignment, ledger.partitions)
        leaders = {tp: leader.node_id for tp, leader in source.leaders(wanted).items()}
        self._source_topics.note_known(wanted)
        plans = [
            TaskPlan(
                task=task,
                run=self._run,
                epoch=epoch if self._book.share is None else self._generation,  # counted by all processes
                generation=self._generation,
                seconds=0.0 if self._once else self._ownership.epoch_seconds,
                assigned=tuple(assigned[tp] for tp in sorted(members) if tp in assigned),
                producer_id=taken[task].identity.producer_id,
                producer_epoch=taken[task].identity.epoch,
                producer_task=taken[task].number,
                spare=taken[task].spare,
                brokers=source.brokers(),
                leaders={tp: leaders[tp] for tp in members if tp in leaders},
                commands_from=commands_from,
                limits=self._flow.rate_limits,
                orders=self._book.orders,
                topics=self._source_topics.counts,
                share=self._book.share,
                offsets_partitions=ledger.offsets_partitions,
                secret=self._secret,
                sizing=self._sizing.reason,
                siblings=tuple(sorted(self._assignment)),
            )
            for task, members in sorted(self._assignment.items())
        ]
        self._put_back(partitions, assigned)
        may_change = self._flow.refresh_topics_enabled or self._looks_at_loads or self._ownership.can_grow
        if plans and not self._once and may_change:
            self._start_watching()
        return plans

    # What this process is to do of the flow.

    def is_stopped(self) -> bool:
        """Whether a stop command was given to this run."""
        self._clients()  # the command topic exists then
        self._book.read()
        return self._book.is_stopped

    def has_work(self) -> bool:
        """Whether there is any task for this process, by what `is_stopped` has read."""
        return self._ownership.has_work(self._clients()[1])

    @property
    def is_told_to_wait(self) -> bool:
        """Whether others run all tasks, and this process still does not say that it is there to take some."""
        return self._ownership.is_told_to_wait

    def back_off(self, seconds_max: float) -> None:
        """Nothing runs here, and the others may know; returns when there may be work, not much after `seconds_max`."""
        self._ownership.back_off()
        self._book.wait(seconds_max)

    def ends(self) -> Mapping[TopicPartition, int]:
        """Where a bounded run ends: the source's end offsets, fixed at the first call. Raises OffsetsUnknown."""
        if self._ends is None:
            source, _, _ = self._clients()
            self._ends = source.await_newest_ends(partitions_of(self._source_topics.read(source)))
        return self._ends

    def is_complete(self) -> bool:
        """Whether a bounded run has reached all its ends, by the ledger."""
        positions, ends = self._clients()[2].read_to_end(), self.ends()
        return all(tp in positions and positions[tp].offset >= end for tp, end in ends.items() if end > 0)

    def positions(self) -> dict[str, dict[str, int]]:
        """Source positions by topic and partition, as Spark's progress shows them."""
        return by_topic(self._clients()[2].read_to_end())

    def renew(self, plan: TaskPlan) -> TaskPlan:
        """The plan for a repeated attempt of a task (`planning.renewal`)."""
        return renew(plan, self._flow, self._run, *self._clients())

    def close(self) -> None:
        self.end_epoch()
        self._forget_clients()

    # Clusters.

    def _clients(self) -> tuple[Admin, Admin, LedgerReader]:
        if self._source is None or self._target is None or self._ledger is None:
            self._source = self._open.enter_context(open_admin(self._flow.source, "planner"))
            self._target = self._open.enter_context(open_admin(self._flow.target, "planner"))
            for warning in ensure_ledger_topics(self._target, self._topics):
                log.warning("%s: %s", self._flow.name, warning)
            self._ledger = self._open.enter_context(LedgerReader(self._flow.target, self._topics, self._flow.connector))
        return self._source, self._target, self._ledger

    def _forget_clients(self) -> None:
        self._open.close()
        self._book.close()
        self._hand_overs.close()
        self._open = ExitStack()
        self._source = self._target = self._ledger = self._publisher = None

    def _put_back(self, partitions: Iterable[TopicPartition], assigned: Collection[TopicPartition]) -> None:
        """Whose start is not known has no task, and is looked at again."""
        if not self._once and (unknown := {tp for tp in partitions if tp not in assigned}):
            self._withheld.back_off(unknown)
            self._assignment = {task: members - unknown for task, members in self._assignment.items()}

    def _assigned(
        self,
        partitions: list[TopicPartition],
        topics: Mapping[str, Topic],
        positions: Mapping[TopicPartition, Position],
        task: int | None = None,
    ) -> list[Assigned]:
        ends, notes = self.ends() if self._once else None, self._status.fill_notes(self._withheld.note_filling)
        items = assign_starts(self._flow, self._clients(), partitions, topics, positions, ends, notes)
        return items if task is None else self._left_behind.give(self._clients()[1], task, items)

    # During the epoch, on a thread of its own.

    def _start_watching(self) -> None:
        self._stopping.clear()
        self._watcher = threading.Thread(target=self._watch, name="sparkmirror-planner", daemon=True)
        self._watcher.start()

    def end_epoch(self) -> None:
        """Stop looking for changes; the clients are the caller's alone from here on.

        Raises ClusterUnreachable while a look does not end: it would give orders by a plan that is no more.
        """
        if self._watcher is not None:
            self._stopping.set()
            self._watcher.join(_LOOK_SECONDS_MAX)
            if self._watcher.is_alive():
                raise ClusterUnreachable(f"{self._flow.name}: a look for new topics has not ended yet.")
            self._watcher = None
        self._is_in_doubt = False
        self._hand_overs.forget()
        self._partings.forget()
        self._withheld.look_again(self._left_behind.in_use)

    def _watch(self) -> None:
        look_at = time.monotonic() + self._flow.look_seconds
        while not self._stopping.wait(0.0 if self._ownership.can_grow else max(look_at - time.monotonic(), 0.0)):
            try:
                if self._is_in_doubt or self._left_behind.asks_for_epoch:
                    self._end_tasks()
                    self._stopping.wait(self._flow.look_seconds)
                    continue
                if self._ownership.can_grow:
                    self._tell()  # nothing: connects
                    self._book.hear(_HEAR_SECONDS)
                    self.grow()
                if time.monotonic() >= look_at:
                    self._look()
                    look_at = time.monotonic() + (0.0 if self._withheld.is_filling else self._flow.look_seconds)
            except SparkMirrorError as problem:
                log.warning("%s: looking for new topics and loads failed: %s", self._flow.name, problem)
                self._forget_clients()
                self._stopping.wait(self._flow.look_seconds)

    def _look(self) -> None:
        if self._flow.refresh_topics_enabled:
            self.refresh()
        self._complete_moves(0.0)
        if self._looks_at_loads and time.monotonic() >= self._balance_at:
            self._balance_at = time.monotonic() + (self._flow.balance_interval_seconds or _LOADS_SECONDS)
            self.balance()
            self._resize()

    def grow(self) -> None:
        """Has what another process left mirrored by the tasks that run: theirs go on meanwhile.

        The process that ran it is fenced first, as an epoch begins. Raises SparkMirrorError, and is tried again.
        """
        _, target, ledger = self._clients()
        if more := self._ownership.growth(target):
            stop_if_replaced(self._flow, self._run, ledger, self._generation)
            self._left_behind.free(take_over(self._flow, target, ledger, more))
            # A greater one tells whose offset map is newer.
            self._generation = last_generation(self._flow, ledger, self._generation, self._book.ordered_generation)
            before, self._ownership.tasks = self._ownership.tasks, self._ownership.tasks | more
            self._handed_out = None
            try:
                self.refresh()
            except SparkMirrorError:
                self._ownership.tasks = before
                raise

    @property
    def _looks_at_loads(self) -> bool:
        return self._sizing.may_change or (self._balances and len(self._assignment) > 1)

    def _resize(self) -> None:
        """Ends the epoch where the load asks for more tasks: the next one fences, reads the ledger and has them."""
        if self._sizing.look(self._hand_overs.task_reports):
            self._end_tasks()

    def _end_tasks(self) -> None:
        self._tell(Restart(self._run, time.time_ns() // 1_000_000, self._process))

    def refresh(self) -> None:
        """One round: hand out partitions that are new, take back those that are gone."""
        source, target, ledger = self._clients()
        self._order_releases()  # of a partition whose topic has gone meanwhile too
        if self._partings:
            ledger.poll(_LEDGER_POLL_SECONDS)
            self._partings.end(ledger.view.records, ledger.view.is_whole)
            self._handed_out = None
        wanted = self._source_topics.read(source)
        if wanted is self._handed_out and not self._status.gone and not self._withheld:
            return
        ready = self._withheld.ready(self._ownership.own(wanted), self._assignment, target)
        partitions = [tp for tp in ready if tp not in self._partings]
        after = plan_assignment(partitions, self._assignment.keys(), self._assignment, self._hand_overs.rates)
        _, fresh = plan_moves(self._assignment, after)
        positions = ledger.read_through(target) if fresh else {}
        gone = {task: sorted(members - after.get(task, frozenset())) for task, members in self._assignment.items()}
        self._status.forget_gone(partitions, gone.values(), wanted)
        changed = self._source_topics.changed_counts(wanted)
        added = {task: self._assigned(fresh.get(task, []), wanted, positions, task) for task in after}
        commands = [
            Assign(self._run, self._generation + 1, task, tuple(added[task]), tuple(gone.get(task, [])), changed)
            for task in sorted(after)
            if added[task] or gone.get(task) or changed
        ]
        for where in chain.from_iterable(gone.values()):
            self._partings.begin(where, self._hand_overs.drop(where) or self._generation + 1)
        self._give(commands)
        self._source_topics.note_known(wanted)
        self._assignment = after
        given = {item.partition for items in added.values() for item in items}
        self._put_back((tp for members in fresh.values() for tp in members), given)
        self._handed_out = wanted

    def balance(self) -> None:
        """One look at what partitions carry; moves those whose task bears too much, while all others go on."""
        if (moves := self._hand_overs.look(self._clients()[1], self._assignment)) and self._balances:
            self._hand_overs.begin(moves, self._generation + 1, time.monotonic())
            self._assignment = after_moves(self._assignment, moves)
            self._complete_moves(_RELEASE_SECONDS_MAX)

    def _complete_moves(self, seconds_max: float) -> None:
        """Give partitions that were released to their new tasks; what is not by then is looked at again later.

        A release that could not be written is written at the next look.
        """
        give_up_at = time.monotonic() + seconds_max
        self._order_releases()
        while self._hand_overs.open and not self._stopping.is_set():
            source, target, ledger = self._clients()
            ledger.poll(_LEDGER_POLL_SECONDS)
            view = ledger.view
            if released := self._hand_overs.find_released(view.records, view.is_whole, time.monotonic()):
                positions, wanted = ledger.read_through(target), self._source_topics.read(source)
                by_task = by_new_task(released, wanted)
                given = {task: tuple(self._assigned(tps, wanted, positions, task)) for task, tps in by_task.items()}
                self._give([Assign(self._run, self._generation + 1, task, add) for task, add in given.items()])
                self._hand_overs.given(released)
                # A topic may be gone just now; if it comes back before the next look, that would see no change.
                self._put_back(
                    [move.partition for move in released],
                    {item.partition for items in given.values() for item in items},
                )
            if time.monotonic() >= give_up_at:
                return

    def _order_releases(self) -> None:
        if releases := self._hand_overs.releases(self._generation + 1):
            self._publish(releases)
            self._hand_overs.note_ordered()

    def _give(self, commands: list[Assign]) -> None:
        if commands:
            self._is_in_doubt = True  # tasks obey an order of which no answer comes, too: the epoch ends then
            self._publish(commands)
            self._is_in_doubt = False

    def _publish(self, commands: list[Assign]) -> None:
        named = (replace(command, process=self._process) for command in commands)
        parts = [prove(part, self._secret) for part in in_parts(named)]
        self._generation = max(part.generation for part in parts)
        self._tell(*parts)

    def _tell(self, *commands: Command) -> None:
        """Over a connection that stays: to make it takes as long as all else by which tasks change hands."""
        if self._publisher is None:
            self._publisher = self._open.enter_context(Publisher(self._flow.target, "commands", 5.0))
        self._publisher.write(self._topics.commands, [command_record(command) for command in commands])
