"""MirrorMaker's client library in Python: translates offsets of groups, and tells which clusters are mirrored where.

`MirrorClient` and `RemoteClusterUtils` of connect-mirror-client 4.3, call by call, for applications that fail over by
themselves. Works against SparkMirror and MirrorMaker 2 alike: it only reads one cluster's topics.

    with MirrorClient({"bootstrap.servers": "b1:9092"}) as client:
        client.replication_hops("A")                       # 1
        client.remote_consumer_offsets("billing", "A")     # {A.orders-0: Committed(offset=149, metadata='')}
"""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Self

from sparkmirror.errors import ProtocolError
from sparkmirror.kafka.clients import open_admin, open_tail
from sparkmirror.kafka.group_answers import Committed
from sparkmirror.ledger.mirror_records import Checkpoint, Heartbeat
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.policy.naming import DefaultReplicationPolicy, ReplicationPolicy

NO_HOPS = -1
_HEARTBEATS_MAX = 50_000


def hops_of(topic: str, source: str, policy: ReplicationPolicy) -> int:
    """How many mirrorings ago `topic` was on cluster `source`; NO_HOPS if never, or if its name leads in a circle."""
    seen: set[str] = set()
    hops = 0
    while (upstream_source := policy.topic_source(topic)) is not None:
        hops += 1
        if upstream_source == source:
            return hops
        upstream = policy.upstream_topic(topic)
        if upstream is None or upstream_source in seen:
            return NO_HOPS
        seen.add(upstream_source)
        topic = upstream
    return NO_HOPS


def sources_of(topic: str, policy: ReplicationPolicy) -> list[str]:
    """The clusters that `topic` was mirrored from, the nearest first."""
    sources: list[str] = []
    while (source := policy.topic_source(topic)) is not None and source not in sources:
        sources.append(source)
        upstream = policy.upstream_topic(topic)
        if upstream is None:
            break
        topic = upstream
    return sources


