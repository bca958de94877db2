"""The fields of a `KafkaMirrorMaker2` resource, and which of a file's are none. Called by `config/strimzi.py`.

Kubernetes refuses or drops what the resource's schema does not have; a misspelt `topicsPattern` mirrors all.
The fields are those of the versions v1alpha1 to v1 (`KafkaMirrorMaker2Spec` and what it holds).
"""

from collections.abc import Iterator

from sparkmirror.config.properties import Entry
from sparkmirror.config.spelling import did_you_mean
from sparkmirror.config.yaml_lines import Branch

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
