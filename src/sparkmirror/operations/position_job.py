"""Sets positions of a flow that does not run, in the ledger, all or none. Called by `cli.positions`.

It fences predecessors before it reads positions, and writes in one transaction of the flow's first transactional id. A
process that begins meanwhile either reads the new positions, or has taken the id, and then nothing is set. Each change
comes with a record of the gap ledger, which says who made it and why (invariant 1).
"""

import getpass
import logging
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID, uuid4

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import AuthorizationFailed, FencedError, SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.fencing import TransactionUnfinished, bar_from, rouse_coordinator, transactional_id
from sparkmirror.kafka.known_ids import used_tasks
from sparkmirror.kafka.publish import AtomicWriter, Placed
from sparkmirror.ledger import connect, gaps, positions
from sparkmirror.ledger.copies import Mark
from sparkmirror.ledger.gaps import Gap
from sparkmirror.ledger.lineage import Lineage
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.ledger.setup import ensure_ledger_topics
from sparkmirror.ledger.topics import LedgerTopics
from sparkmirror.model import Position, TopicPartition
from sparkmirror.operations.offset_reset import Move
from sparkmirror.operations.position_snapshot import PositionPlan, Stored
from sparkmirror.planning.fencing import known_tenures, last_generation
from sparkmirror.policy.partitioner import murmur2_partition

log = logging.getLogger(__name__)

SKIPPED, REWOUND, SET = "skipped", "rewound", "set"
"""Causes of gaps that an operator made; `set` neither loses nor repeats records."""
_TASK = 0


@dataclass(frozen=True, slots=True)
class Author:
    """The person or process that changes positions, and the reason, for the gap ledger. `is_taken_over` says that
    another program has mirrored up to the new position."""

    reason: str = ""
    is_taken_over: bool = False

    @property
    def sentence(self) -> str:
        who = f"by {_user()} on {socket.gethostname()}"
        return f"{who}: {self.reason}" if self.reason else who


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "somebody without a name"


def open_ledger_topics(flow: FlowConfig, target: Admin) -> LedgerTopics:
    """The flow's internal topics, which are created where they are missing, since the flow may never have run.
    Raises ClusterError."""
    ensure_ledger_topics(target, flow.ledger_topics)
    return flow.ledger_topics


def set_positions(
    flow: FlowConfig,
    source: Admin,
    target: Admin,
    make_plan: Callable[[Stored], PositionPlan],
    author: Author,
    refuse: Callable[[], None],
) -> PositionPlan:
    """Fences, reads, plans by `make_plan` and writes; returns the changes. `refuse` raises while the flow runs.
    Raises SparkMirrorError, and FencedError where a process has begun meanwhile; then nothing is changed."""
    refuse()
    topics = open_ledger_topics(flow, target)
    with LedgerReader(flow.target, topics, flow.connector) as ledger, _writer(flow, target) as writer:
        _bar_others(flow, target, ledger, writer)
        ledger.read_through(target)
        plan = make_plan(Stored.read(flow, target, ledger.view))
        changes = _Changes(flow, topics, ledger, author)
        records = [record for move in plan.moves for record in changes.records(move, plan)]
        _refuse_new_topics(source, plan)
        refuse()
        if records:
            _write(flow, writer, records)
    return plan


def _write(flow: FlowConfig, writer: AtomicWriter, records: Sequence[Placed]) -> None:
    try:
        writer.write(records)
    except FencedError:
        message = f"{flow.name}: a process began to mirror this flow just now, so nothing was changed."
        raise FencedError(message, "Stop it first, then try again.") from None


def _writer(flow: FlowConfig, target: Admin) -> AtomicWriter:
    """A publisher under the first task's transactional id; where the target can have no transactions, a publisher
    that fences no process."""
    name: str | None = transactional_id(flow.connector, _TASK)
    why = rouse_coordinator(target, flow.connector)
    if not why:
        try:
            return AtomicWriter(flow.target, "positions", name)
        except AuthorizationFailed as refused:
            why = str(refused)
    if flow.is_exactly_once:
        raise SparkMirrorError(f"{flow.name}: positions cannot be set in a transaction: {why}")
    log.warning("%s: no earlier process is fenced, so make sure that none runs: %s", flow.name, why)
    return AtomicWriter(flow.target, "positions", None)


