"""The admin client of one cluster: brokers, topics, settings, offsets.

Opened by `kafka.clients.open_admin`; used by the topic job, the ledger, the planner and the CLI. Every method asks in
bulk and answers per topic or partition, so that a topic that is deleted in between never affects the others.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Self

from kafka.protocol.admin import CreatePartitionsRequest, CreateTopicsRequest, DescribeConfigsRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from sparkmirror import __version__
from sparkmirror.errors import ClusterError, SparkMirrorError
from sparkmirror.kafka.answers import EARLIEST, LATEST, ConfigEntry, Leader, NewTopic
from sparkmirror.kafka.connection import ClusterConnection, portions
from sparkmirror.kafka.errors import NO_ERROR, NOT_CONTROLLER, UNKNOWN_TOPIC_OR_PARTITION, refusal
from sparkmirror.kafka.log_offsets import ANY_READER, LogOffsets, leaders_of, list_log_offsets
from sparkmirror.kafka.wire.raw_answer import RawAnswer, RawRequest, SettingsAnswer
from sparkmirror.kafka.witnesses import FEW, Witnesses, take_newest
from sparkmirror.model import NO_TOPIC_ID, Topic, TopicPartition

_TOPIC = 2
_LEADER_NOT_AVAILABLE = 5
_TOPICS_PER_REQUEST = 500
NEW_PARTITIONS_PER_REQUEST = 250
"""A broker creates all logs of one request at once, 2 ms each (measured), and handles no other request meanwhile."""
_LISTS_MAX = 4
_ORDER_TIMEOUT_MS = 30_000
_SETTLE_SECONDS_MAX = 5.0
ALL_SECONDS_MAX = 30.0
_MISSING_SECONDS = 2.0
"""A broker may report a new topic this much later than another broker."""
_POLL_SECONDS = 0.02
_POLL_SECONDS_MAX = 0.1


class Admin:
    """The control plane of one cluster. A context manager; may be used by several threads."""

    def __init__(self, connection: ClusterConnection) -> None:
        self.connection = connection
        self._lists: dict[bytes, dict[str, Topic]] = {}
        self._witnesses = Witnesses(self._metadata)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.connection.close()

    @property
    def alias(self) -> str:
        return self.connection.alias

    def brokers(self) -> dict[int, tuple[str, int]]:
        """Live brokers: node id -> (host, port) as advertised on the listener we came through."""
        return {broker.node_id: (broker.host, broker.port) for broker in self._metadata([]).brokers}

    def cluster_id(self) -> str:
        """The cluster's own id, "" where its brokers do not tell."""
        return str(self._metadata([]).cluster_id or "")

    def api_versions(self, node_id: int | None = None) -> dict[int, tuple[int, int]]:
        """API key -> (lowest, highest) version that one broker accepts."""
        answer = self.connection.ask(_api_versions_request, "asking for API versions", node_id)
        return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}

    def finalized_features(self, node_id: int | None = None) -> dict[str, int]:
        """Cluster feature -> finalized level, such as `transaction.version` (KIP-584); empty on old brokers."""
        answer = self.connection.ask(_api_versions_request, "asking for the cluster's features", node_id)
        return {feature.name: feature.max_version_level for feature in answer.finalized_features or ()}

    def list_topics(self, names: Iterable[str] | None = None) -> dict[str, Topic]:
        """Topics by name, without configs; all that we may see, or those of `names` that exist.

        Topic ids come from brokers of Kafka 2.8 or later (KIP-516), NO_TOPIC_ID from older ones.
        """
        if names is None:
            return self._list_all()
        return _topics(self._metadata(sorted(set(names))))

    def list_known_topics(self, names: Iterable[str] | None = None) -> dict[str, Topic]:
        """As `list_topics`, those that any of several brokers knows, with the most partitions: one that has slept, or
        is cut off from the others, lacks what was made since. Others may show what was deleted."""
        wanted, found = None if names is None else sorted(set(names)), dict[str, Topic]()
        first = self._metadata(wanted)
        for answer in (first, *self._witnesses.hear(first, wanted)):
            for name, topic in _topics(answer).items():
                if name not in found or topic.partitions > found[name].partitions:
                    found[name] = topic
        return found

    def _list_all(self) -> dict[str, Topic]:
        """All topics. An answer equal to a recent one is not decoded again: decoding many topics takes long, and most
        looks find no change. Each broker has its own order of topics, so several answers are remembered."""
        raw = self.connection.ask(lambda: RawRequest(_metadata_request(None)), "reading the cluster's metadata")
        digest = blake2b(raw.data, digest_size=16).digest()
        found = self._lists.get(digest)
        if found is None:
            found = _topics(raw.decode())
            self._lists = {**dict(list(self._lists.items())[1 - _LISTS_MAX :]), digest: found}
        return dict(found)

    def leaders(self, topics: Iterable[str] | None = None) -> dict[TopicPartition, Leader]:
        """The leader of each partition of the topics that exist, or of all that we may see; NO_LEADER for a partition
        that has none now.
        """
        return leaders_of(self._metadata(None if topics is None else sorted(set(topics))))

    def describe_configs(
        self, topics: Iterable[str], keys: Sequence[str] | None = None
    ) -> dict[str, dict[str, ConfigEntry]]:
        """Settings per topic with their sources (all, or those of `keys`); topics that cannot be read are left out."""
        return self.ask_configs(topics, keys).read()

    def ask_configs(self, topics: Iterable[str], keys: Sequence[str] | None = None) -> SettingsAnswer:
        """As `describe_configs`, not decoded yet: callers read it only if it has changed."""
        wanted = portions(sorted(set(topics)), _TOPICS_PER_REQUEST)
        return SettingsAnswer([self._describe(names, keys) for names in wanted])

    def topic_configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """Explicitly set values per topic (`ConfigEntry.is_explicit`); topics that cannot be read are left out."""
        return {
            topic: {key: entry.value for key, entry in entries.items() if entry.is_explicit and entry.value is not None}
            for topic, entries in self.describe_configs(topics).items()
        }

    def create_topics(self, topics: Sequence[NewTopic]) -> dict[str, SparkMirrorError | None]:
        """Creates each topic by itself; name -> None, or why not (`TopicExists` if it is there already).

        Very many are created some at a time, so that other topics do not wait for all of them; each time until the new
        ones show in the metadata, or for 5 s: brokers learn of them a moment later.
        """
        outcome: dict[str, SparkMirrorError | None] = {}
        for some in _by_partitions(topics, NEW_PARTITIONS_PER_REQUEST):
            outcome |= self._create_topics(some, validate_only=False)
            self._wait_for({topic.name: 1 for topic in some if outcome.get(topic.name) is None})
        return outcome

    def rehearse_topics(self, topics: Sequence[NewTopic]) -> dict[str, SparkMirrorError | None]:
        """What `create_topics` would answer: brokers check rights and policies, and create no topic."""
        return self._create_topics(topics, validate_only=True)

    def _create_topics(self, topics: Sequence[NewTopic], *, validate_only: bool) -> dict[str, SparkMirrorError | None]:
        outcome: dict[str, SparkMirrorError | None] = {}
        for some in portions(topics, _TOPICS_PER_REQUEST):
            answer = self._order(
                lambda some=some: _create_topics_request(some, validate_only), "topics", "creating topics"
            )
            for result in answer.topics:
                outcome[result.name] = self._outcome(result, f"creating topic {result.name}")
        return outcome

    def create_partitions(self, counts: Mapping[str, int]) -> dict[str, SparkMirrorError | None]:
        """Grows each topic to its total number of partitions; name -> None, or why not. Waits like `create_topics`."""
        outcome: dict[str, SparkMirrorError | None] = {}
        for some in portions(sorted(counts.items()), _TOPICS_PER_REQUEST):
            answer = self._order(lambda some=some: _create_partitions_request(some), "results", "adding partitions")
            for result in answer.results:
                outcome[result.name] = self._outcome(result, f"adding partitions to topic {result.name}")
        self._wait_for({name: count for name, count in counts.items() if outcome.get(name) is None})
        return outcome

    def auto_create_topics(self, names: Iterable[str]) -> dict[str, SparkMirrorError | None]:
        """Lets the brokers create topics as `auto.create.topics.enable` says; name -> None, or why it is not there.

        Waits like `create_topics`. Settings are the brokers': `num.partitions`, `default.replication.factor`.
        """
        wanted = sorted(set(names))
        answer = self._metadata(wanted, create=True)
        self._wait_for(dict.fromkeys(wanted, 1))
        missing = set(wanted) - self.list_topics(wanted).keys()
        codes = {topic.name: topic.error_code for topic in answer.topics}
        return {
            name: self._not_created(name, codes.get(name, NO_ERROR)) if name in missing else None for name in wanted
        }

    def _not_created(self, name: str, code: int) -> SparkMirrorError:
        if code not in (NO_ERROR, UNKNOWN_TOPIC_OR_PARTITION, _LEADER_NOT_AVAILABLE):
            return refusal(code, self.alias, f"creating topic {name} by asking for it")
        return ClusterError(
            f"Cluster {self.alias} has no topic {name} and does not create it.",
            "Create it there, or set auto.create.topics.enable=true on its brokers.",
        )

    def earliest_offsets(self, partitions: Iterable[TopicPartition]) -> LogOffsets:
        """Log start offsets; see `list_offsets`."""
        return self.list_offsets(dict.fromkeys(partitions, EARLIEST))

    def latest_offsets(self, partitions: Iterable[TopicPartition], *, read_committed: bool = False) -> LogOffsets:
        """High watermarks, or last stable offsets with `read_committed`; see `list_offsets`."""
        return self.list_offsets(dict.fromkeys(partitions, LATEST), read_committed=read_committed)

    def newest_ends(self, partitions: Iterable[TopicPartition], seconds_max: float = _SETTLE_SECONDS_MAX) -> LogOffsets:
        """As `latest_offsets`, by the leaders of `newest_offsets`: for who says that all is mirrored, for instance."""
        return self.newest_offsets(dict.fromkeys(partitions, LATEST), seconds_max)

    def newest_offsets(
        self, timestamps_ms: Mapping[TopicPartition, int], seconds_max: float, *, read_committed: bool = False
    ) -> LogOffsets:
        """As `list_offsets`, by the newest leaders that several brokers know, of the topics that most of these show."""
        return list_log_offsets(
            self.connection, self._newest_metadata, timestamps_ms,
            read_committed=read_committed, seconds_max=seconds_max, missing_seconds=min(_MISSING_SECONDS, seconds_max),
        )  # fmt: skip

    def shown_topics(self, names: Iterable[str] | None = None) -> list[dict[str, Topic]]:
        """What each of several brokers says, as `list_topics`. Raises ClusterUnreachable where none answers."""
        wanted = None if names is None else sorted(set(names))
        found = self._witnesses.hear(self._metadata([]), wanted, FEW)
        return [_topics(answer) for answer in found or [self._metadata(wanted)]]

    def _newest_metadata(self, names: list[str]) -> Any:
        found = self._metadata(names)
        take_newest(found, self._witnesses.hear(found, names))
        return found

    def await_earliest_offsets(
        self, partitions: Iterable[TopicPartition], seconds_max: float = ALL_SECONDS_MAX
    ) -> dict[TopicPartition, int]:
        """Log start offsets of all partitions that exist; waits as `await_latest_offsets`. Raises OffsetsUnknown."""
        return self._await(dict.fromkeys(partitions, EARLIEST), seconds_max).all()

    def await_latest_offsets(
        self,
        partitions: Iterable[TopicPartition],
        seconds_max: float = ALL_SECONDS_MAX,
        *,
        read_committed: bool = False,
    ) -> dict[TopicPartition, int]:
        """High watermarks of all partitions that exist, for callers that go on from "all": waits for each of them. With
        `read_committed` their last stable offsets.

        A silent leader is replaced after `broker.session.timeout.ms`, 9 s by default, where there are other replicas.
        Raises OffsetsUnknown, which names the partitions and the brokers that do not answer.
        """
        return self._await(dict.fromkeys(partitions, LATEST), seconds_max, read_committed=read_committed).all()

    def await_newest_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """As `await_latest_offsets`, by the leaders of `newest_ends`. Raises OffsetsUnknown."""
        return self.newest_ends(partitions, ALL_SECONDS_MAX).all()

    def log_ends(self, partitions: Iterable[TopicPartition], *, by_newest: bool = False) -> LogOffsets:
        """Where the leaders' logs end, records above the high watermark included, see `list_offsets`; `by_newest`
        leaders, as `newest_ends`."""
        return list_log_offsets(
            self.connection, self._newest_metadata if by_newest else self._metadata, dict.fromkeys(partitions, LATEST),
            read_committed=False, seconds_max=_SETTLE_SECONDS_MAX, replica_id=ANY_READER,
        )  # fmt: skip

    def await_end(self, partition: TopicPartition, seconds_max: float = ALL_SECONDS_MAX) -> int:
        """The high watermark of a partition that must exist. Raises OffsetsUnknown."""
        return self._await({partition: LATEST}, seconds_max).of(partition)

    def _await(
        self, wanted: Mapping[TopicPartition, int], seconds_max: float, *, read_committed: bool = False
    ) -> LogOffsets:
        return list_log_offsets(
            self.connection, self._metadata, wanted, read_committed=read_committed,
            seconds_max=seconds_max, missing_seconds=_MISSING_SECONDS,
        )  # fmt: skip

    def offsets_at(self, partitions: Collection[TopicPartition], at_ms: int) -> LogOffsets:
        """The first offset at or after a point in time; where there is none, the end. See `list_offsets`."""
        found = self.list_offsets(dict.fromkeys(partitions, at_ms))
        ends = self.latest_offsets(where for where, offset in found.known.items() if offset < 0)
        known = {where: offset for where, offset in found.known.items() if offset >= 0}
        unknown, epochs = {**found.unknown, **ends.unknown}, {**found.epochs, **ends.epochs}
        return LogOffsets(self.alias, known | dict(ends.known), unknown, epochs)

    def list_offsets(self, timestamps_ms: Mapping[TopicPartition, int], *, read_committed: bool = False) -> LogOffsets:
        """The first offset at or after a timestamp in ms, or at EARLIEST or LATEST; -1 if no record is so young.

        One request per leader. Partitions that have no leader, or whose leader does not answer for 5 s, are unknown;
        those that do not exist are left out.
        """
        return list_log_offsets(
            self.connection, self._metadata, timestamps_ms,
            read_committed=read_committed, seconds_max=_SETTLE_SECONDS_MAX,
        )  # fmt: skip

    def _wait_for(self, partitions: Mapping[str, int]) -> None:
        ends_at = time.monotonic() + _SETTLE_SECONDS_MAX
        pause = _POLL_SECONDS
        while partitions:
            found = self.list_topics(partitions)
            partitions = {
                name: count for name, count in partitions.items() if name not in found or found[name].partitions < count
            }
            if not partitions or time.monotonic() > ends_at or self.connection.wait(pause):
                break
            pause = min(pause * 1.5, _POLL_SECONDS_MAX)

    def _metadata(
        self,
        names: list[str] | None,
        *,
        create: bool = False,
        node_id: int | None = None,
        seconds_max: float | None = None,
    ) -> Any:
        return self.connection.ask(
            lambda: _metadata_request(names, create), "reading the cluster's metadata", node_id, seconds_max
        )

    def _describe(self, topics: Sequence[str], keys: Sequence[str] | None) -> RawAnswer:
        def request() -> Any:
            resource = DescribeConfigsRequest.DescribeConfigsResource
            resources = [resource(resource_type=_TOPIC, resource_name=name, configuration_keys=keys) for name in topics]
            asked = DescribeConfigsRequest(resources=resources, include_synonyms=False, include_documentation=False)
            return RawRequest(asked)

        answer: RawAnswer = self.connection.ask(request, "reading topic settings")
        return answer

    def _order(self, make_request: Any, results: str, doing: str) -> Any:
        """Asks the controller, which only clusters with ZooKeeper care about, again if it has just moved."""
        answer = None
        for _ in range(5):
            answer = self.connection.ask(make_request, doing, self._metadata([]).controller_id)
            if not any(result.error_code == NOT_CONTROLLER for result in getattr(answer, results)):
                break
            self.connection.wait(0.2)
        return answer

    def _outcome(self, result: Any, doing: str) -> SparkMirrorError | None:
        if result.error_code == NO_ERROR:
            return None
        return refusal(result.error_code, self.alias, doing, result.error_message)


