"""Partitions on their way out of a task, until the ledger shows their release. Pure; owned by
`pipeline.produce.progress`."""

from sparkmirror.model import TopicPartition


class Releases:
    """Behind a stored release nothing of its partition is stored any more: another task may have it by then."""

    def __init__(self) -> None:
        self.due: set[TopicPartition] = set()
        self._under_way: set[TopicPartition] = set()
        self._left: set[TopicPartition] = set()

    @property
    def are_in_doubt(self) -> bool:
        """Whether what may have lost a release is still open: it must not end before the release is in it again."""
        return bool(self.due & self._under_way)

    def has_left(self, partition: TopicPartition) -> bool:
        return partition in self._left

    def begin(self, partition: TopicPartition) -> None:
        self.due.add(partition)

    def cancel(self, partition: TopicPartition) -> None:
        """The task takes the partition on."""
        for known in (self.due, self._under_way, self._left):
            known.discard(partition)

    def send(self, partition: TopicPartition) -> None:
        self.due.discard(partition)
        self._under_way.add(partition)

    def keep(self, partition: TopicPartition) -> None:
        """Its release is stored for good."""
        if partition in self._under_way:
            self._under_way.discard(partition)
            self._left.add(partition)

    def forget(self, partition: TopicPartition) -> None:
        """Its release is not stored."""
        if partition in self._under_way:
            self._under_way.discard(partition)
            self.due.add(partition)

    def send_again(self) -> None:
        """What is under way may be lost, and is not stored for good yet."""
        self.due |= self._under_way
