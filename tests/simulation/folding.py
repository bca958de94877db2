"""What the records of a topic come to, folded batch by batch: a judge that looks often does not read all each time."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from tests.simulation.cluster import Partition
from tests.simulation.log import Stored

from sparkmirror.batch.records import Record

_View = TypeVar("_View")


class Folded(Generic[_View]):
    """A view that takes records, each once. Where a batch that it has taken is gone, it begins again."""

    def __init__(self, begin: Callable[[], _View], take: Callable[[_View, Record], object]) -> None:
        self._begin = begin
        self._take = take
        self._view = begin()
        self._taken: dict[Partition, list[Stored]] = {}

    def of(self, batches: Iterable[tuple[Partition, Stored]]) -> _View:
        """The view of these batches; it changes with the next call."""
        now: dict[Partition, list[Stored]] = {}
        for partition, one in batches:
            now.setdefault(partition, []).append(one)
        if any(now.get(where, [])[: len(taken)] != taken for where, taken in self._taken.items()):
            self._view, self._taken = self._begin(), {}
        for partition, stored in now.items():
            taken = self._taken.setdefault(partition, [])
            for one in stored[len(taken) :]:
                for record in one.records:
                    self._take(self._view, record)
            self._taken[partition] = stored
        return self._view
