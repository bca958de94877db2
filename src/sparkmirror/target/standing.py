"""How far the target has a source partition. The base of `target.outbox`, which moves it.

A task may have thousands of partitions, few of which move in a second: those that do enter themselves in `moved`, and
`target.progress` looks at them alone.
"""

from enum import Enum

from sparkmirror.model import TopicPartition


class State(Enum):
    """FLOWING: in order. REWINDING: what arrives is dropped until the reader comes again with `position`.
    FAILED: as rewinding, and paused at the reader until the retry time."""

    FLOWING = "flowing"
    REWINDING = "rewinding"
    FAILED = "failed"


class Standing:
    """One source partition; all before `acknowledged` is on the target."""

    __slots__ = ("_acknowledged", "_moved", "source")

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
