"""Writes a configuration in its other form: properties or Strimzi resources. Called by `cli/config.py`.

No secret that stands in a file is written to a resource: it becomes a reference to a Kubernetes secret, and a note says
what to put there.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import javaproperties
import yaml

from sparkmirror.config.connectors import CHECKPOINT_KEYS
from sparkmirror.config.flow.flows import FlowConfig, MirrorConfig
from sparkmirror.config.formats.properties import Entry, Properties
from sparkmirror.config.formats.strimzi import GROUP, TARGET_DEFAULTS, strimzi_connector
from sparkmirror.config.keys.client_keys import CLIENT_COMMON
from sparkmirror.config.keys.status_keys import STATUS_KEYS
from sparkmirror.config.precedence import connector_properties
from sparkmirror.config.secrets import is_secret
from sparkmirror.kafka.security.jaas import parse_jaas
from sparkmirror.model import Connector

_API_VERSION = f"{GROUP}/v1"
_PATTERNS = {
    "topics": "topicsPattern",
    "topics.exclude": "topicsExcludePattern",
    "groups": "groupsPattern",
    "groups.exclude": "groupsExcludePattern",
}
_STORAGE = {
    "group.id": "groupId",
    "config.storage.topic": "configStorageTopic",
    "status.storage.topic": "statusStorageTopic",
    "offset.storage.topic": "offsetStorageTopic",
}
_OF_PROCESS = frozenset(key.name for key in STATUS_KEYS)
_LOGINS = {"PLAIN": "plain", "SCRAM-SHA-256": "scram-sha-256", "SCRAM-SHA-512": "scram-sha-512"}


def to_properties(properties: Properties, config: MirrorConfig) -> tuple[str, list[str]]:
    """The text of a properties file, and notes. References to config providers stay references."""
    lines = {key: entry.value for key, entry in properties.entries.items()}
    notes = [
        f"MirrorMaker 2 keeps positions as `{native.name}` and would begin {flow.name} again; SparkMirror goes on "
        f"from those of `{flow.connector.name}`, by the line `{flow.name}.progress.connector`"
        for flow in config.flows
        if flow.connector.name != (native := Connector.of_dedicated_mode(flow.name.source)).name
    ]
    return str(javaproperties.dumps(lines, timestamp=None, sort_keys=False)), notes


def to_strimzi(properties: Properties, config: MirrorConfig) -> tuple[str, list[str]]:
    """YAML documents, one for each target of the enabled flows, and notes for the person."""
    writer = _Writer(properties)
    targets = dict.fromkeys(flow.name.target for flow in config.flows)
    resources = [
        writer.resource(target, [flow for flow in config.flows if flow.name.target == target]) for target in targets
    ]
    return yaml.safe_dump_all(resources, sort_keys=False, width=120), list(dict.fromkeys(writer.notes))


class _Writer:
    """Collects notes while resources are composed."""

    def __init__(self, properties: Properties) -> None:
        self.notes: list[str] = []
        self._properties = properties

    def resource(self, target: str, flows: Sequence[FlowConfig]) -> dict[str, Any]:
        """One resource: a target and all that is mirrored into it."""
        written = self._target(target)
        spec = {"replicas": 1, "target": written, "mirrors": [self._mirror(flow) for flow in flows]}
        for flow in flows:
            self._note_positions(flow, str(written["offsetStorageTopic"]))
        return {
            "apiVersion": _API_VERSION,
            "kind": "KafkaMirrorMaker2",
            "metadata": {"name": _name(target)},
            "spec": spec,
        }

    def _note_positions(self, flow: FlowConfig, topic: str) -> None:
        there, here = strimzi_connector(flow.name), flow.connector.name
        if (there, topic) != (here, flow.offset_storage_topic):
            self.notes.append(
                f"`{flow.name}` begins again there: the resource keeps positions as `{there}` in `{topic}`, "
                f"this file as `{here}` in `{flow.offset_storage_topic}`"
            )

    def _target(self, alias: str) -> dict[str, Any]:
        cluster = self._cluster(alias, self._worker_keys())
        storage = {
            "groupId": TARGET_DEFAULTS["group.id"],
            "configStorageTopic": "mirrormaker2-cluster-configs",
            "statusStorageTopic": "mirrormaker2-cluster-status",
            "offsetStorageTopic": TARGET_DEFAULTS["offset.storage.topic"],
        }
        for key, field in _STORAGE.items():
            if value := cluster.get("config", {}).pop(key, None):
                storage[field] = value
        return cluster | storage

    def _worker_keys(self) -> dict[str, Entry]:
        """The keys of the Connect cluster's `config` that a file has at the top level."""
        shared = ("offset.storage.", "config.storage.", "status.storage.", "config.providers")
        entries = self._properties.entries.items()
        return {key: entry for key, entry in entries if key.startswith(shared) or key in _OF_PROCESS}

    def _cluster(self, alias: str, more: dict[str, Entry]) -> dict[str, Any]:
        own = self._properties.below(f"{alias}.")
        shared = {name: entry for name in CLIENT_COMMON if (entry := self._properties.get(name)) is not None}
        settings = shared | own | more
        written: dict[str, Any] = {"alias": alias, "bootstrapServers": _value(settings, "bootstrap.servers", "")}
        protocol = (
            settings["security.protocol"].value.strip().upper() if "security.protocol" in settings else "PLAINTEXT"
        )
        if protocol.endswith("SSL"):
            written["tls"] = self._trust(alias, settings)
        if login := self._login(alias, protocol, settings):
            written["authentication"] = login
        rest = {name: entry for name, entry in settings.items() if name not in _SAID_ELSEWHERE}
        config = {
            name: entry.value for name, entry in rest.items() if not self._is_held_back(f"{alias}.{name}", name, entry)
        }
        return written | ({"config": config} if config else {})

    def _is_held_back(self, written: str, name: str, entry: Entry) -> bool:
        if is_secret(name) and not _is_reference(entry.value):
            self.notes.append(
                f"`{written}` is secret and left out; give it to the cluster by a Kubernetes secret, or as a reference "
                "to a config provider"
            )
            return True
        return False

    def _trust(self, alias: str, settings: dict[str, Entry]) -> dict[str, Any]:
        if not any(name.startswith("ssl.truststore.") for name in settings):
            return {}
        secret = f"{_name(alias)}-ca"
        self.notes.append(f"put the certificates that `{alias}` is trusted by into the secret `{secret}`, as `ca.crt`")
        return {"trustedCertificates": [{"secretName": secret, "certificate": "ca.crt"}]}

    def _login(self, alias: str, protocol: str, settings: dict[str, Entry]) -> dict[str, Any]:
        if not protocol.startswith("SASL"):
            return self._certificate(alias) if any(name.startswith("ssl.keystore.") for name in settings) else {}
        mechanism = _value(settings, "sasl.mechanism", "GSSAPI").upper()
        jaas = _value(settings, "sasl.jaas.config", "")
        user = _user_of(jaas)
        if mechanism not in _LOGINS or user is None:
            self.notes.append(f"`{alias}` logs in by {mechanism}: complete its `authentication` by hand")
            config = {"sasl.mechanism": mechanism} | ({"sasl.jaas.config": jaas} if _is_reference(jaas) else {})
            return {"type": "custom", "sasl": True, "config": config}
        secret = f"{_name(alias)}-login"
        self.notes.append(f"put the password of `{alias}` into the secret `{secret}`, as `password`")
        return {
            "type": _LOGINS[mechanism],
            "username": user,
            "passwordSecret": {"secretName": secret, "password": "password"},
        }

    def _certificate(self, alias: str) -> dict[str, Any]:
        secret = f"{_name(alias)}-client"
        self.notes.append(f"put the key store of `{alias}` into the secret `{secret}`, as `user.crt` and `user.key`")
        return {
            "type": "tls",
            "certificateAndKey": {"secretName": secret, "certificate": "user.crt", "key": "user.key"},
        }

    def _mirror(self, flow: FlowConfig) -> dict[str, Any]:
        layer = connector_properties(self._properties, flow.name)
        # Strimzi gives a source cluster's `config` to connectors as `source.cluster.…`, where clients do not look.
        elsewhere = ("source.cluster.", "source.producer.", "source.admin.", "target.")
        client = [f"source.consumer.{name}" for name in CLIENT_COMMON]
        said = {name: entry for name, entry in layer.items() if not name.startswith(elsewhere) and name not in client}
        plain = {name: entry.value for name, entry in said.items() if not self._is_held_back(entry.key, name, entry)}
        source_cluster = self._cluster(flow.name.source, {})
        source_cluster.pop("config", None)
        written: dict[str, Any] = {"source": source_cluster}
        source = {name: value for name, value in plain.items() if name not in _NOT_SOURCE}
        checkpoint = {name: source.pop(name) for name in list(source) if CHECKPOINT_KEYS.fullmatch(name)}
        checkpoint |= {name: value for name, value in source.items() if _OF_BOTH.fullmatch(name)}
        written["sourceConnector"] = {"tasksMax": flow.tasks_max} | ({"config": source} if source else {})
        if plain.get("emit.checkpoints.enabled", "true").strip().lower() == "true":
            written["checkpointConnector"] = {"config": checkpoint} if checkpoint else {}
        return written | {field: plain[key] for key, field in _PATTERNS.items() if key in plain}


_SAID_ELSEWHERE = frozenset(
    name for name in CLIENT_COMMON if not name.startswith(("ssl.endpoint", "ssl.protocol", "ssl.enabled", "ssl.cipher"))
)
_NOT_SOURCE = frozenset(
    ("enabled", "tasks.max", "progress.connector", "emit.checkpoints.enabled", "emit.heartbeats.enabled", *_PATTERNS)
)


_OF_BOTH = re.compile(r"replication\.policy\..+|offset-syncs\.topic\.location|topic\.filter\.class")
"""What the source and the checkpoint connector both read; the operator gives each only its own `config`."""
_is_reference = re.compile(r"\s*\$\{[^}]*\}\s*").fullmatch


def _user_of(jaas: str) -> str | None:
    """Who logs in; None where the text does not say, as a reference to a config provider."""
    try:
        return parse_jaas(jaas).options.get("username", "")
    except ValueError:
        return None


def _value(settings: Mapping[str, Entry], name: str, default: str) -> str:
    return settings[name].value.strip() if name in settings else default


def _name(alias: str) -> str:
    """A name that Kubernetes takes, from an alias."""
    return re.sub(r"[^a-z0-9-]+", "-", alias.lower()).strip("-") or "mirror"
