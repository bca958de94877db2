"""Metadata look-ups for the data plane's worker processes: leaders, log bounds, topic settings.

One short connection per look-up, tried over the servers in turn; blocking, so for a helper thread. Called by
`kafka.wire.leaders` when a leader is unknown or has moved; `kafka.wire.coordinator` asks likewise.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar
from uuid import UUID

from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from sparkmirror.errors import ClusterError, ClusterUnreachable, ProtocolError
from sparkmirror.kafka.errors import NO_ERROR, error_name
from sparkmirror.kafka.settings import ClientSettings, split_address
from sparkmirror.kafka.wire.link import SETUP_SECONDS_MAX, Link, dial
from sparkmirror.model import NO_EPOCH, NO_TOPIC_ID, TopicPartition

_METADATA = 3
_METADATA_VERSIONS = (10, 13)
_LIST_OFFSETS = 2
_LIST_OFFSETS_VERSIONS = (4, 9)
_DESCRIBE_CONFIGS = 32
_DESCRIBE_CONFIGS_VERSIONS = (1, 4)
_TOPIC = 2
_LATEST = -1
_EARLIEST = -2

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The content of one Metadata answer. `errors` holds the error code of each topic that the broker could not
    describe, `sizes` the number of partitions of the others, `epochs` the leader epoch of each partition, also of those
    that have no leader; `former` are the partitions of which it names a leader that was replaced.

    `is_far` says whether the answering broker is far away (`kafka.wire.link`), `asked_at` when the look-up began, by
    the clock of `kafka.wire.leaders`.
    """

    brokers: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    leaders: Mapping[TopicPartition, int] = field(default_factory=dict)
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    former: frozenset[TopicPartition] = frozenset()
    is_far: bool = False
    asked_at: float = 0.0


def look_up(settings: ClientSettings, topics: Iterable[str], seconds_max: float = SETUP_SECONDS_MAX) -> ClusterView:
    """Ask the first bootstrap server that answers about these topics. Raises the last ClusterError when none does."""
    return ask_anyone(settings, partial(_view, topics=sorted(set(topics))), seconds_max)


def ask_anyone(settings: ClientSettings, ask: Callable[[Link], T], seconds_max: float = SETUP_SECONDS_MAX) -> T:
    """The answer of the first bootstrap server that gives one; each is waited for so long at most. Raises the last
    ClusterError or ProtocolError when none can."""
    problem: ClusterError | ProtocolError = ClusterUnreachable("no bootstrap servers are configured")
    for server in settings.bootstrap_servers:
        try:
            link = dial(*split_address(server), settings, seconds_max=seconds_max)
        except (ClusterError, ProtocolError) as refused:
            problem = refused
            continue
        try:
            with sensible_answers(link):
                return ask(link)
        except OSError as broken:
            problem = ClusterUnreachable(f"broker {link.address} broke off the connection: {broken}")
        except (ClusterError, ProtocolError) as refused:
            problem = refused
        finally:
            link.close()
    raise problem


def with_servers_from(settings: ClientSettings, turn: int, known: Iterable[tuple[str, int]] = ()) -> ClientSettings:
    """The settings with the bootstrap servers and the brokers `known` by now, each turn with another one first.
    One that is cut off from the others says what it knew, however often it is asked."""
    brokers = (f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in known)
    servers = list(dict.fromkeys([*settings.bootstrap_servers, *brokers]))
    first = turn % len(servers) if servers else 0
    return replace(settings, bootstrap_servers=(*servers[first:], *servers[:first]))


def likely_id(views: Iterable[ClusterView], topic: str, ours: Collection[UUID]) -> UUID:
    """The id of a topic that most views show, one of `ours` where as many show that: any server may have just woken up,
    or be cut off from the others. NO_TOPIC_ID where none shows one."""
    ids = [view.topic_ids.get(topic, NO_TOPIC_ID) for view in views]
    shown = Counter(one for one in ids if one != NO_TOPIC_ID)
    most = [one for one in shown if shown[one] == max(shown.values())]
    return next((one for one in most if one in ours), most[0] if most else NO_TOPIC_ID)


@contextmanager
def sensible_answers(link: Link) -> Iterator[None]:
    """Turns missing parts of an answer into a ProtocolError: arrays may be empty, or null against the protocol."""
    try:
        yield
    except (LookupError, ValueError, TypeError, AttributeError) as strange:
        raise ProtocolError(f"broker {link.address} sent an answer that makes no sense: {strange!r}") from strange


