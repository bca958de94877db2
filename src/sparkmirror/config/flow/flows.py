"""Reads a MirrorMaker 2 file into frozen dataclasses; the only reader of configuration. Called by `cli/run.py`.

All problems of a file are reported at once, each with its line. `config/keys/table.py` says what a value means,
`config/precedence.py` which line counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sparkmirror.config.flow import flow_choice
from sparkmirror.config.flow.security import check_security
from sparkmirror.config.flow.settings import (
    TOPICS_LOOK_SECONDS,
    ConsumerSettings,
    HeartbeatSettings,
    OffsetSettings,
    ProducerSettings,
    StatusSettings,
    SyncSettings,
    read_offsets,
    read_ring_bytes,
    read_status,
    read_sync,
)
from sparkmirror.config.flow.transforms import NO_TRANSFORMS, Transforms, read_transforms, warn_of_unread_tables
from sparkmirror.config.formats.files import read_mirror_file
from sparkmirror.config.formats.properties import ConfigWarning, Properties, write_properties
from sparkmirror.config.formats.tidy import tidy
from sparkmirror.config.keys import flow_keys, status_keys
from sparkmirror.config.keys import table as keys
from sparkmirror.config.keys.key import Scope
from sparkmirror.config.plugins import find_plugins
from sparkmirror.config.precedence import (
    FlowLayers,
    admin_properties,
    cluster_properties,
    common_values,
    connector_properties,
    flow_layers,
)
from sparkmirror.config.providers import resolve, warn_of_readers
from sparkmirror.config.reading import FlowReader, Problems, Reader, setting
from sparkmirror.config.recognise import aliases_alike, note_idle, recognise
from sparkmirror.ledger.topics import LedgerTopics, ledger_topics
from sparkmirror.model import Cluster, Connector, FlowName
from sparkmirror.policy.filters import NameFilter, TopicFilter
from sparkmirror.policy.loss import LossPolicy
from sparkmirror.policy.naming import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
    SameNamePolicy,
    is_built_in,
)
from sparkmirror.policy.own import OwnClasses, OwnTopicFilter
from sparkmirror.policy.rates import WHOLE_FLOW, RateLimit


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowConfig:
    """All settings of one flow, typed. `source` and `target` carry the client properties of reader and writer."""

    name: FlowName
    source: Cluster
    target: Cluster
    policy: ReplicationPolicy
    topics: TopicFilter
    sync: SyncSettings
    offsets: OffsetSettings
    connector: Connector
    consumer: ConsumerSettings
    producer: ProducerSettings
    offset_storage_topic: str
    lease_ring_bytes: int
    rate_limits: tuple[RateLimit, ...]
    on_data_loss: LossPolicy
    transforms: Transforms = NO_TRANSFORMS
    tasks_max: int = setting(keys.TASKS_MAX)
    tasks_min: int = setting(keys.TASKS_MIN)
    replication_factor: int = setting(keys.REPLICATION_FACTOR)
    refresh_topics_enabled: bool = setting(keys.REFRESH_TOPICS_ENABLED)
    refresh_topics_interval_seconds: int = setting(keys.REFRESH_TOPICS_INTERVAL)
    offset_storage_partitions: int = setting(keys.OFFSET_STORAGE_PARTITIONS)
    offset_storage_replication_factor: int = setting(keys.OFFSET_STORAGE_REPLICATION)
    offset_flush_interval_ms: int = setting(keys.OFFSET_FLUSH_INTERVAL)
    session_timeout_ms: int = setting(keys.SESSION_TIMEOUT)
    exactly_once_source_support: str = setting(keys.EXACTLY_ONCE)
    transaction_interval_ms: int = setting(keys.TRANSACTION_INTERVAL)
    clamp_timestamps: bool = setting(flow_keys.CLAMP_TIMESTAMPS)
    epoch_seconds: int = setting(flow_keys.EPOCH_SECONDS)
    balance_interval_seconds: int = setting(flow_keys.BALANCE_INTERVAL)
    connections_per_broker: int = setting(flow_keys.CONNECTIONS_PER_BROKER)
    unpacked_bytes_max: int = setting(flow_keys.UNPACKED_BYTES_MAX)
    canary_interval_seconds: int = setting(flow_keys.CANARY_INTERVAL)
    on_send_failure: str = setting(flow_keys.ON_SEND_FAILURE)
    topic_creation: str = setting(flow_keys.TOPIC_CREATION)
    partitioning: str = setting(flow_keys.PARTITIONING)
    preserves_offsets: bool = setting(flow_keys.PRESERVE_OFFSETS)
    kept_topics: tuple[str, ...] = setting(flow_keys.PRESERVE_OFFSETS_TOPICS)
    adopted_topics: tuple[str, ...] = setting(flow_keys.PRESERVE_OFFSETS_ADOPT)
    kept_start: str = setting(flow_keys.PRESERVE_OFFSETS_START)
    offsets_filler: str = setting(flow_keys.PRESERVE_OFFSETS_FILLER)
    progress_group: str = setting(flow_keys.PROGRESS_GROUP)
    progress_group_commit_interval_ms: int = setting(flow_keys.PROGRESS_GROUP_COMMIT_INTERVAL)
    metric_names: tuple[str, ...] = setting(status_keys.METRIC_NAMES)

    @property
    def is_exactly_once(self) -> bool:
        """Whether data and positions are committed together."""
        return self.exactly_once_source_support == "enabled"

    @property
    def fetch_bytes_max(self) -> int:
        """The most that one fetch asks for: a quarter of the ring, so that several brokers' answers find room."""
        return min(self.consumer.fetch_max_bytes, max(self.lease_ring_bytes // 4, 1 << 20))

    @property
    def has_own_classes(self) -> bool:
        """Whether classes of the user's decide which topics are mirrored, or name them."""
        return not is_built_in(self.policy) or isinstance(self.topics, OwnTopicFilter)

    def should_replicate(self, topic: str) -> bool:
        """Whether the flow mirrors the source topic `topic`."""
        if self.canary_interval_seconds and topic == self.canary_topic:
            return True
        return self.topics.should_replicate(topic, self.policy, self.name)

    def keeps_offsets(self, topic: str) -> bool:
        """Whether records of the source topic `topic` get their offsets on the target; probes of the canary do not."""
        is_probed = topic == self.canary_topic
        return self.preserves_offsets and not is_probed and NameFilter(self.kept_topics).accepts(topic)

    def adopts(self, topic: str) -> bool:
        """Whether the flow goes on in a log of the target that something else has made with the same offsets."""
        return self.keeps_offsets(topic) and NameFilter(self.adopted_topics).accepts(topic)

    def first_offset(self, topic: str) -> str:
        """Where a partition of the source topic begins that has no position, as `policy.start` has it."""
        return (self.kept_start if self.keeps_offsets(topic) else "") or self.consumer.auto_offset_reset

    @property
    def look_seconds(self) -> float:
        """The pause between two looks for new topics and partitions: the configured interval is the longest."""
        return min(TOPICS_LOOK_SECONDS, self.refresh_topics_interval_seconds)

    @property
    def canary_topic(self) -> str:
        """The source's topic of the flow's probes."""
        return f"sparkmirror-canary-{self.name.target}"

    @property
    def ledger_topics(self) -> LedgerTopics:
        """The flow's internal topics on the target."""
        return ledger_topics(
            self.name.source,
            self.offset_storage_topic,
            replication_factor=self.offset_storage_replication_factor,
            offsets_partitions=self.offset_storage_partitions,
        )

    def remote_topic(self, topic: str) -> str:
        """The target's name of the source topic `topic`."""
        return self.policy.format_remote_topic(self.name.source, topic)


@dataclass(frozen=True, slots=True)
class MirrorConfig:
    """A file, understood. `clusters` hold the properties of their admin clients; `flows` mirror data, `checkpoints` are
    those whose groups alone are kept in step. `text` is the MirrorMaker 2 file that means all this, which Spark's
    workers read again, and `lines` are its lines with where they stand in the file; both may hold secrets.
    """

    clusters: Mapping[str, Cluster]
    flows: tuple[FlowConfig, ...]
    warned: tuple[ConfigWarning, ...]
    file: str
    text: str = field(default="", repr=False)
    heartbeats: tuple[HeartbeatSettings, ...] = ()
    status: StatusSettings = field(default_factory=StatusSettings)
    lines: Properties = field(default=Properties("", {}), repr=False)
    checkpoints: tuple[FlowConfig, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for a person, as sentences."""
        return tuple(map(str, self.warned))

    @property
    def sides(self) -> tuple[Cluster, ...]:
        """Sources and targets of its flows, each once."""
        return tuple({one.alias: one for flow in self.flows for one in (flow.source, flow.target)}.values())

    @property
    def purpose(self) -> str:
        """The work of a process with this file, as the end of a sentence about it."""
        if self.flows:
            return f"it mirrors {', '.join(str(flow.name) for flow in self.flows)}"
        return f"it writes only {flow_choice.name_others(self.heartbeats, self.checkpoints)}"


def load_config(path: str | Path, targets: Sequence[str] = (), flows: Sequence[str] = ()) -> MirrorConfig:
    """The file at `path`, with only the flows into `targets` and only those named in `flows` (`A->B`), where given.

    Raises ConfigError that lists every problem.
    """
    return parse_config(read_mirror_file(path), targets, flows)


def parse_config(
    properties: Properties,
    targets: Sequence[str] = (),
    flows: Sequence[str] = (),
    *,
    heartbeats_suffice: bool = False,
) -> MirrorConfig:
    """Reads the configuration from properties, as `load_config`.

    A configuration without any flow is an error, unless `heartbeats_suffice` and some pair of clusters has heartbeats
    or checkpoints to write.
    """
    config, problems = examine(properties, targets, flows, heartbeats_suffice=heartbeats_suffice)
    problems.raise_if_any()
    return config


def examine(
    properties: Properties,
    targets: Sequence[str] = (),
    flows: Sequence[str] = (),
    *,
    heartbeats_suffice: bool = True,
) -> tuple[MirrorConfig, Problems]:
    """Reads the configuration without raising: errors stand beside the valid rest."""
    problems = Problems(properties.file)
    translated = properties.warnings
    for message, entry in properties.remarks:
        problems.warn(message, entry)
    properties = understand(properties, problems)
    warn_of_readers(properties, problems)
    aliases = _read_aliases(properties, problems)
    recognise(properties, aliases, problems)
    names = flow_choice.enabled_pairs(properties, aliases, problems)
    alone = [name for name in flow_choice.checkpoint_pairs(properties, aliases, problems) if name not in names]
    asked = flow_choice.need_address(properties, aliases, (*names, *alone))
    clusters = {alias: _read_cluster(properties, alias, problems, is_asked=alias in asked) for alias in aliases}
    note_idle(properties, aliases, (*names, *alone), problems)
    enabled = tuple(_read_flow(properties, name, problems) for name in names)
    flow_choice.refuse_unsafe(properties, enabled, problems)
    flow_choice.warn_of_same_brokers(properties, enabled, problems)
    warn_of_unread_tables([flow.transforms for flow in enabled], problems)
    chosen = flow_choice.choose_flows(enabled, aliases, targets, flows, problems)
    heartbeats = _read_heartbeats(properties, clusters, targets, flows, problems)
    checkpoints = tuple(
        _read_flow(properties, name, problems) for name in alone if flow_choice.is_asked_for(name, targets, flows)
    )
    if not chosen and len(aliases) > 1:
        others = flow_choice.name_others(heartbeats, checkpoints) if heartbeats_suffice else ""
        flow_choice.note_no_flow(properties, aliases, enabled, others, problems)
    text = write_properties(properties)
    status = read_status(properties, problems)
    warnings = problems.warnings() if translated is None else translated
    found = (clusters, chosen, warnings, properties.file, text, heartbeats, status, properties, checkpoints)
    return MirrorConfig(*found), problems


def understand(properties: Properties, problems: Problems) -> Properties:
    """The lines as they count: inline comments left out, references of config providers filled in."""
    return resolve(tidy(properties, problems), problems)


_HOW_MM1 = (
    "this looks like one of MirrorMaker 1's two files: give both in the place of FILE, as `--consumer.config F "
    "--producer.config F`; `kafka-mirror-maker` mirrors by them"
)


_OF_MM1 = frozenset({"bootstrap.servers", "metadata.broker.list", "broker.list", "zookeeper.connect", "zk.connect"})
"""The names that a client's file uses for its cluster, today and formerly."""


def _read_aliases(properties: Properties, problems: Problems) -> tuple[str, ...]:
    if properties.get("clusters") is None:
        is_of_mm1 = not _OF_MM1.isdisjoint(properties.entries)
        problems.error("`clusters` is missing", _HOW_MM1 if is_of_mm1 else "add a line such as `clusters = A, B`")
        return ()
    reader = Reader(properties.entries, problems)
    wrong_before = len(problems.errors)
    aliases = reader.read(keys.CLUSTERS)
    if not aliases and len(problems.errors) == wrong_before:
        problems.error("`clusters` is empty", "list the aliases, as in `clusters = A, B`", properties.get("clusters"))
    if any(" " in alias for alias in aliases):
        meant = ", ".join(word for alias in aliases for word in alias.split())
        hint = f"write `clusters = {meant}`"
        problems.error("`clusters` has no comma between two aliases", hint, properties.get("clusters"))
        return tuple(meant.split(", "))
    for first, second in aliases_alike(aliases):
        message = f"`{first}` and `{second}` are two clusters: capitals count in aliases, and in all keys"
        problems.warn(message, properties.entries["clusters"])
    return aliases


def _read_cluster(properties: Properties, alias: str, problems: Problems, *, is_asked: bool) -> Cluster:
    layer = cluster_properties(properties, alias)
    if is_asked and "bootstrap.servers" not in layer:
        hint = f"add a line such as `{alias}.bootstrap.servers = broker1:9092`"
        problems.error(f"the cluster `{alias}` has no `bootstrap.servers`", hint, properties.get("clusters"))
    admin = admin_properties(layer)
    for key in keys.keys_of(Scope.CLIENT, Scope.ADMIN):
        Reader(admin, problems).check(key)
    return Cluster(alias, {name: entry.value.strip() for name, entry in admin.items()})


def _check(layers: FlowLayers, problems: Problems) -> None:
    """Notes every unusable value that counts for a flow, also of keys that `FlowConfig` does not carry."""
    for key in keys.KEYS:
        for layer in layers.of(key.scope):
            Reader(layer, problems).check(key)


def _read_heartbeats(
    properties: Properties,
    clusters: Mapping[str, Cluster],
    targets: Sequence[str],
    flows: Sequence[str],
    problems: Problems,
) -> tuple[HeartbeatSettings, ...]:
    """The heartbeats that the file asks for, of the pairs that beat."""
    pairs = flow_choice.beating_pairs(properties, tuple(clusters))
    layers = {pair: connector_properties(properties, pair) for pair in pairs}
    return tuple(
        HeartbeatSettings(pair, clusters[pair.target], **Reader(layer, problems).settings(HeartbeatSettings))
        for pair, layer in layers.items()
        if flow_choice.is_asked_for(pair, targets, flows)
    )


def _read_flow(properties: Properties, name: FlowName, problems: Problems) -> FlowConfig:
    layers = flow_layers(properties, name)
    _check(layers, problems)
    flow = FlowReader(layers, problems)
    flow_choice.warn_of_uncommitted_source(flow, name, problems)
    flow_choice.refuse_crossed_tasks(flow, name, problems)
    transforms = read_transforms(layers.connector, problems)
    flow_choice.refuse_moved_offsets(flow, name, transforms, problems)
    own_topic = flow.read(keys.OFFSETS_STORAGE_TOPIC) or flow.read(keys.OFFSET_STORAGE_TOPIC)
    connector = flow.values() | {"source.cluster.alias": name.source, "target.cluster.alias": name.target}
    own = OwnClasses(connector, find_plugins(properties, name.target, problems))
    source = Cluster(name.source, common_values(layers.consumer))
    target = Cluster(name.target, common_values(layers.producer))
    for cluster, layer in ((source, layers.consumer), (target, layers.producer)):
        check_security(cluster, layer, problems)
    return FlowConfig(
        **flow.settings(FlowConfig),
        name=name,
        source=source,
        target=target,
        policy=_read_policy(flow, name, own),
        topics=_read_topics(flow, own),
        sync=read_sync(flow, own),
        offsets=read_offsets(flow, own),
        connector=_read_connector(flow, name),
        consumer=ConsumerSettings(**flow.settings(ConsumerSettings)),
        producer=ProducerSettings(**flow.settings(ProducerSettings)),
        offset_storage_topic=ledger_topics(name.source, own_topic).offsets,
        lease_ring_bytes=read_ring_bytes(flow),
        rate_limits=_read_rates(flow),
        on_data_loss=LossPolicy(flow.read(flow_keys.ON_DATA_LOSS), flow.read(flow_keys.ON_DATA_LOSS_TOPICS)),
        transforms=transforms,
    )


def _read_connector(flow: FlowReader, name: FlowName) -> Connector:
    default = Connector.of_dedicated_mode(name.source)
    group, own_name = flow.read(keys.GROUP_ID), flow.read(keys.PROGRESS_CONNECTOR)
    return Connector(name.source, group or default.group, own_name or default.name)


def _read_rates(flow: Reader) -> tuple[RateLimit, ...]:
    whole = flow.read(flow_keys.RATE_LIMIT)
    return (*((RateLimit(WHOLE_FLOW, whole),) if whole else ()), *flow.read(flow_keys.RATE_LIMIT_TOPICS))


def _read_policy(flow: Reader, name: FlowName, own: OwnClasses) -> ReplicationPolicy:
    separator, internal = flow.read(keys.POLICY_SEPARATOR), flow.read(keys.POLICY_INTERNAL_SEPARATOR)
    policy_class = flow.read(keys.POLICY_CLASS)
    if policy_class == keys.SAME_NAME_POLICY:
        return SameNamePolicy(separator, internal, name.source)
    if policy_class == keys.IDENTITY_POLICY:
        return IdentityReplicationPolicy(separator, internal, name.source)
    default = DefaultReplicationPolicy(separator, internal)
    if policy_class == keys.DEFAULT_POLICY:
        return default
    return flow.load(keys.POLICY_CLASS, own.policy) or default


def _read_topics(flow: Reader, own: OwnClasses) -> TopicFilter:
    heartbeats = flow.read(keys.HEARTBEATS_REPLICATION)
    listed = TopicFilter(flow.read(keys.TOPICS), flow.read(keys.TOPICS_EXCLUDE), heartbeats)
    return flow.load(keys.TOPIC_FILTER_CLASS, lambda spec: own.topics(spec, heartbeats=heartbeats)) or listed
