"""A Spark task of a transactional write: its rows and the mark that they are written are one transaction.

The mark is an offset of the group `<transactional id>` in partition 0 of the topic, so a task that is repeated, after a
kill too, knows what it has committed and writes it no second time. The offset is the number of the micro-batch and one;
its metadata say which write and which rows. Called by `records.sink`.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from sparkmirror.errors import AuthorizationFailed, ClusterError, ConfigError, SparkMirrorError
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.kafka.wire.transaction import GroupOffset, Offsets, Transaction
from sparkmirror.model import TopicPartition
from sparkmirror.records.fingerprint import Fingerprint
from sparkmirror.records.options import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from sparkmirror.records.batch_producer import Appended, BatchProducer
    from sparkmirror.records.left_open import LeftOpen

_BATCH_ID: Final = "streaming.sql.batchId"
_QUERY_ID: Final = "sql.streaming.queryId"
_RUN_ID: Final = "spark.jobGroup.id"
OTHERS_MAX: Final = 64
"""Of so many tasks that an earlier attempt may have had beyond those of now marks are looked for."""
_ABORT_SECONDS_MAX: Final = 5.0
_SETTLE_SECONDS_MAX: Final = 10.0
_begun: dict[tuple[str, str], int] = {}
"""By write and start of the query: the first micro-batch for which this process has had a task."""


@dataclass(frozen=True, slots=True)
class TaskOfWrite:
    """Which rows a task has: those of part `task` of the micro-batch `batch` of `write`. A batch write has a name of
    its own, and one batch. `run` is the start of a query that the task belongs to."""

    write: str
    batch: int
    task: int
    run: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """What the metadata of the group's offset say: what the last transaction has written, and of which producer it
    was."""

    write: str
    batch: int
    rows: int
    checksum: int
    producer_id: int = -1
    epoch: int = -1

    def encode(self) -> str:
        return msgspec.json.encode(self).decode()


def task_of_stream(task: int, properties: Callable[[str], str | None]) -> TaskOfWrite:
    """By the local properties that Spark gives each task of a micro-batch. Raises ConfigError without them."""
    batch, query = properties(_BATCH_ID), properties(_QUERY_ID)
    if batch is None or query is None:
        raise ConfigError(
            "Spark does not tell this task its micro-batch, which a transactional write has to know.",
            "Leave kafka.transactional.id out: the write is at least once then.",
        )
    return TaskOfWrite(query, int(batch), task, properties(_RUN_ID) or "")


def begins_run(mine: TaskOfWrite) -> bool:
    """Whether this process has had no task of an earlier micro-batch of this start of the query: this one may be a
    repeated one, of which an earlier start has committed some."""
    return _begun.setdefault((mine.write, mine.run), mine.batch) == mine.batch


def write_once(
    options: WriteOptions,
    mine: TaskOfWrite,
    rows: "Iterator[pa.RecordBatch]",
    append: "Callable[[BatchProducer, Iterable[pa.RecordBatch]], None]",
) -> "dict[TopicPartition, Appended]":
    """Appends the rows in one transaction, or nothing where an earlier attempt has committed them. Returns where they
    lie; nothing is known of that attempt's. Raises ClusterError, RecordTooLarge."""
    with closing(_transaction(options, mine.task)) as transaction:
        transaction.begin()
        marks = _marks(transaction.committed(transaction.transactional_id, _where(options)))
        mark = _last_of(marks, mine.write)
        if mark is not None and mark.batch >= mine.batch:
            seen = Fingerprint()
            deque(_counted(rows, seen), maxlen=0)
            _check_repeated(transaction.transactional_id, mark, mine, seen)
            _settle(options, transaction, {options.topic} - {""}, marks)
            return {}
        try:
            appended = _write(options, mine, transaction, marks, rows, append)
        except BaseException:
            with suppress(SparkMirrorError):  # otherwise the next holder of the id aborts it, or the brokers in time
                transaction.abort(_ABORT_SECONDS_MAX)
            raise
        if appended and not transaction.commit():
            ours = Mark(mine.write, mine.batch, 0, 0, *transaction.identity)
            _settle(options, transaction, {where.topic for where in appended}, [ours])
        return appended


def _settle(options: WriteOptions, transaction: Transaction, topics: Collection[str], marks: Collection[Mark]) -> None:
    """What is committed may lie open still, where a coordinator or a leader died amid the commit. It is seen then when
    the next transaction of the id is committed, unless it can be ended now."""
    left_open = _left_open(options, transaction, marks, min(options.delivery_seconds, _SETTLE_SECONDS_MAX))
    with suppress(SparkMirrorError):
        for topic in topics:
            left_open.clear(topic)
        transaction.committed(transaction.transactional_id, _where(options))


def _left_open(
    options: WriteOptions, transaction: Transaction, marks: Collection[Mark], seconds_max: float
) -> "LeftOpen":
    from sparkmirror.records.left_open import LeftOpen

    committed = [ProducerIdentity(mark.producer_id, mark.epoch) for mark in marks]
    return LeftOpen(options.settings, transaction, committed, seconds_max)