def _view(link: Link, topics: list[str]) -> ClusterView:
    version = link.version(_METADATA, _METADATA_VERSIONS)
    asked = [MetadataRequest.MetadataRequestTopic(topic_id=UUID(int=0), name=name) for name in topics]
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
    answer = link.ask(request, MetadataResponse, version)
    leaders, ids, errors, sizes, epochs = {}, {}, {}, {}, {}
    for topic in answer.topics:
        if topic.error_code:
            errors[topic.name] = topic.error_code
            continue
        ids[topic.name] = UUID(str(topic.topic_id))
        sizes[topic.name] = len(topic.partitions)
        for partition in topic.partitions:
            where = TopicPartition(topic.name, partition.partition_index)
            epochs[where] = NO_EPOCH if partition.leader_epoch is None else int(partition.leader_epoch)
            if partition.leader_id >= 0:
                leaders[where] = partition.leader_id
    brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
    link.doubt_distance()
    return ClusterView(brokers, leaders, ids, errors, sizes, epochs, is_far=link.is_far)


def dial_leader(settings: ClientSettings, where: TopicPartition) -> tuple[Link, ClusterView]:
    """A connection to the partition's leader, and the look-up that named it.

    Raises ClusterUnreachable if the partition has no leader now, and what `look_up` and `dial` raise.
    """
    view = look_up(settings, [where.topic])
    return dial_named(settings, where, view), view


def dial_named(settings: ClientSettings, where: TopicPartition, view: ClusterView) -> Link:
    """A connection to the leader that the look-up names. Raises as `dial_leader`."""
    leader = view.leaders.get(where)
    address = None if leader is None else view.brokers.get(leader)
    if address is None:
        code = view.errors.get(where.topic, NO_ERROR)
        if where in view.former:
            raise ClusterUnreachable(f"{where}: the broker that was asked names a leader that was replaced")
        raise ClusterUnreachable(f"{where} has no leader{f' ({error_name(code)})' if code else ''}")
    return dial(*address, settings)


@dataclass(frozen=True, slots=True)
class Span:
    """The log of a partition as its leader holds it: first offset kept, and the offset after the last one.

    `epoch` is the leader's own, `topic_id` the topic's as the look-up showed it that named the leader.
    """

    start: int
    end: int
    epoch: int = NO_EPOCH
    topic_id: UUID = NO_TOPIC_ID


def look_up_span(settings: ClientSettings, where: TopicPartition) -> Span:
    """Ask the partition's leader where its log starts and ends. Raises ClusterError if no broker answers."""
    link, view = dial_leader(settings, where)
    return span_of(link, where, view)


def span_of(link: Link, where: TopicPartition, view: ClusterView) -> Span:
    """As the leader on the other side says; the link is closed. Raises as `look_up_span`."""
    epoch = view.epochs.get(where, NO_EPOCH)
    try:
        with sensible_answers(link):
            start, _ = _list_offset(link, where, _EARLIEST, epoch)
            end, epoch = _list_offset(link, where, _LATEST, epoch)
            return Span(start, end, epoch, view.topic_ids.get(where.topic, NO_TOPIC_ID))
    except OSError as broken:
        raise ClusterUnreachable(f"broker {link.address} broke off the connection: {broken}") from broken
    finally:
        link.close()


def _list_offset(link: Link, where: TopicPartition, timestamp: int, current_epoch: int) -> tuple[int, int]:
    """The offset, and the leader epoch that comes with it: at a log's end, the leader's own."""
    topic_class = ListOffsetsRequest.ListOffsetsTopic
    partition = topic_class.ListOffsetsPartition(
        partition_index=where.partition, current_leader_epoch=current_epoch, timestamp=timestamp
    )
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=0, topics=[topic_class(name=where.topic, partitions=[partition])]
    )
    answer = link.ask(request, ListOffsetsResponse, link.version(_LIST_OFFSETS, _LIST_OFFSETS_VERSIONS))
    found = answer.topics[0].partitions[0]
    if found.error_code:
        raise ClusterUnreachable(f"broker {link.address} cannot tell the offsets of {where}: error {found.error_code}")
    return int(found.offset), NO_EPOCH if found.leader_epoch is None else int(found.leader_epoch)


def look_up_topic_configs(settings: ClientSettings, topic: str, names: Iterable[str]) -> dict[str, str]:
    """Effective values of these settings of a topic; one that its broker does not know is missing.

    Raises ClusterError if no broker answers, or without the right DESCRIBE_CONFIGS.
    """
    return ask_anyone(settings, partial(_topic_configs, topic=topic, names=list(names)))


def _topic_configs(link: Link, topic: str, names: list[str]) -> dict[str, str]:
    resource = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(
        resources=[resource(resource_type=_TOPIC, resource_name=topic, configuration_keys=names)],
        include_synonyms=False,
        include_documentation=False,
    )
    version = link.version(_DESCRIBE_CONFIGS, _DESCRIBE_CONFIGS_VERSIONS)
    found = link.ask(request, DescribeConfigsResponse, version).results[0]
    if found.error_code:
        raise ClusterError(f"broker {link.address} does not tell the settings of {topic}: error {found.error_code}")
    return {config.name: config.value for config in found.configs if config.value is not None}
