"""How far the target has a source partition. The base of `target.outbox`, which moves it.

A task may have thousands of partitions, few of which move in a second: those that do enter themselves in `moved`, and
`target.progress` looks at them alone.
"""

from sparkmirror.model import TopicPartition


class Standing:
    """One source partition; all before `acknowledged` is on the target."""

    def __init__(self, source: TopicPartition, moved: dict[TopicPartition, None] | None = None) -> None:
        self.source = source
        self._moved = {} if moved is None else moved
        self._acknowledged = 0

    @property
    def acknowledged(self) -> int:
        return self._acknowledged

    @acknowledged.setter
    def acknowledged(self, offset: int) -> None:
        self._acknowledged = offset
        self._moved[self.source] = None
