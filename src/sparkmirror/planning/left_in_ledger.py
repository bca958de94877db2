"""Ends what transactions of a flow have left open in its ledger, where nobody can read on. Called by
`planning.planner` and `planning.renewal`, once they have taken the ids over.

Brokers leave the marker of a transaction out where a partition has no leader as it ends (`pipeline.produce.left_open`).
What is open in the ledger hides all positions behind it, and a process that begins waits for them. An id that was taken
over has no transaction any more, so what a leader names as open of it never ends by itself. It is aborted, by an empty
transaction: whether it was committed nobody can tell for certain. A position that is lost is of records that come
again; one that was committed by mistake would be of records that never come. Blocks.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Final

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.fencing import transactional_id
from sparkmirror.kafka.wire.leader_epochs import LeaderEpochs
from sparkmirror.kafka.wire.lookup import with_servers_from
from sparkmirror.kafka.wire.open_transactions import OpenTransaction, look
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.model import Position, TopicPartition
from sparkmirror.planning.empty_transactions import end_left_open
from sparkmirror.planning.fencing import Taken, held_identities

log = logging.getLogger(__name__)

_NOBODY: Final = -1
_MAY_REPEAT: Final = "%s: nobody knows whether what lay open in %s was committed: if it was, its records come twice."
_REFUSED: Final = "%s: what a transaction of %s has left open in %s cannot be ended: %s."


def read_through(
    flow: FlowConfig, target: Admin, ledger: LedgerReader, taken: Mapping[int, Taken]
) -> dict[TopicPartition, Position]:
    """The positions, as `LedgerReader.read_through` has them. Ends what lies open of the ids that were `taken` over.
    Raises ClusterError."""
    return ledger.read_through(target, when_quiet=LeftInLedger(flow, target, taken, ledger.partitions).end)


class LeftInLedger:
    """Of the ids that were `taken` over, in the ledger's `partitions` and in the topics that are written to with it."""

    def __init__(
        self, flow: FlowConfig, target: Admin, taken: Mapping[int, Taken], partitions: Collection[TopicPartition]
    ) -> None:
        self._flow = flow
        self._target = target
        topics = flow.ledger_topics
        beside = (TopicPartition(name, 0) for name in (topics.status, topics.offset_map, topics.gaps))
        self._partitions = (*partitions, *beside)
        self._held = held_identities(taken)
        self._epochs = LeaderEpochs()
        self._turn = 0

    def end(self) -> None:
        """Ask the leaders once, and end what they name. What no leader answers for is left to the next call. Raises
        ClusterError where nobody says whether an empty transaction has ended."""
        for number, lot in sorted(self._find_open().items()):
            why = end_left_open(self._flow, self._target, number, self._held[number], lot, commits=False)
            name, where = transactional_id(self._flow.connector, number), ", ".join(map(str, sorted(lot)))
            if why:
                log.warning(_REFUSED, self._flow.name, name, where, why, extra={"event": "left-open"})
            else:
                log.warning(_MAY_REPEAT, self._flow.name, where, extra={"event": "left-open"})

    def _find_open(self) -> dict[int, list[TopicPartition]]:
        """By the number of the id. What a later holder of it has open is that one's."""
        numbers = {identity.producer_id: number for number, identity in self._held.items()}
        lots: dict[int, list[TopicPartition]] = defaultdict(list)
        for where, found in self._look().items():
            for producer_id, transaction in found.items():
                number = numbers.get(producer_id)
                if number is not None and transaction.epoch <= self._held[number].epoch:
                    lots[number].append(where)
        return lots

    def _look(self) -> Mapping[TopicPartition, Mapping[int, OpenTransaction]]:
        self._turn += 1
        settings = with_servers_from(self._target.connection.settings, self._turn, self._target.brokers().values())
        return look(settings, self._epochs, self._partitions, _NOBODY).everyones
