"""Reads Strimzi's `KafkaMirrorMaker2` resources as the properties they mean. Called by `config/formats/files.py`.

It knows the versions v1alpha1 and v1beta2 (`connectCluster`, `clusters`) and v1 (`target`, `source` in each mirror).
The effect of each field is that of the operator's `KafkaMirrorMaker2Connectors`. There is no Kubernetes here: key K of
secret N is the file `DIR/N/K`, as a pod mounts it, read by a config provider; so no secret gets into shown or converted
text.

Kubernetes refuses or drops fields that the resource's schema does not have, and a misspelt `topicsPattern` mirrors all
topics; so fields that none of the versions has (`KafkaMirrorMaker2Spec` and its parts) are reported.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from sparkmirror.config.formats.properties import Entry, Properties
from sparkmirror.config.formats.strimzi_login import Secrets, login_entries, provider_entries, trust_entries
from sparkmirror.config.formats.yaml_lines import Branch, read_documents, scalar_text
from sparkmirror.config.keys.places import is_of_file
from sparkmirror.config.spelling import did_you_mean
from sparkmirror.errors import ConfigError
from sparkmirror.model import FlowName

KIND = "KafkaMirrorMaker2"
GROUP = "kafka.strimzi.io"
VERSIONS = ("v1alpha1", "v1beta2", "v1")

_MIRROR_FIELDS = {
    "topicsPattern": "topics",
    "topicsExcludePattern": "topics.exclude",
    "topicsBlacklistPattern": "topics.exclude",
    "groupsPattern": "groups",
    "groupsExcludePattern": "groups.exclude",
    "groupsBlacklistPattern": "groups.exclude",
}
# configStorageTopic and statusStorageTopic are demanded by v1 and mean nothing here.
_TARGET_FIELDS = {"offsetStorageTopic": "offset.storage.topic", "groupId": "group.id"}
# `KafkaMirrorMaker2Configuration` of the operator; v1 has no defaults.
TARGET_DEFAULTS = {"offset.storage.topic": "mirrormaker2-cluster-offsets", "group.id": "mirrormaker2-cluster"}
_CONNECTORS = ("sourceConnector", "checkpointConnector", "heartbeatConnector")


def strimzi_connector(flow: FlowName) -> str:
    """The name that the operator gives the connector of a flow, under which positions are kept."""
    return f"{flow}.MirrorSourceConnector"


def is_resource(text: str) -> bool:
    """Whether `text` looks like a Kubernetes resource rather than properties."""
    lines = [line.strip() for line in text.splitlines()]
    first = next((line for line in lines if line and not line.startswith("#")), "")
    if first.startswith("{"):
        return True
    starts = ("apiVersion:", "kind:", "---", "metadata:")
    return first.startswith(starts) and any(line.startswith("kind:") for line in lines)


def parse_strimzi(text: str, file: str, secrets: Path) -> Properties:
    """The resource as properties, each entry with its line in `file`; `secrets` is the directory of the secrets.

    Raises ConfigError for other kinds of resources and for what a mirror cannot do without.
    """
    resource = _the_resource(read_documents(text, file), file)
    spec = resource.get("spec")
    if spec is None:
        raise ConfigError("the resource has no `spec`", line=resource.line, file=file)
    entries: dict[str, Entry] = {}
    for entry in _Translation(spec, file, secrets).entries():
        entries.setdefault(entry.key, entry)
    return Properties(file, entries, remarks=(*unknown_fields(spec), *idle_fields(spec)))


def _the_resource(documents: tuple[Branch, ...], file: str) -> Branch:
    mirrors = [document for document in documents if document.text_at("kind") == KIND]
    if len(mirrors) == 1:
        _check_version(mirrors[0], file)
        return mirrors[0]
    if mirrors:
        hint = "write each to a file of its own"
        raise ConfigError(f"{len(mirrors)} resources of kind {KIND} in one file", hint, line=mirrors[1].line, file=file)
    kinds = " and ".join(dict.fromkeys(f"`{document.text_at('kind') or 'no kind'}`" for document in documents))
    line = documents[0].line if documents else 0
    hint = f"give a resource of kind {KIND}, a connector of MirrorMaker 2, or a MirrorMaker 2 properties file"
    raise ConfigError(f"a resource of kind {kinds or '`nothing`'} is not a mirror", hint, line=line, file=file)


def _check_version(resource: Branch, file: str) -> None:
    group, _, version = resource.text_at("apiVersion").partition("/")
    if group != GROUP or version not in VERSIONS:
        known = ", ".join(f"{GROUP}/{name}" for name in VERSIONS)
        message = f"`apiVersion: {resource.text_at('apiVersion')}` is not a version of {KIND} that is known here"
        raise ConfigError(message, f"known are {known}", line=resource.line, file=file)


class _Translation:
    """One `spec`, turned into entries."""

    def __init__(self, spec: Branch, file: str, secrets: Path) -> None:
        self._spec = spec
        self._file = file
        self._secrets = Secrets(secrets)
        self._target = spec.get("target")
        own_target = self._target.text_at("alias") or "target" if self._target else ""
        self._lines: dict[FlowName, int] = {}
        self._connect = own_target or spec.text_at("connectCluster")

    def entries(self) -> Iterator[Entry]:
        """The entries in the order of importance: of equal keys the first counts."""
        clusters = self._clusters()
        mirrors = self._spec.items_at("mirrors")
        if not mirrors:
            raise ConfigError("the resource has no `mirrors`", line=self._spec.line, file=self._file)
        yield Entry("clusters", ", ".join(clusters), self._spec.line)
        for alias, cluster in clusters.items():
            yield from self._cluster(alias, cluster)
        yield Entry("emit.heartbeats.enabled", "false", self._spec.line)
        for mirror in mirrors:
            yield from self._mirror(mirror, clusters)
        yield from self._providers(clusters.get(self._connect))

    def _providers(self, connect: Branch | None) -> Iterator[Entry]:
        """The config providers of the Connect cluster, where Strimzi's users write them, and one for secrets."""
        own = {entry.key: entry for entry in self._config(connect)}
        yield from provider_entries(own, self._spec.line)

    def _clusters(self) -> dict[str, Branch]:
        if self._target is None:
            return {cluster.text_at("alias"): cluster for cluster in self._spec.items_at("clusters")}
        sources = [source for mirror in self._spec.items_at("mirrors") if (source := mirror.get("source"))]
        return {source.text_at("alias"): source for source in sources} | {self._connect: self._target}

    def _cluster(self, alias: str, cluster: Branch) -> Iterator[Entry]:
        for entry in self._config(cluster):
            if alias == self._connect and is_of_file(entry.key):
                yield entry
            elif not entry.key.startswith("config.providers"):
                yield replace(entry, key=f"{alias}.{entry.key}")
        servers = cluster.get("bootstrapServers")
        if servers is not None:
            yield Entry(f"{alias}.bootstrap.servers", servers.text, servers.line)
        tls = cluster.get("tls")
        login = cluster.get("authentication") or Branch(cluster.line)
        yield from trust_entries(alias, tls, self._secrets, self._file)
        yield from login_entries(alias, login, tls is not None, self._secrets, self._file)
        if alias == self._connect:
            yield from self._renamed(cluster, _TARGET_FIELDS, alias)
            yield from (Entry(f"{alias}.{key}", value, cluster.line) for key, value in TARGET_DEFAULTS.items())

    def _mirror(self, mirror: Branch, clusters: Collection[str]) -> Iterator[Entry]:
        source = mirror.text_at("source", "alias") or mirror.text_at("sourceCluster")
        target = mirror.text_at("targetCluster") or self._connect
        for field, alias in (("sourceCluster", source), ("targetCluster", target)):
            if alias not in clusters:
                message = f"a mirror names `{field}: {alias}`, which `clusters` does not list"
                raise ConfigError(message, did_you_mean(alias, clusters), line=mirror.line, file=self._file)
        flow = FlowName(source, target)
        if (other := self._lines.setdefault(flow, mirror.line)) != mirror.line:
            message = f"two `mirrors` lead from `{source}` to `{target}`, the first on line {other}"
            raise ConfigError(message, "make one of them, with both lists of topics", line=mirror.line, file=self._file)
        connector = mirror.get("sourceConnector")
        runs = "sourceConnector" in mirror.fields and self._runs(connector)
        yield Entry(f"{flow}.enabled", str(runs).lower(), connector.line if connector else mirror.line)
        yield from self._renamed(mirror, _MIRROR_FIELDS, str(flow))
        if connector and (tasks := connector.get("tasksMax")):
            yield Entry(f"{flow}.tasks.max", tasks.text, tasks.line)
        switches = [
            Entry(
                f"{flow}.{key}.enabled",
                str(name in mirror.fields and self._runs(mirror.get(name))).lower(),
                mirror.line,
            )
            for name, key in (("checkpointConnector", "emit.checkpoints"), ("heartbeatConnector", "emit.heartbeats"))
        ]
        # What its `config` says does not start a connector that is not to run; it may switch one off that runs.
        yield from (entry for entry in switches if entry.value == "false")
        for name in _CONNECTORS:
            for entry in self._config(mirror.get(name)):
                yield entry if is_of_file(entry.key) else replace(entry, key=f"{flow}.{entry.key}")
        yield from switches
        yield Entry(f"{flow}.progress.connector", strimzi_connector(flow), mirror.line)

    def _runs(self, connector: Branch | None) -> bool:
        """Whether the connector runs, as `_is_running`; without replicas none does."""
        return self._spec.text_at("replicas") != "0" and _is_running(connector)

    def _config(self, part: Branch | None) -> Iterator[Entry]:
        """The lines of a `config`; Kubernetes drops fields that are null. Raises ConfigError for a list."""
        config = part.get("config") if part is not None else None
        for name, value in config.fields.items() if config is not None else ():
            if not value.is_null:
                yield Entry(name, scalar_text(value, name, self._file), value.line)

    def _renamed(self, part: Branch, fields: Mapping[str, str], place: str) -> Iterator[Entry]:
        for name, key in fields.items():
            if value := part.get(name):
                yield Entry(f"{place}.{key}", scalar_text(value, name, self._file), value.line)