def _bar_others(flow: FlowConfig, target: Admin, ledger: LedgerReader, writer: AtomicWriter) -> None:
    """Fences all other tasks that the flow has ever had: one that was asleep may wake with positions under way."""
    if not writer.is_atomic:
        return
    ledger.read_to_end()
    tasks = {tenure.task for tenure in known_tenures(flow, ledger)} | used_tasks(target, flow.connector)
    for task in sorted((tasks | set(range(flow.tasks_max))) - {_TASK}):
        with suppress(TransactionUnfinished):  # an abort fences, too
            name = transactional_id(flow.connector, task)
            bar_from(target, name, ledger.partitions, flow.producer.transaction_timeout_ms)


def _refuse_new_topics(source: Admin, plan: PositionPlan) -> None:
    """Raises SparkMirrorError for a topic that was made again since its offsets were asked for."""
    names = {move.partition.topic for move in plan.moves}
    now = source.list_topics(names)
    for name in sorted(names):
        if name not in now or now[name].topic_id != plan.topics[name].topic_id:
            message = f"Topic {name} of {source.alias} was deleted or made again just now: nothing was changed."
            raise SparkMirrorError(message, "Try again.")


class _Changes:
    """The records of the ledger that set positions, all of the next generation."""

    def __init__(self, flow: FlowConfig, topics: LedgerTopics, ledger: LedgerReader, author: Author) -> None:
        self._flow = flow
        self._topics = topics
        self._partitions = ledger.offsets_partitions
        self._author = author
        self._generation = last_generation(flow, ledger, 0) + 1
        self._run = uuid4().hex[:12]
        self._at_ms = time.time_ns() // 1_000_000

    def records(self, move: Move, plan: PositionPlan) -> Iterator[Placed]:
        """The gap, Connect's record and SparkMirror's record; none where the position is readable, in both records, and
        already the new one."""
        is_stored = move.partition not in plan.stored.problems and move.partition not in plan.stored.halved
        if move.after == move.before and is_stored:
            return
        position = _position(move, plan)
        yield self._gap(move, plan, position.topic_id)
        yield self._of_connect(move.partition, position)
        record = PositionRecord(position, self._generation, _TASK, released=True, run=self._run)
        key = positions.encode_key(self._flow.name.source, move.partition)
        yield Placed(TopicPartition(self._topics.positions, 0), key, positions.encode_value(record))

    def _of_connect(self, where: TopicPartition, position: Position) -> Placed:
        key = connect.encode_key(self._flow.connector, where)
        home = TopicPartition(self._topics.offsets, murmur2_partition(key, self._partitions))
        mark, mark_value = Mark(self._generation, time.time_ns() // 1_000).header()
        headers = ((positions.LOG_HEADER, positions.encode_log(position)), (mark.decode(), mark_value))
        return Placed(home, key, connect.encode_value(position.offset), headers)

    def _gap(self, move: Move, plan: PositionPlan, topic_id: UUID) -> Placed:
        where, after = move.partition, move.after
        stood = after if self._author.is_taken_over else move.before
        before = plan.begins.get(where, after) if stood is None else stood
        cause = SKIPPED if before < after else REWOUND if before > after else SET
        gap = Gap(where, cause, before, after, self._author.sentence, self._at_ms, topic_id, self._run)
        key, value = gaps.encode_key(self._flow.name.source, gap), gaps.encode_value(gap)
        return Placed(TopicPartition(self._topics.gaps, 0), key, value)


def _position(move: Move, plan: PositionPlan) -> Position:
    """The position in the log that was found. It has the known leader epochs if that log is the one that was
    mirrored so far. The epochs of skipped records are not known; with older ones brokers would answer that the log
    has diverged."""
    topic_id = plan.topics[move.partition.topic].topic_id
    known = plan.stored.positions.get(move.partition)
    if known is None or known.topic_id != topic_id or move.after > known.offset:
        return Position(move.after, topic_id=topic_id)
    return Lineage.of(known).up_to(move.after).at(move.after)