class MirrorClient:
    """Questions to one cluster, which some mirror writes to. A context manager, for one thread."""

    def __init__(self, properties: Mapping[str, str], policy: ReplicationPolicy | None = None) -> None:
        """Connects. `properties` are Java client properties, `bootstrap.servers` among them.

        `policy` is the mirror's way of naming, by default DefaultReplicationPolicy. Raises ConfigError, ClusterError.
        """
        self.policy: ReplicationPolicy = policy or DefaultReplicationPolicy()
        self._cluster = Cluster(properties.get("bootstrap.servers", ""), properties)
        self._admin = open_admin(self._cluster, "mirror-client")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._admin.close()

    def replication_hops(self, upstream_cluster: str) -> int:
        """The number of mirrorings from `upstream_cluster` to here, by heartbeats; NO_HOPS if there is no way."""
        found = (hops_of(topic, upstream_cluster, self.policy) for topic in self.heartbeat_topics())
        return min((hops for hops in found if hops != NO_HOPS), default=NO_HOPS)

    def heartbeat_topics(self) -> set[str]:
        """`heartbeats` and its remote topics."""
        return self._topics(self.policy.is_heartbeats_topic)

    def heartbeats(
        self, seconds_max: float = 30.0, beats_max: int = _HEARTBEATS_MAX
    ) -> dict[tuple[str, ...], list[Heartbeat]]:
        """The last heartbeats by the way they came: () for this cluster's own topic, ("A", "Z") for `A.Z.heartbeats`.

        Beyond Java's client. Reads at most the last `beats_max` of each topic. Raises ClusterUnreachable when that
        takes longer than `seconds_max`.
        """
        ways = {TopicPartition(topic, 0): tuple(sources_of(topic, self.policy)) for topic in self.heartbeat_topics()}
        ends = self._admin.await_latest_offsets(ways, seconds_max)
        found: dict[tuple[str, ...], list[Heartbeat]] = {way: [] for way in ways.values()}
        if not ends:
            return found
        with open_tail(self._cluster, "mirror-client", sorted(ends)) as tail:
            for partition, end in ends.items():
                tail.seek(partition, max(end - beats_max, 0))
            for record in tail.read_to_end(seconds_max):
                with suppress(ProtocolError):  # Others may have written there.
                    found[ways[record.partition]].append(Heartbeat.parse(record.key, record.value))
        return found

    def checkpoint_topics(self) -> set[str]:
        """The checkpoints topics of all sources."""
        return self._topics(self.policy.is_checkpoints_topic)

    def upstream_clusters(self) -> set[str]:
        """All clusters whose heartbeats arrive here, over any number of hops."""
        return {source for topic in self.heartbeat_topics() for source in sources_of(topic, self.policy)}

    def remote_topics(self, source: str | None = None) -> set[str]:
        """Topics that were mirrored to here; with `source`, from that cluster by the last hop."""
        return self._topics(lambda topic: self._is_remote(topic, source))

    def remote_consumer_offsets(
        self, group: str, remote_cluster: str, seconds_max: float = 30.0
    ) -> dict[TopicPartition, Committed]:
        """Where `group`, which consumes on `remote_cluster`, goes on here: by the last checkpoints, {} without any.

        Raises ClusterUnreachable when the topic cannot be read in time (Java's client then gives a part).
        """
        return self.remote_group_offsets(re.escape(group), remote_cluster, seconds_max).get(group, {})

    def remote_group_offsets(
        self, pattern: str | re.Pattern[str], remote_cluster: str, seconds_max: float = 30.0
    ) -> dict[str, dict[TopicPartition, Committed]]:
        """The same for all groups whose names match `pattern` whole (KIP-1239)."""
        wanted = re.compile(pattern)
        found: dict[str, dict[TopicPartition, Committed]] = {}
        for checkpoint in self._checkpoints(remote_cluster, seconds_max):
            if wanted.fullmatch(checkpoint.group):
                offsets = found.setdefault(checkpoint.group, {})
                offsets[checkpoint.partition] = Committed(checkpoint.downstream, checkpoint.metadata)
        return found

    def _checkpoints(self, remote_cluster: str, seconds_max: float) -> Iterable[Checkpoint]:
        topic = self.policy.checkpoints_topic(remote_cluster)
        if not self._admin.list_topics([topic]):
            return
        with open_tail(self._cluster, "mirror-client", [TopicPartition(topic, 0)]) as tail:
            records = tail.read_to_end(seconds_max)
        for record in records:
            try:
                yield Checkpoint.parse(record.key, record.value)
            except ProtocolError:
                continue  # Others may have written there; Java's client passes them by too.

    def _topics(self, wanted: Callable[[str], bool]) -> set[str]:
        return {topic for topic in self._admin.list_topics() if wanted(topic)}

    def _is_remote(self, topic: str, source: str | None) -> bool:
        found = self.policy.topic_source(topic)
        return not self.policy.is_internal_topic(topic) and found is not None and source in (None, found)


def replication_hops(properties: Mapping[str, str], upstream_cluster: str) -> int:
    """`RemoteClusterUtils.replicationHops`: see `MirrorClient.replication_hops`."""
    with MirrorClient(properties) as client:
        return client.replication_hops(upstream_cluster)


def heartbeat_topics(properties: Mapping[str, str]) -> set[str]:
    """`RemoteClusterUtils.heartbeatTopics`."""
    with MirrorClient(properties) as client:
        return client.heartbeat_topics()


def checkpoint_topics(properties: Mapping[str, str]) -> set[str]:
    """`RemoteClusterUtils.checkpointTopics`."""
    with MirrorClient(properties) as client:
        return client.checkpoint_topics()


def upstream_clusters(properties: Mapping[str, str]) -> set[str]:
    """`RemoteClusterUtils.upstreamClusters`."""
    with MirrorClient(properties) as client:
        return client.upstream_clusters()


def translate_offsets(
    properties: Mapping[str, str], remote_cluster: str, group: str, seconds_max: float = 30.0
) -> dict[TopicPartition, Committed]:
    """`RemoteClusterUtils.translateOffsets`: see `MirrorClient.remote_consumer_offsets`."""
    with MirrorClient(properties) as client:
        return client.remote_consumer_offsets(group, remote_cluster, seconds_max)
