"""The source's topics as the planner saw them last, and the partitions that no task is given yet. Owned by
`planning.planner`.

A look at ten thousand unchanged partitions costs next to nothing.
"""

from collections.abc import Collection, Mapping
from typing import Final

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.assignment import Assignment
from sparkmirror.kafka.admin import NEW_PARTITIONS_PER_REQUEST, Admin
from sparkmirror.model import Position, Topic, TopicPartition

_PATIENCE_SECONDS: Final = 30.0
_UNKNOWN_START_SECONDS: Final = 30.0


class SourceTopics:
    """The source's topics that a flow mirrors."""

    def __init__(self, flow: FlowConfig) -> None:
        self._flow = flow
        self._listed: Mapping[str, Topic] = {}
        self._wanted: Mapping[str, Topic] = {}
        self.counts: Mapping[str, int] = {}
        """The number of partitions by topic, as the tasks know them."""

    def read(self, source: Admin) -> Mapping[str, Topic]:
        """Topics by name; the same object as the last time if nothing has changed. Raises ClusterError."""
        listed = source.list_topics()
        if listed != self._listed or self._flow.has_own_classes:
            wanted = {
                name: topic
                for name, topic in listed.items()
                if not topic.internal and self._flow.should_replicate(name)
            }
            self._wanted = self._wanted if wanted == self._wanted else wanted
            self._listed = listed
        return self._wanted

    def changed_counts(self, topics: Mapping[str, Topic]) -> dict[str, int]:
        """The counts of topics that are new, grown or deleted (0) since the tasks learned of them.

        Tasks share rate limits by them, and refuse partitions that a topic does not have.
        """
        counts = {name: topic.partitions for name, topic in topics.items()}
        changed = {name: count for name, count in counts.items() if self.counts.get(name) != count}
        return changed | {name: 0 for name in self.counts if name not in counts}

    def note_known(self, topics: Mapping[str, Topic]) -> None:
        """The tasks know the counts of these topics: a plan or an order that was written has them."""
        self.counts = {name: topic.partitions for name, topic in topics.items()}


def partitions_of(topics: Mapping[str, Topic]) -> list[TopicPartition]:
    """All partitions, topic by topic."""
    return [TopicPartition(name, number) for name, topic in topics.items() for number in range(topic.partitions)]


def by_topic(positions: Mapping[TopicPartition, Position]) -> dict[str, dict[str, int]]:
    """Next offsets by topic and partition, as JSON may have them."""
    shown: dict[str, dict[str, int]] = {}
    for where, position in sorted(positions.items()):
        shown.setdefault(where.topic, {})[str(where.partition)] = position.offset
    return shown


class Withheld:
    """Partitions that no task is given yet.

    If the remote topics of very many partitions are missing, they are being created, which takes the brokers a minute
    for ten thousand partitions. A partition is handed out when its topic exists, or when no topic has appeared for 30
    s: the task then reports what is missing. A partition whose start no broker gave is looked at again after 30 s, and
    one whose start is being filled at once.
    """

    def __init__(self, flow: FlowConfig, clock: Clock = SYSTEM_CLOCK) -> None:
        self._flow = flow
        self._clock = clock
        self._without_topic: set[TopicPartition] = set()
        self._fewest: float = float("inf")
        self._patient_until = 0.0
        self._unknown_until: dict[TopicPartition, float] = {}
        self._filling: set[TopicPartition] = set()

    def __bool__(self) -> bool:
        return bool(self._without_topic or self._unknown_until or self._filling)

    @property
    def is_filling(self) -> bool:
        """Whether the next look has the start of a partition to fill. Without looks for topics the next epoch has."""
        return bool(self._filling) and self._flow.refresh_topics_enabled

    def note_filling(self, where: TopicPartition) -> None:
        """A part of its start is filled."""
        self._filling.add(where)

    def ready(
        self, partitions: Collection[TopicPartition], assignment: Assignment, target: Admin
    ) -> list[TopicPartition]:
        """Without those that no task of the `assignment` has and that are not to be handed out yet. Raises
        ClusterError."""
        held = set().union(*assignment.values())
        withheld = self.pick([tp for tp in partitions if tp not in held], target)
        return [tp for tp in partitions if tp not in withheld]

    def pick(self, fresh: Collection[TopicPartition], target: Admin) -> set[TopicPartition]:
        """Those of `fresh`, which no task has, that are not to be handed out now. Raises ClusterError."""
        now = self._clock.monotonic()
        self._filling.clear()
        self._unknown_until = {where: at for where, at in self._unknown_until.items() if at > now}
        if not self._flow.refresh_topics_enabled or len(fresh) <= NEW_PARTITIONS_PER_REQUEST:
            self._without_topic, self._fewest = set(), float("inf")
        else:
            on_target = target.list_topics()
            names = {where.topic for where in fresh}
            missing = {name for name in names if self._flow.remote_topic(name) not in on_target}
            self._without_topic = {where for where in fresh if where.topic in missing}
            self._be_patient(now)
        return self._without_topic | self._unknown_until.keys()

    def _be_patient(self, now: float) -> None:
        count = len(self._without_topic)
        if count < self._fewest:
            self._patient_until = now + _PATIENCE_SECONDS
        self._fewest = min(count, self._fewest)
        if count <= NEW_PARTITIONS_PER_REQUEST or now >= self._patient_until:
            self._without_topic = set()

    def look_again(self, partitions: Collection[TopicPartition]) -> None:
        """What kept these from beginning is mended by the epoch that begins now."""
        for where in partitions:
            self._unknown_until.pop(where, None)

    def back_off(self, unknown: Collection[TopicPartition]) -> None:
        """No broker gave the start of these partitions: look again later."""
        later = set(unknown) - self._filling
        self._unknown_until |= dict.fromkeys(later, self._clock.monotonic() + _UNKNOWN_START_SECONDS)
