"""Leaders of target partitions that tell what is open there, as `kafka.wire.open_transactions.Looks` asks them."""

from collections.abc import Collection

from sparkmirror.kafka.background import Outcome
from sparkmirror.kafka.wire.open_transactions import Looked, OpenTransaction
from sparkmirror.model import TopicPartition


class AskedLeaders:
    """Keeps the question until the test has it answered. `open` is what lies open, `refused` what may not be read,
    `away` what has no leader."""

    key = "open-transactions"

    def __init__(self) -> None:
        self.asked: tuple[frozenset[TopicPartition], int] | None = None
        self.open: dict[TopicPartition, OpenTransaction] = {}
        self.refused: set[TopicPartition] = set()
        self.away: set[TopicPartition] = set()
        self.questions = 0

    def ask(self, partitions: Collection[TopicPartition], producer_id: int) -> None:
        self.asked = frozenset(partitions), producer_id
        self.questions += 1

    def answer(self) -> Outcome:
        """What they say now to what was asked."""
        assert self.asked is not None
        (partitions, producer_id), self.asked = self.asked, None
        known = partitions - self.refused - self.away
        looked = Looked(producer_id, {where: self.open.get(where) for where in known}, self.refused & partitions)
        return Outcome(self.key, looked, None)
