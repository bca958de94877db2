"""Settings of a flow's parts: bulk clients, topic jobs, offset jobs, heartbeats, status page and logs.

Read by `config/flow/flows.py` from `config/keys`. Names, units and meanings are those of MirrorMaker 2 and of Kafka's
Java clients.
"""

from dataclasses import dataclass, field
from ipaddress import ip_address

from sparkmirror.config.formats.properties import Properties
from sparkmirror.config.keys import client_keys, sync_keys
from sparkmirror.config.keys.flow_keys import LEASE_RING_BYTES
from sparkmirror.config.keys.status_keys import (
    LOG_FORMAT,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_IP,
    PROBES_LISTEN,
    READ_ONLY_TOKEN,
    SSL_PREFIX,
    STATUS_LISTEN,
    STATUS_SSL,
    STATUS_TOKEN,
)
from sparkmirror.config.reading import FlowReader, Problems, Reader, setting
from sparkmirror.config.types import Address
from sparkmirror.errors import ConfigError
from sparkmirror.kafka.security.tls import TlsSettings
from sparkmirror.kafka.settings import tls_settings
from sparkmirror.model import Cluster, FlowName
from sparkmirror.policy.filters import NameFilter
from sparkmirror.policy.own import OwnClasses, OwnConfigs


@dataclass(frozen=True, slots=True)
class StatusSettings:
    """`listen` is false where nothing is served; `token` is empty where nothing may be changed.

    `log_format` is how the mirror says what happens: `text` or `json`. `tls` is None where the page speaks plain HTTP.
    """

    listen: Address = setting(STATUS_LISTEN)
    token: str = setting(STATUS_TOKEN)
    log_format: str = setting(LOG_FORMAT)
    read_only_token: str = setting(READ_ONLY_TOKEN)
    probes_listen: Address = setting(PROBES_LISTEN)
    tls: TlsSettings | None = None
    max_connections: int = setting(MAX_CONNECTIONS)
    max_connections_per_ip: int = setting(MAX_CONNECTIONS_PER_IP)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.listen.host)


def is_loopback(host: str) -> bool:
    """Whether the host is an address of loopback or the name `localhost`; other names may mean anything."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def read_status(properties: Properties, problems: Problems) -> StatusSettings:
    """Notes an address that others can reach without a token, and certificates that cannot be meant."""
    reader = Reader(properties.entries, problems)
    settings = StatusSettings(**reader.settings(StatusSettings), tls=_read_tls(properties, reader, problems))
    if settings.listen and not settings.is_loopback and not (settings.token or settings.read_only_token):
        entry = properties.get(STATUS_LISTEN.name)
        hint = "add a `status.token`, best by a config provider: `${file:/etc/sparkmirror/secrets:token}`"
        problems.error(f"`status.listen = {settings.listen}` lets other machines in without a token", hint, entry)
    if settings.token and settings.token == settings.read_only_token:
        hint = "give those who only look a token of their own"
        problems.error("`status.read.only.token` is `status.token`", hint, properties.get(READ_ONLY_TOKEN.name))
    return settings


def _read_tls(properties: Properties, reader: Reader, problems: Problems) -> TlsSettings | None:
    """The settings of `status.ssl.*`, None without any; no store is opened here."""
    said = {key.name.removeprefix(SSL_PREFIX): reader.read(key) for key in STATUS_SSL if reader.has(key)}
    if not said:
        return None
    entry = next(entry for key in STATUS_SSL if (entry := properties.get(key.name)))
    try:
        settings = tls_settings(said)
    except ConfigError as problem:
        problems.error(f"status.{problem.args[0]}", problem.hint, properties.get(SSL_PREFIX + problem.key) or entry)
        return None
    if not settings.key:
        hint = "set `status.ssl.keystore.location`, or leave all of `status.ssl.*` out"
        problems.error("`status.ssl.*` names no key and certificate for the page", hint, entry)
    return settings


_RING_BYTES_MIN = 1 << 20


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """How the source is read. A buffer of -1 is left to the operating system."""

    isolation_level: str = setting(client_keys.ISOLATION_LEVEL)
    auto_offset_reset: str = setting(client_keys.AUTO_OFFSET_RESET)
    fetch_max_bytes: int = setting(client_keys.FETCH_MAX_BYTES)
    max_partition_fetch_bytes: int = setting(client_keys.MAX_PARTITION_FETCH_BYTES)
    fetch_max_wait_ms: int = setting(client_keys.FETCH_MAX_WAIT)
    fetch_min_bytes: int = setting(client_keys.FETCH_MIN_BYTES)
    client_rack: str = setting(client_keys.CLIENT_RACK)
    receive_buffer_bytes: int = setting(client_keys.CONSUMER_RECEIVE_BUFFER)
    request_timeout_ms: int = setting(client_keys.CONSUMER_REQUEST_TIMEOUT)
    metadata_max_age_ms: int = setting(client_keys.CONSUMER_METADATA_AGE)
    client_id: str = setting(client_keys.CONSUMER_CLIENT_ID)

    def reach(self, source: Cluster) -> Cluster:
        """The source as the reader connects to it."""
        return _reach(source, self)


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """How the target is written. A buffer of -1 is left to the operating system."""

    batch_size_bytes: int = setting(client_keys.BATCH_SIZE)
    linger_ms: int = setting(client_keys.LINGER)
    send_buffer_bytes: int = setting(client_keys.PRODUCER_SEND_BUFFER)
    request_timeout_ms: int = setting(client_keys.PRODUCER_REQUEST_TIMEOUT)
    compression_type: str = setting(client_keys.COMPRESSION_TYPE)
    transaction_timeout_ms: int = setting(client_keys.TRANSACTION_TIMEOUT)
    metadata_max_age_ms: int = setting(client_keys.PRODUCER_METADATA_AGE)
    client_id: str = setting(client_keys.PRODUCER_CLIENT_ID)

    def reach(self, target: Cluster) -> Cluster:
        """The target as the writer connects to it."""
        return _reach(target, self)


def _reach(cluster: Cluster, client: ConsumerSettings | ProducerSettings) -> Cluster:
    """An age of 0, which Kafka's clients take, is a millisecond to ours."""
    own = {
        "client.id": client.client_id,
        "request.timeout.ms": str(client.request_timeout_ms),
        "metadata.max.age.ms": str(max(client.metadata_max_age_ms, 1)),
    }
    return Cluster(cluster.alias, {**cluster.client, **own})


