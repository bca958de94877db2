"""Notes for how long a partition is not fetched, where a broker knows topics by their names alone (before 3.1). Pure;
called by `pipeline.fetch.partitions`.

Such a broker gives the records of whatever topic has the name. While a partition is fetched, the fetch fails as its
topic is deleted. If it was paused, resting or held back by a rate limit meanwhile, the new topic would be read from the
old one's offset: so its id is looked up first.
"""

from collections.abc import Hashable
from typing import Final

AWAY_SECONDS: Final = 1.0
"""Nobody deletes a topic and makes it again in less; and each look-up is a request."""


class Absences:
    """Of partitions, each by whatever stands for it. Times are monotonic."""

    def __init__(self) -> None:
        self._since: dict[Hashable, float] = {}

    def is_back(self, partition: Hashable, *, is_fetched: bool, now: float) -> bool:
        """Whether the partition is fetched from here on, and was not for longer than a moment."""
        if not is_fetched:
            self._since.setdefault(partition, now)
            return False
        return now - self._since.pop(partition, now) > AWAY_SECONDS

    def forget(self, partition: Hashable) -> None:
        """Its broker is looked up, or the task does not read it any more."""
        self._since.pop(partition, None)
