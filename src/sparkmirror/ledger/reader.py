"""Reads the ledger of one flow from its target: all of it once, then new records; used by the planner and the CLI."""

import logging
from collections.abc import Callable, Sequence
from typing import Self

from sparkmirror.errors import ClusterError, ClusterUnreachable
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin, open_tail
from sparkmirror.kafka.log_edges import open_transactions
from sparkmirror.kafka.tail import TailRecord
from sparkmirror.ledger import connect
from sparkmirror.ledger.chosen_starts import is_start_key
from sparkmirror.ledger.copies import Copies
from sparkmirror.ledger.positions import producer_key
from sparkmirror.ledger.topics import LedgerTopics
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import Cluster, Connector, Position, TopicPartition

log = logging.getLogger(__name__)


class NoLedger(ClusterError):
    """The target has no topics of the flow's ledger."""


class LedgerReader:
    """Positions of every source partition of a flow, committed ones only. A context manager, for one thread.

    `view` holds what was read so far: positions, our own records (generation, task, released) and `problems`.
    `partitions` are those of both its topics; `offsets_partitions` is how many of them the offsets topic really has,
    which decides where each key lives.
    """

    def __init__(
        self, target: Cluster, topics: LedgerTopics, connector: Connector, *, is_ours_needed: bool = True
    ) -> None:
        """Connects; the topics must exist (`ensure_ledger_topics`), one of them where only MirrorMaker may have run, or
        somebody has deleted Connect's.

        Raises what `open_admin` raises.
        """
        self.view = LedgerView(connector)
        self._connector = connector
        self._producer_key = producer_key(connector.source_alias)
        self._copies = Copies({}, set())
        self._told: set[bytes] = set()
        self._is_begun = False
        self._topics = topics
        self.partitions = _partitions(target, topics, is_ours_needed=is_ours_needed)
        self.offsets_partitions = sum(partition.topic == topics.offsets for partition in self.partitions)
        self._tail = open_tail(target, "ledger", self.partitions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._tail.close()

    def read_to_end(self, seconds_max: float = 60.0) -> dict[TopicPartition, Position]:
        """All positions that can be read now; call it before the first `poll`.

        Of a flow in transactions, those behind another task's open transaction are missing: see `read_through`. Raises
        ClusterUnreachable when nothing comes for so long.
        """
        self._fold(self._tail.read_to_end(seconds_max))
        return self.view.positions

    def read_through(
        self, target: Admin, seconds_max: float = 90.0, when_quiet: Callable[[], None] | None = None
    ) -> dict[TopicPartition, Position]:
        """All positions that are committed or in open transactions: waits for the end of every open transaction.

        A position hides behind any task's open transaction, although its own is committed. The ends are those of the
        newest leaders that several brokers know: what a former one lacks would be mirrored twice. `when_quiet`, as in
        `TopicTail.read_to`, may end what lies open. Raises ClusterUnreachable, also where the tail follows a former
        leader.
        """
        ends = target.newest_ends(self.partitions)
        try:
            self._fold(self._tail.read_to({at: ends.of(at) for at in self.partitions}, seconds_max, when_quiet))
        except ClusterUnreachable as silence:
            if hint := _name_open(target, self.partitions):
                raise ClusterUnreachable(silence.args[0], hint) from silence
            raise
        self._tell_lacking()
        return self.view.positions

    def poll(self, timeout_seconds: float) -> dict[TopicPartition, Position | None]:
        """Partitions whose records changed, with their positions now; None where a position was deleted.

        Connect's record and ours travel in different partitions: one may be ahead of the other for a moment.
        """
        return {partition: self.view.position(partition) for partition in self._fold(self._tail.poll(timeout_seconds))}

    def _fold(self, records: Sequence[TailRecord]) -> list[TopicPartition]:
        """Fold only the last record of each key: in a long ledger most records are superseded. Of the producer's key
        the first record counts, and of a start's the earliest place, which two processes that begin at once may read
        together with the second."""
        last = {(record.partition, record.key): record for record in records}
        for record in records:
            is_read_whole = record.key == self._producer_key or is_start_key(record.key)
            if is_read_whole and record.partition.topic == self._topics.positions:
                self.view.take_ours(record.key, record.value, record.place)
                last.pop((record.partition, record.key), None)
        touched: dict[TopicPartition, None] = {}
        for (where, key), record in last.items():
            if where.topic == self._topics.offsets:
                newest = self._copies.take(record, self.offsets_partitions)
                partition = self.view.take_connect(key, newest.value, newest.place, newest.headers)
            else:
                partition = self.view.take_ours(key, record.value, record.place)
            if partition is not None:
                touched[partition] = None
        self._tell_doubtful()
        return list(touched)

    def _tell_lacking(self) -> None:
        """Log which positions Connect's topic has lost: once all is read, later ones are on their way."""
        if self._is_begun:
            return
        self._is_begun = True
        if lacking := sorted(self.view.without_connect):
            log.warning(
                "Topic %s has no position of %d partitions (%s, …), and %s has: the former was cut, or made again. "
                "They go on from there: `sparkmirror positions reset` sets them otherwise.",
                self._topics.offsets, len(lacking), lacking[0], self._topics.positions, extra={"event": "ledger-lacks"},
            )  # fmt: skip

    def _tell_doubtful(self) -> None:
        """Log once which positions are ordered by their time."""
        known = (connect.decode_key(key, self._connector) for key in self._copies.doubtful - self._told)
        doubtful = sorted(partition for partition in known if partition is not None)
        self._told |= self._copies.doubtful
        if doubtful:
            log.warning(
                "Topic %s has grown, and MirrorMaker wrote one of several positions of %d partitions (%s, …): the "
                "newest is recognised by its partition and its time.",
                self._topics.offsets, len(doubtful), doubtful[0],
            )  # fmt: skip


def _name_open(target: Admin, partitions: Sequence[TopicPartition]) -> str:
    """What to do about transactions that are open in the ledger; "" where there are none, or nobody says so."""
    try:
        found = open_transactions(target, partitions)
    except ClusterError:
        return ""
    starts = [f"{where} from offset {start} on" for where, start in sorted(found.items()) if start is not None]
    if not starts:
        return ""
    return (
        f"A transaction is open in {', '.join(starts)}. A broker that came back without its end leaves it open for "
        "ever: docs/exactly-once.md says how to end it, and what that costs."
    )


def _partitions(target: Cluster, topics: LedgerTopics, *, is_ours_needed: bool) -> list[TopicPartition]:
    names = topics.offsets, topics.positions
    with open_admin(target, "ledger") as admin:
        found = admin.list_topics(names) if is_ours_needed else admin.list_known_topics(names)
    needed = names if is_ours_needed else () if found else (topics.offsets,)
    if missing := [name for name in needed if name not in found]:
        names_missing = " and no topic ".join(missing)
        raise NoLedger(f"Cluster {target.alias} has no topic {names_missing}.", "Has this flow ever run?")
    return [TopicPartition(name, number) for name, topic in found.items() for number in range(topic.partitions)]


def read_ledger(cluster: Cluster, admin: Admin, topics: LedgerTopics, connector: Connector) -> LedgerView:
    """All that the ledger says, on the cluster of the `admin`; empty where the flow has never run. Raises
    ClusterError."""
    if not admin.list_topics([topics.positions]):
        return LedgerView(connector)
    with LedgerReader(cluster, topics, connector) as ledger:
        ledger.read_to_end()
        return ledger.view