def _is_running(connector: Branch | None) -> bool:
    """Whether the connector is neither paused nor stopped; one without fields, `sourceConnector: {}` or empty, runs."""
    if connector is None:
        return True
    return connector.text_at("pause") != "true" and connector.text_at("state") in ("", "running")


_CLUSTER = "alias bootstrapServers tls authentication config"
_TARGET = "groupId configStorageTopic statusStorageTopic offsetStorageTopic"
_CONNECTOR = "tasksMax config pause state autoRestart listOffsets alterOffsets version"
_MIRROR = """
    sourceCluster targetCluster source sourceConnector checkpointConnector heartbeatConnector topicsPattern
    topicsExcludePattern topicsBlacklistPattern groupsPattern groupsExcludePattern groupsBlacklistPattern
"""
_SPEC = """
    connectCluster clusters target mirrors version replicas image resources livenessProbe readinessProbe jvmOptions
    jmxOptions logging clientRackInitImage rack metrics metricsConfig tracing template externalConfiguration affinity
    tolerations
"""


_POD_FIELDS = [
    *("image", "resources", "livenessProbe", "readinessProbe", "jvmOptions", "clientRackInitImage"),
    *("template", "affinity", "tolerations"),
]
_IDLE = {
    "there are no pods here: a process is what the supervisor makes it (docs/deploy.md)": _POD_FIELDS,
    "logs go to the error output, as docs/logs.md says; `log.format: json` in the target's `config` has them as JSON": [
        "logging"
    ],
    "metrics are served at `/metrics` of `status.listen`, which may stand in the target's `config`": [
        "metricsConfig", "metrics", "jmxOptions"
    ],
    "records are passed on whole, without spans": ["tracing"],
    "this machine's rack is not known: `consumer.client.rack` in the sourceConnector's `config` says it": ["rack"],
    "there are no mounts here: `--secrets-dir` says where secrets are": ["externalConfiguration"],
}  # fmt: skip
_IDLE_OF_CONNECTORS = {
    "listOffsets": "`sparkmirror positions show FILE` lists positions",
    "alterOffsets": "`sparkmirror positions set FILE` and `reset` change positions",
    "version": "there is one version of a connector here, that of SparkMirror",
}