def read_ring_bytes(flow: FlowReader) -> int:
    """The size of a task's ring, by our own key, or else by the producer's that means as much to MirrorMaker."""
    if flow.has(LEASE_RING_BYTES) or not flow.has(client_keys.BUFFER_MEMORY):
        return flow.read(LEASE_RING_BYTES)
    return max(flow.read(client_keys.BUFFER_MEMORY), _RING_BYTES_MIN)


@dataclass(frozen=True, slots=True)
class OffsetSettings:
    """Settings of one flow. Intervals are upper limits of an age."""

    emit_syncs: bool = setting(sync_keys.EMIT_OFFSET_SYNCS)
    syncs_location: str = setting(sync_keys.OFFSET_SYNCS_LOCATION)
    syncs_replication_factor: int = setting(sync_keys.OFFSET_SYNCS_REPLICATION)
    lag_max: int = setting(sync_keys.OFFSET_LAG_MAX)
    groups: NameFilter = field(
        default_factory=lambda: NameFilter(sync_keys.GROUPS.default, sync_keys.GROUPS_EXCLUDE.default)
    )
    refresh_groups: bool = setting(sync_keys.REFRESH_GROUPS_ENABLED)
    refresh_groups_interval_seconds: int = setting(sync_keys.REFRESH_GROUPS_INTERVAL)
    emit_checkpoints: bool = setting(sync_keys.EMIT_CHECKPOINTS)
    emit_checkpoints_interval_seconds: int = setting(sync_keys.EMIT_CHECKPOINTS_INTERVAL)
    checkpoints_replication_factor: int = setting(sync_keys.CHECKPOINTS_REPLICATION)
    sync_groups: bool = setting(sync_keys.SYNC_GROUP_OFFSETS)
    sync_groups_interval_seconds: int = setting(sync_keys.SYNC_GROUP_OFFSETS_INTERVAL)


def read_offsets(flow: Reader, own: OwnClasses) -> OffsetSettings:
    """The settings of a flow's layer; `own` makes classes of the user's."""
    listed = NameFilter(flow.read(sync_keys.GROUPS), flow.read(sync_keys.GROUPS_EXCLUDE))
    groups = flow.load(sync_keys.GROUP_FILTER_CLASS, own.groups) or listed
    return OffsetSettings(**flow.settings(OffsetSettings), groups=groups)


@dataclass(frozen=True, slots=True)
class HeartbeatSettings:
    """Heartbeats of one ordered pair of clusters, whether or not it mirrors data."""

    flow: FlowName
    target: Cluster
    interval_seconds: int = setting(sync_keys.EMIT_HEARTBEATS_INTERVAL)
    replication_factor: int = setting(sync_keys.HEARTBEATS_REPLICATION_FACTOR)


LOOK_SECONDS = 5.0
"""The pause between two looks for changes where a look is cheap."""
TOPICS_LOOK_SECONDS = 2.0
"""The same for new topics: their first record is to be on the target within five seconds."""


@dataclass(frozen=True, slots=True)
class SyncSettings:
    """Settings and ACLs of a flow's remote topics. Intervals say how long a change may go unnoticed at most."""

    configs_enabled: bool = setting(sync_keys.SYNC_TOPIC_CONFIGS)
    configs_interval_seconds: int = setting(sync_keys.SYNC_TOPIC_CONFIGS_INTERVAL)
    configs_exclude: tuple[str, ...] = setting(sync_keys.CONFIG_PROPERTIES_EXCLUDE)
    configs_protect: tuple[str, ...] = setting(sync_keys.SYNC_TOPIC_CONFIGS_PROTECT)
    defaults_from: str = setting(sync_keys.USE_DEFAULTS_FROM)
    acls_enabled: bool = setting(sync_keys.SYNC_TOPIC_ACLS)
    acls_interval_seconds: int = setting(sync_keys.SYNC_TOPIC_ACLS_INTERVAL)
    acls_operations: str = setting(sync_keys.SYNC_TOPIC_ACLS_OPERATIONS)
    acls_revoke: bool = setting(sync_keys.SYNC_TOPIC_ACLS_REVOKE)
    own_configs: OwnConfigs | None = None


def read_sync(flow: Reader, own: OwnClasses) -> SyncSettings:
    """The settings of a flow's layer; `own` makes classes of the user's."""
    own_configs = flow.load(sync_keys.CONFIG_FILTER_CLASS, own.configs)
    return SyncSettings(**flow.settings(SyncSettings), own_configs=own_configs)
