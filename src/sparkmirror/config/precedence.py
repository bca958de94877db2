"""Decides which line of a file counts, by MirrorMaker 2's layers, step by step (`MirrorMakerConfig`,
`MirrorConnectorConfig` 4.3).

Each function returns entries by the name under which a component reads them; later layers replace earlier ones. Called
by `config/flow/flows.py`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sparkmirror.config.formats.properties import Entry, Properties
from sparkmirror.config.keys.client_keys import CLIENT_COMMON
from sparkmirror.config.keys.key import Scope, is_family
from sparkmirror.config.keys.table import keys_of
from sparkmirror.model import FlowName

Layer = dict[str, Entry]

_ROLES = ("producer", "consumer", "admin")
_TOP_LEVEL = frozenset(key.name for key in keys_of(Scope.FLOW) if not is_family(key.name))
_TOP_LEVEL_FAMILIES = tuple(key for key in keys_of(Scope.FLOW) if is_family(key.name))
_JOBS = (
    *("refresh.topics", "refresh.groups", "sync.topic.configs", "sync.topic.acls"),
    *("sync.group.offsets", "emit.checkpoints"),
)
_BELOW_ZERO = re.compile(r"-0*[1-9][0-9]*")
_WORKER_PREFIXES = (
    *("offset.storage", "config.storage", "status.storage", "key.converter", "value.converter", "header.converter"),
    *("task", "worker", "replication.policy"),
    "plugin.path",  # read by MirrorMaker itself, beside its workers
)


@dataclass(frozen=True, slots=True)
class FlowLayers:
    """The layers that the parts of one flow read: its connectors, the worker, the reading and the writing client."""

    connector: Layer
    worker: Layer
    consumer: Layer
    producer: Layer

    def of(self, scope: Scope) -> tuple[Layer, ...]:
        """The layer in which keys of `scope` are read; empty for keys that belong to no flow."""
        return {
            Scope.FLOW: (self.connector,),
            Scope.FLOW_ONLY: (self.connector,),
            Scope.WORKER: (self.worker,),
            Scope.STORAGE: (self.worker,),
            Scope.CLIENT: (self.consumer, self.producer),
            Scope.CONSUMER: (self.consumer,),
            Scope.PRODUCER: (self.producer,),
        }.get(scope, ())


def flow_layers(properties: Properties, flow: FlowName) -> FlowLayers:
    """All layers of a flow."""
    connector, worker = connector_properties(properties, flow), worker_properties(properties, flow)
    consumer, producer = source_consumer_properties(connector), target_producer_properties(connector, worker)
    return FlowLayers(connector, worker, consumer, producer)


def cluster_properties(properties: Properties, alias: str) -> Layer:
    """The properties of a cluster: its own, and what it shares with all from the top level (`clusterProps`)."""
    own = properties.below(f"{alias}.")
    for common in (dict(own), dict(properties.entries)):
        for name in CLIENT_COMMON:
            if (entry := common.get(name)) is not None:
                for variant in (name, *(f"{role}.{name}" for role in _ROLES)):
                    own.setdefault(variant, entry)
    return own


def connector_properties(properties: Properties, flow: FlowName) -> Layer:
    """The settings of MirrorMaker's connectors of a flow (`connectorBaseConfig`): `S->T.` wins over all else."""
    layer = {name: entry for name, entry in properties.entries.items() if _is_for_flows(name)}
    for side, alias in (("source", flow.source), ("target", flow.target)):
        for name, entry in cluster_properties(properties, alias).items():
            layer[f"{side}.{name}" if name.startswith(_ROLES) else f"{side}.cluster.{name}"] = entry
    return _with_switches(layer | properties.below(f"{flow}."))


def _with_switches(layer: Layer) -> Layer:
    """An interval below zero turns its job off, whatever its switch says (`Scheduler.scheduleRepeating`)."""
    for job in _JOBS:
        entry = layer.get(f"{job}.interval.seconds")
        if entry is not None and _BELOW_ZERO.fullmatch(entry.value.strip()):
            del layer[f"{job}.interval.seconds"]
            layer[f"{job}.enabled"] = replace(entry, value="false")
    return layer


def _is_for_flows(name: str) -> bool:
    """Whether a top-level key reaches the flows: keys that the table names, or options of a naming policy of the user's
    own."""
    if name in _TOP_LEVEL or name.startswith("replication.policy"):
        return True
    return any(key.parts(name) is not None for key in _TOP_LEVEL_FAMILIES)


def worker_properties(properties: Properties, flow: FlowName) -> Layer:
    """The settings of the Connect worker of a flow (`workerConfig`): the target's properties below the top level's."""
    top = {key: entry for key, entry in properties.entries.items() if key.startswith(_WORKER_PREFIXES)}
    return cluster_properties(properties, flow.target) | top


def source_consumer_properties(connector: Mapping[str, Entry]) -> Layer:
    """The flow's reading client (`sourceConsumerConfig`): `S.consumer.x` wins over `S->T.consumer.x`."""
    return (
        _common(_below(connector, "source.cluster."))
        | _below(connector, "consumer.")
        | _below(connector, "source.consumer.")
    )


def target_producer_properties(connector: Mapping[str, Entry], worker: Mapping[str, Entry]) -> Layer:
    """The flow's writing client (`Worker.baseProducerConfigs`): `T.producer.x`, then `S->T.producer.override.x`."""
    return _common(worker) | _below(worker, "producer.") | _below(connector, "producer.override.")


def admin_properties(cluster: Mapping[str, Entry]) -> Layer:
    """The admin client of a cluster: what all its clients share, then `X.admin.x`."""
    return _common(cluster) | _below(cluster, "admin.")


def common_values(client: Mapping[str, Entry]) -> dict[str, str]:
    """Addresses and security of a client, under Java names, trimmed as Kafka's `ConfigDef` does."""
    return {name: entry.value.strip() for name, entry in _common(client).items()}


def _common(layer: Mapping[str, Entry]) -> Layer:
    return {name: layer[name] for name in CLIENT_COMMON if name in layer}


def _below(layer: Mapping[str, Entry], prefix: str) -> Layer:
    return {name.removeprefix(prefix): entry for name, entry in layer.items() if name.startswith(prefix)}