def idle_fields(spec: Branch) -> Iterator[tuple[str, Entry]]:
    """A sentence for each field that the operator heeds and that has no effect here, with what does it instead."""
    for reason, names in _IDLE.items():
        there = [(name, value) for name, value in spec.fields.items() if name in names and not value.is_null]
        if there:
            named = ", ".join(f"`{name}`" for name, _ in there)
            yield f"{named} {'have' if len(there) > 1 else 'has'} no effect: {reason}", _entry(*there[0])
    if (replicas := spec.get("replicas")) is not None and replicas.text not in ("0", "1"):
        message = "this is one process; those that are started with the same file share its flows (docs/processes.md)"
        yield f"`replicas: {replicas.text}` has no effect: {message}", _entry("replicas", replicas)
    for mirror in spec.items_at("mirrors"):
        for name in _CONNECTORS:
            if (connector := mirror.get(name)) is not None:
                yield from idle_fields_of_connector(connector)


def idle_fields_of_connector(connector: Branch) -> Iterator[tuple[str, Entry]]:
    """The fields without effect of one connector, a `KafkaConnector` too, as `idle_fields`."""
    for name, reason in _IDLE_OF_CONNECTORS.items():
        if (value := connector.get(name)) is not None:
            yield f"`{name}` has no effect: {reason}", _entry(name, value)
    restart = connector.get("autoRestart")
    if restart is not None and (restart.text_at("enabled") == "false" or restart.get("maxRestarts")):
        message = "what fails is always tried again, after a pause that grows to 30 s"
        yield f"`autoRestart` has no effect: {message}", _entry("autoRestart", restart)


