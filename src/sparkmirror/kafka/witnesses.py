"""What other brokers say of topics, beside the one that was asked, and what an answer is by all of them: a broker that
has slept, or is cut off from the others, answers as of before. Owned by `kafka.admin`.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

from sparkmirror.errors import ClusterError
from sparkmirror.kafka.errors import NO_ERROR, UNKNOWN_TOPIC_OR_PARTITION
from sparkmirror.model import NO_EPOCH, NO_TOPIC_ID

FEW: Final = 3
_MOST: Final = 5
_SECONDS_MAX: Final = 2.0


class Witnesses:
    """Of one cluster. `ask` puts a question about topics, or about all, to the broker `node_id`, for `seconds_max`."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask
        self._turn = 0

    def hear(self, first: Any, names: list[str] | None, most: int = _MOST) -> list[Any]:
        """What so many of the brokers that the answer `first` names say of the topics, each time others."""
        nodes = sorted(broker.node_id for broker in first.brokers)
        self._turn += 1
        step = max(len(nodes) // most, 1)
        found = []
        for node_id in [nodes[(self._turn + at * step) % len(nodes)] for at in range(min(most, len(nodes)))]:
            with suppress(ClusterError):
                found.append(self._ask(names, node_id=node_id, seconds_max=_SECONDS_MAX))
        return found


def take_newest(metadata: Any, others: Sequence[Any]) -> None:
    """Puts into an answer the topics that most of the others show, what it lacks of these, and the newest leaders that
    any knows."""
    _take_likely_topics(metadata, others)
    _add_missing(metadata, others)
    _take_newest_leaders(metadata, others)


def _take_newest_leaders(metadata: Any, others: Iterable[Any]) -> None:
    """Puts into an answer the leaders of later epochs that others know: a broker that is cut off from the others still
    names itself. Epochs of topics without an id are not compared."""
    newest: dict[tuple[UUID, int], Any] = {}
    for answer in (metadata, *others):
        for at, partition in _identified(answer):
            known = newest.get(at)
            if known is None or (partition.leader_epoch or NO_EPOCH) > (known.leader_epoch or NO_EPOCH):
                newest[at] = partition
    for at, partition in _identified(metadata):
        partition.leader_id, partition.leader_epoch = newest[at].leader_id, newest[at].leader_epoch


def _take_likely_topics(metadata: Any, others: Sequence[Any]) -> None:
    """Puts into an answer the topic of that name that most of the others show: a broker that is cut off, or has just
    woken up, shows a former one. One that others do not know stays: its leader decides. Topics without an id are not
    compared."""
    by_name = [{topic.name: topic for topic in answer.topics} for answer in others]
    for at, topic in enumerate(metadata.topics):
        said = [known[topic.name] for known in by_name if topic.name in known]
        shown = Counter(one.topic_id for one in said if _has_id(one))
        for topic_id, count in shown.items():
            if 2 * count > len(by_name) and not (_has_id(topic) and topic.topic_id == topic_id):
                metadata.topics[at] = next(one for one in said if _has_id(one) and one.topic_id == topic_id)


def _has_id(topic: Any) -> bool:
    return topic.error_code == NO_ERROR and topic.topic_id not in (None, NO_TOPIC_ID)


def _add_missing(metadata: Any, others: Sequence[Any]) -> None:
    """A topic is there where half of the others know it: one that slept may also know one that was deleted since."""
    shown: dict[str, list[Any]] = defaultdict(list)
    for topic in (topic for answer in others for topic in answer.topics if topic.error_code == NO_ERROR):
        shown[topic.name].append(topic)
    for number, known in enumerate(metadata.topics):
        largest = max(shown.get(known.name, ()), key=lambda one: len(one.partitions), default=None)
        if largest is None:
            continue
        if known.error_code == UNKNOWN_TOPIC_OR_PARTITION and 2 * len(shown[known.name]) >= len(others):
            metadata.topics[number] = largest
        elif known.error_code == NO_ERROR and known.topic_id == largest.topic_id:
            known.partitions = max(known.partitions, largest.partitions, key=len)


def _identified(metadata: Any) -> Iterator[tuple[tuple[UUID, int], Any]]:
    for topic in metadata.topics:
        if _has_id(topic):
            for partition in topic.partitions:
                yield (topic.topic_id, partition.partition_index), partition
