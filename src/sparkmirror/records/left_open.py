"""Ends what earlier transactions of an id have left open in a topic, before the first record of a new one goes there.

If a partition has no leader when a transaction ends, brokers (4.3 was looked at) take it for deleted and leave its
marker out. Its records stay open there until the next marker of the id's producer: a commit would commit those of an
aborted transaction too. So all leaders of a topic are asked first, unless the last transaction was committed. Blocks;
owned by `records.task_transaction`, called by `records.batch_producer`.
"""

import time
from collections.abc import Collection
from typing import Final

from sparkmirror.errors import ClusterError, ClusterUnreachable, ProtocolError
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.leader_epochs import LeaderEpochs
from sparkmirror.kafka.wire.lookup import look_up, with_servers_from
from sparkmirror.kafka.wire.open_transactions import OpenTransaction, look
from sparkmirror.kafka.wire.transaction import Transaction
from sparkmirror.model import TopicPartition

_ROUNDS_MAX: Final = 10
"""A coordinator has answered a moment before its markers stand in all partitions."""
_PAUSE_SECONDS: Final = 0.1
_PAUSE_SECONDS_MAX: Final = 1.0


class LeftOpen:
    """For the holder of `transaction`. `committed` are the producers of its last transactions that were committed."""

    def __init__(
        self,
        settings: ClientSettings,
        transaction: Transaction,
        committed: Collection[ProducerIdentity],
        seconds_max: float,
    ) -> None:
        self._settings = settings
        self._transaction = transaction
        self._committed = committed
        self._seconds_max = seconds_max
        self._epochs = LeaderEpochs()
        self._turn = 0
        self._clear: set[str] = set()

    def clear(self, topic: str) -> None:
        """Returns when nothing is open there. Raises ClusterError where that cannot be known in time, or where records
        of this transaction had to be given up for it."""
        if topic in self._clear:
            return
        was_begun = self._transaction.is_begun
        found = open_before = self._find(topic)
        for _ in range(_ROUNDS_MAX):
            if not found:
                break
            if self._transaction.is_begun:
                self._transaction.begin()
            self._end(found)
            found = self._find(topic)
        if found:
            raise ClusterError(
                f"An earlier transaction of {self._transaction.transactional_id} lies open in {min(found)} and "
                "does not end.",
                "`kafka-transactions.sh find-hanging` shows it, and `abort` ends it.",
            )
        if was_begun and open_before:
            raise ClusterError(
                f"An earlier transaction of {self._transaction.transactional_id} lay open in {min(open_before)}, for "
                "want of a leader when it ended. It is ended now, and the present one is aborted for it.",
                "Repeat the task.",
            )
        self._clear.add(topic)

    def _end(self, found: dict[TopicPartition, OpenTransaction]) -> None:
        for commits in (True, False):
            if lot := [where for where, one in found.items() if self._is_committed(one) is commits]:
                self._transaction.end_left_open(lot, commits=commits)

    def _is_committed(self, found: OpenTransaction) -> bool:
        """Nothing is committed before what was aborted is cleared: what is older than the last committed transaction
        was committed as well."""
        ours = [last for last in self._committed if last.producer_id == self._producer_id]
        return any(found.epoch <= last.epoch for last in ours)

    @property
    def _producer_id(self) -> int:
        return self._transaction.identity.producer_id

    def _find(self, topic: str) -> dict[TopicPartition, OpenTransaction]:
        """What is open in the topic, by the word of all its leaders; those that may not be asked are left out."""
        pause, ends_at = _PAUSE_SECONDS, time.monotonic() + self._seconds_max
        found: dict[TopicPartition, OpenTransaction | None] = {}
        while True:
            problem, missing = self._ask(topic, found)
            if not missing:
                return {where: one for where, one in found.items() if one is not None}
            if time.monotonic() + pause > ends_at:
                raise ClusterUnreachable(
                    "It cannot be known whether an earlier transaction of "
                    f"{self._transaction.transactional_id} is open in {min(missing)}: {problem.rstrip('.')}.",
                    "The write goes on when all partitions of the topic have leaders.",
                )
            time.sleep(pause)
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)

    def _ask(self, topic: str, found: dict[TopicPartition, OpenTransaction | None]) -> tuple[str, set[TopicPartition]]:
        """Asks about those that are not found yet: the last problem, and whose leaders have not answered."""
        settings = with_servers_from(self._settings, self._turn)
        self._turn += 1
        try:
            size = look_up(settings, [topic]).sizes.get(topic, 0)
        except (ClusterUnreachable, ProtocolError) as problem:
            return str(problem.args[0]), {TopicPartition(topic, 0)}
        wanted = {TopicPartition(topic, at) for at in range(size)} - found.keys()
        if not wanted:
            return "no broker knows the topic", set() if found else {TopicPartition(topic, 0)}
        looked = look(settings, self._epochs, wanted, self._producer_id)
        found.update(looked.open)
        found.update(dict.fromkeys(looked.refused))
        return looked.problem, wanted - found.keys()