def _entry(name: str, value: Branch) -> Entry:
    return Entry(name, value.text, value.line)


def unknown_fields(spec: Branch) -> Iterator[tuple[str, Entry]]:
    """A sentence for each field that the resource does not have, with the field as an entry."""
    yield from _unknown(spec, "spec", _SPEC)
    for cluster in spec.items_at("clusters"):
        yield from _unknown_of_cluster(cluster, "clusters", _CLUSTER)
    if target := spec.get("target"):
        yield from _unknown_of_cluster(target, "target", f"{_CLUSTER} {_TARGET}")
    for mirror in spec.items_at("mirrors"):
        yield from _unknown(mirror, "mirrors", _MIRROR)
        if source := mirror.get("source"):
            yield from _unknown_of_cluster(source, "source", _CLUSTER)
        for name in _CONNECTORS:
            if connector := mirror.get(name):
                yield from _unknown(connector, name, _CONNECTOR)


def _unknown_of_cluster(cluster: Branch, name: str, fields: str) -> Iterator[tuple[str, Entry]]:
    yield from _unknown(cluster, name, fields)
    if tls := cluster.get("tls"):
        yield from _unknown(tls, "tls", "trustedCertificates")


def _unknown(part: Branch, name: str, fields: str) -> Iterator[tuple[str, Entry]]:
    known = fields.split()
    for field, value in part.fields.items():
        if field not in known:
            hint = did_you_mean(field, known)
            message = f"`{field}` is not a field of `{name}` and has no effect{f'; {hint}' if hint else ''}"
            yield message, Entry(field, value.text, value.line)