def _write(
    options: WriteOptions,
    mine: TaskOfWrite,
    transaction: Transaction,
    marks: list[Mark],
    rows: "Iterator[pa.RecordBatch]",
    append: "Callable[[BatchProducer, Iterable[pa.RecordBatch]], None]",
) -> "dict[TopicPartition, Appended]":
    """The rows and the mark: all that the transaction is to commit. Nothing for runs of nothing but markers."""
    from sparkmirror.records.batch_producer import BatchProducer

    seconds_max, seen = options.delivery_seconds, Fingerprint()
    left_open = None if transaction.is_clean else _left_open(options, transaction, marks, seconds_max)
    producer = BatchProducer(options.settings, seconds_max, transaction, left_open)
    with closing(producer):
        append(producer, _counted(rows, seen))
        producer.flush()
        if not producer.appended:
            return {}
        producer.check_topics()
    mark = Mark(mine.write, mine.batch, seen.rows, seen.checksum, *transaction.identity)
    where = TopicPartition(options.topic or min(producer.appended).topic, 0)
    offset = GroupOffset(where, mine.batch + 1, mark.encode())
    before = transaction.commit_offset(transaction.transactional_id, offset, of_all=not options.topic)
    found = _last_of(_marks(before), mine.write)
    if found is not None and found != _last_of(marks, mine.write):
        raise ClusterError(
            f"The transactional id {transaction.transactional_id} has committed micro-batch {found.batch} of this "
            "write in an earlier attempt, and the broker that was asked first did not know it: it had slept, or was "
            "cut off.",
            "Nothing of this attempt is committed. Repeat the task.",
        )
    return producer.appended


def check_empty(options: WriteOptions, mine: TaskOfWrite) -> None:
    """A task of a micro-batch that may be a repeated one has no rows. Raises ClusterError where an earlier attempt has
    committed some, and fences one that might still commit."""
    with closing(_transaction(options, mine.task)) as transaction:
        if transaction.is_known():
            transaction.begin()
        mark = _find_mark(transaction, options, mine.write)
    if mark is not None and mark.batch >= mine.batch:
        raise _another(transaction.transactional_id, mark, f"its task has no rows of micro-batch {mine.batch}")


def check_others(options: WriteOptions, write: str, batch: int, tasks: int) -> None:
    """An earlier attempt of the micro-batch may have had more tasks than these, and some of them have committed: their
    rows are there twice now. Raises ClusterError for such a one, and fences those that might still commit."""
    for task in range(tasks, tasks + OTHERS_MAX):
        with closing(_transaction(options, task)) as transaction:
            try:
                if not transaction.is_known():
                    continue
                transaction.begin()
                mark = _find_mark(transaction, options, write)
            except AuthorizationFailed:  # who may not write by that id has not
                continue
        if mark is not None and mark.batch >= batch:
            raise _another(transaction.transactional_id, mark, f"micro-batch {batch} has {tasks} tasks")


def _transaction(options: WriteOptions, task: int) -> Transaction:
    name = f"{options.transactional_id}-{task}"
    return Transaction(options.settings, name, options.transaction_timeout_ms, options.delivery_seconds)


def _counted(rows: "Iterator[pa.RecordBatch]", seen: Fingerprint) -> "Iterator[pa.RecordBatch]":
    """Each counts once it is taken, by which time runs have been checked."""
    for some in rows:
        yield some
        seen.add(some)


def _where(options: WriteOptions) -> TopicPartition | None:
    """Where marks are, if that is known before the rows are."""
    return TopicPartition(options.topic, 0) if options.topic else None


def _find_mark(transaction: Transaction, options: WriteOptions, write: str) -> Mark | None:
    """What the last transaction of the id has committed for that write; None where nothing is known of one."""
    return _last_of(_marks(transaction.committed(transaction.transactional_id, _where(options))), write)


def _marks(offsets: Offsets) -> list[Mark]:
    return [mark for one in offsets.values() if (mark := _decode(one.metadata)) is not None]


def _last_of(marks: list[Mark], write: str) -> Mark | None:
    ours = [mark for mark in marks if mark.write == write]
    return max(ours, key=lambda mark: mark.batch, default=None)


def _decode(metadata: str) -> Mark | None:
    with suppress(msgspec.MsgspecError):
        return msgspec.json.decode(metadata, type=Mark)
    return None


def _check_repeated(name: str, mark: Mark, mine: TaskOfWrite, seen: Fingerprint) -> None:
    """Raises ClusterError where what an earlier attempt has committed is not what this one would write."""
    if (mark.batch, mark.rows, mark.checksum) != (mine.batch, seen.rows, seen.checksum):
        raise _another(name, mark, f"its task has {seen.rows} rows of micro-batch {mine.batch}")


def _another(name: str, mark: Mark, now: str) -> ClusterError:
    return ClusterError(
        f"The transactional id {name} has committed {mark.rows} rows of micro-batch {mark.batch} of this write in an "
        f"earlier attempt, and now {now}: it is split otherwise, or has other rows, and some may be written twice.",
        "A repeated micro-batch must have the same rows in the same tasks: keep the query's options, minPartitions "
        "too, and the number of cores. To go on regardless, and have the whole micro-batch once more, choose another "
        "kafka.transactional.id.",
    )
