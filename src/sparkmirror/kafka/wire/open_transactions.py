"""Asks the leaders of target partitions whether a producer has a transaction open there (DescribeProducers, KIP-664).

A leader knows that of its own log, whatever the coordinator of transactions says. `look` blocks: one look-up, and one
request to each leader; `Looks` does it beside a loop. Owned by `pipeline.produce.transaction`.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from kafka.protocol.admin import DescribeProducersRequest, DescribeProducersResponse

from sparkmirror.errors import ClusterError, ClusterUnreachable, ProtocolError
from sparkmirror.kafka.background import Background
from sparkmirror.kafka.errors import NO_ERROR, error_name
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.leader_epochs import LeaderEpochs
from sparkmirror.kafka.wire.link import Link, dial
from sparkmirror.kafka.wire.lookup import ClusterView, look_up, sensible_answers
from sparkmirror.model import TopicPartition

_DESCRIBE_PRODUCERS: Final = 61
_VERSIONS: Final = (0, 0)
_TOPIC_AUTHORIZATION_FAILED: Final = 29


class OpenTransaction(NamedTuple):
    """A transaction that is open in a partition's log: where it begins, and its last batch's epoch and last sequence
    number."""

    offset: int
    epoch: int
    last_sequence: int


@dataclass(slots=True)
class Looked:
    """What the leaders say of one producer: `open` has the partitions that they know, with None where no transaction of
    it is open; `refused` those that the principal may not READ, or whose leader does not know the question. `problem`
    is the last reason why others are in neither. `everyones` is what is open there by producer id, of all producers.
    """

    producer_id: int
    open: dict[TopicPartition, OpenTransaction | None] = field(default_factory=dict)
    refused: set[TopicPartition] = field(default_factory=set)
    problem: str = ""
    everyones: dict[TopicPartition, dict[int, OpenTransaction]] = field(default_factory=dict)


def look(
    settings: ClientSettings, epochs: LeaderEpochs, partitions: Collection[TopicPartition], producer_id: int
) -> Looked:
    """Ask each leader once. Never raises for a broker that does not answer, or for a leader of an epoch that is over:
    their partitions are missing."""
    looked = Looked(producer_id)
    with _noting(looked):
        view = epochs.sift(look_up(settings, {where.topic for where in partitions}))
        for node_id, led in _by_leader(view, partitions, looked).items():
            with _noting(looked):
                _ask_leader(settings, view.brokers[node_id], led, looked)
    return looked


class Looks:
    """Looks, one at a time; what one finds comes as the outcome of `key`. `way` gives the settings, with another server
    first each time, and the leader epochs that were seen."""

    key: Final = "open-transactions"

    def __init__(self, way: Callable[[], tuple[ClientSettings, LeaderEpochs]], background: Background) -> None:
        self._way = way
        self._background = background

    def ask(self, partitions: Collection[TopicPartition], producer_id: int) -> None:
        self._background.submit(self.key, partial(look, *self._way(), tuple(partitions), producer_id))


@contextmanager
def _noting(looked: Looked) -> Iterator[None]:
    try:
        yield
    except (ClusterError, ProtocolError, OSError) as problem:
        looked.problem = str(problem)


def _by_leader(
    view: ClusterView, partitions: Collection[TopicPartition], looked: Looked
) -> dict[int, list[TopicPartition]]:
    found: dict[int, list[TopicPartition]] = defaultdict(list)
    for where in sorted(partitions):
        leader = view.leaders.get(where)
        if leader in view.brokers:
            assert leader is not None
            found[leader].append(where)
        else:
            code = view.errors.get(where.topic, NO_ERROR)
            looked.problem = f"{where} has no leader{f' ({error_name(code)})' if code else ''}"
    return found


def _ask_leader(
    settings: ClientSettings, address: tuple[str, int], led: Sequence[TopicPartition], looked: Looked
) -> None:
    link = dial(*address, settings)
    if _DESCRIBE_PRODUCERS not in link.versions:
        link.close()
        looked.refused.update(led)
        return
    try:
        with sensible_answers(link):
            for topic in _describe(link, led).topics:
                for one in topic.partitions:
                    _take(TopicPartition(topic.name, one.partition_index), one, looked)
    except OSError as broken:
        raise ClusterUnreachable(f"broker {link.address} broke off the connection: {broken}") from broken
    finally:
        link.close()


def _describe(link: Link, led: Sequence[TopicPartition]) -> Any:
    version = link.version(_DESCRIBE_PRODUCERS, _VERSIONS)
    return link.ask(describe_producers(led), DescribeProducersResponse, version)


def describe_producers(partitions: Iterable[TopicPartition]) -> Any:
    """The question which producers the leader of these partitions knows."""
    topics: dict[str, list[int]] = defaultdict(list)
    for where in partitions:
        topics[where.topic].append(where.partition)
    topic_class = DescribeProducersRequest.TopicRequest
    asked = [topic_class(name=name, partition_indexes=numbers) for name, numbers in topics.items()]
    return DescribeProducersRequest(topics=asked, max_version=0)


def _take(where: TopicPartition, answer: Any, looked: Looked) -> None:
    code = answer.error_code
    if code == _TOPIC_AUTHORIZATION_FAILED:
        looked.refused.add(where)
    elif code != NO_ERROR:
        looked.problem = f"its leader answers {error_name(code)} for {where}"
    else:
        is_open = (one for one in answer.active_producers if one.current_txn_start_offset >= 0)
        looked.everyones[where] = {one.producer_id: _open_of(one) for one in is_open}
        looked.open[where] = looked.everyones[where].get(looked.producer_id)


def _open_of(state: Any) -> OpenTransaction:
    return OpenTransaction(state.current_txn_start_offset, state.producer_epoch, state.last_sequence)
