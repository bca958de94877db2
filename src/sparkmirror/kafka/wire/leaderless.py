"""Why a partition has no leader to go to although look-ups succeed, once that has lasted longer than an election; pure.

Owned by `pipeline.fetch.homes` for the source and by `pipeline.produce.brokers` for the target.
"""

from typing import Final

from sparkmirror.kafka.errors import error_name
from sparkmirror.kafka.wire.lookup import ClusterView
from sparkmirror.model import TopicPartition

PATIENCE_SECONDS: Final = 5.0
"""Where all replicas are alive, another one leads sooner."""
UNASKED_SECONDS: Final = 30.0
"""While a partition waits for a leader, look-ups are made every second or so: of one that none was about for so long,
nothing waited."""


class Leaderless:
    """The partitions whose leader the look-ups of one loop have not shown, since when, and when they were last missed:
    a partition may be released, and come back later."""

    def __init__(self) -> None:
        self._missed: dict[TopicPartition, tuple[float, float]] = {}

    def found(self, where: TopicPartition) -> None:
        """The partition has a leader."""
        self._missed.pop(where, None)

    def missed(self, where: TopicPartition, view: ClusterView, now: float) -> str:
        """A look-up showed no leader that can be reached. Returns the reason, empty for the first seconds."""
        since, last = self._missed.get(where, (now, now))
        if now - last > UNASKED_SECONDS:
            since = now
        self._missed[where] = since, now
        return _reason(where, view) if now - since >= PATIENCE_SECONDS else ""


def _reason(where: TopicPartition, view: ClusterView) -> str:
    if where.topic in view.errors:
        return f"the brokers answer {error_name(view.errors[where.topic])} for its topic"
    leader = view.leaders.get(where)
    if leader is not None and leader not in view.brokers:
        return f"its leader, broker {leader}, has no address in the brokers' metadata"
    if leader is not None or where in view.former:
        return "the brokers name a leader that was replaced"
    return "it has no leader" if where in view.epochs else "it is not in the brokers' metadata"