def _api_versions_request() -> Any:
    return ApiVersionsRequest(client_software_name="sparkmirror", client_software_version=__version__, max_version=4)


def _metadata_request(names: list[str] | None, create: bool = False) -> Any:
    wanted = None if names is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=create)


def _topics(answer: Any) -> dict[str, Topic]:
    return {topic.name: _topic(topic) for topic in answer.topics if topic.error_code == NO_ERROR}


def _topic(topic: Any) -> Topic:
    replicas = [len(partition.replica_nodes) for partition in topic.partitions]
    return Topic(
        name=topic.name,
        topic_id=topic.topic_id or NO_TOPIC_ID,
        partitions=len(topic.partitions),
        replication_factor=max(replicas, default=0),
        internal=bool(topic.is_internal),
    )


def _by_partitions(topics: Sequence[NewTopic], partitions_max: int) -> Iterator[list[NewTopic]]:
    """The topics in order, so many partitions at a time, or one topic that has more."""
    some: list[NewTopic] = []
    count = 0
    for topic in topics:
        if some and count + topic.partitions > partitions_max:
            yield some
            some, count = [], 0
        some.append(topic)
        count += max(topic.partitions, 1)
    if some:
        yield some


def _create_topics_request(topics: Sequence[NewTopic], validate_only: bool) -> Any:
    creatable = CreateTopicsRequest.CreatableTopic
    setting = creatable.CreatableTopicConfig
    return CreateTopicsRequest(
        topics=[
            creatable(
                name=topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                assignments=[],
                configs=[setting(name=key, value=value) for key, value in sorted(topic.configs.items())],
            )
            for topic in topics
        ],
        timeout_ms=_ORDER_TIMEOUT_MS,
        validate_only=validate_only,
    )


def _create_partitions_request(counts: Sequence[tuple[str, int]]) -> Any:
    growing = CreatePartitionsRequest.CreatePartitionsTopic
    topics = [growing(name=name, count=count, assignments=None) for name, count in counts]
    return CreatePartitionsRequest(topics=topics, timeout_ms=_ORDER_TIMEOUT_MS, validate_only=False)
