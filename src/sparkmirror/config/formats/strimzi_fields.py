"""The fields of a `KafkaMirrorMaker2` resource, and which of a file's are none. Called by `config/formats/strimzi.py`.

Kubernetes refuses or drops what the resource's schema does not have; a misspelt `topicsPattern` mirrors all.
The fields are those of the versions v1alpha1 to v1 (`KafkaMirrorMaker2Spec` and what it holds).
"""

from collections.abc import Iterator

from sparkmirror.config.formats.properties import Entry
from sparkmirror.config.formats.yaml_lines import Branch
from sparkmirror.config.spelling import did_you_mean

_CONNECTORS = ("sourceConnector", "checkpointConnector", "heartbeatConnector")
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
    "listOffsets": "`sparkmirror positions FILE show` lists positions",
    "alterOffsets": "`sparkmirror positions FILE set` and `reset` change positions",
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
    """As `idle_fields`, of one connector, a `KafkaConnector` too."""
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
