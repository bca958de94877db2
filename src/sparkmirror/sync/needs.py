"""Which permissions a flow needs on both clusters, by what its file asks for, and whether it has them; pure.

Observed by `sync.cluster_checks`. What brokers cannot say beforehand (creating topics) is rehearsed there.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from sparkmirror.config.flows import FlowConfig
from sparkmirror.model import Topic
from sparkmirror.status.findings import Finding, Level, name_some

CLUSTER = ""
"""Stands for the cluster as a whole among the names that rights are known of."""


@dataclass(frozen=True, slots=True)
class Need:
    """`rights` on each of `names`, topics or groups by their `kind`, of the cluster `alias`, for a `purpose`.

    Without what is `required` the flow does not mirror; without the rest something is left undone, and said.
    """

    alias: str
    names: tuple[str, ...]
    rights: tuple[str, ...]
    purpose: str
    required: bool = True
    kind: str = "topic"


@dataclass(frozen=True, slots=True)
class FlowTopics:
    """What a flow touches: mirrored topics of the source with their remote topics, and its internal topics.

    `internal` are those that exist on the target.
    """

    mirrored: Mapping[str, Topic]
    remote: Mapping[str, Topic]
    internal: Collection[str]


def list_needs(flow: FlowConfig, topics: FlowTopics) -> Iterator[Need]:
    """Needs without names are left out: there is nothing to be asked about."""
    return (need for need in (*_source_needs(flow, topics), *_target_needs(flow, topics)) if need.names)


def _source_needs(flow: FlowConfig, topics: FlowTopics) -> Iterator[Need]:
    alias, names = flow.name.source, tuple(sorted(topics.mirrored))
    yield Need(alias, names, ("READ",), "reading the mirrored topics")
    if flow.sync.configs_enabled or flow.topic_creation != "broker":
        yield Need(alias, names, ("DESCRIBE_CONFIGS",), "copying their settings", required=False)
    if flow.sync.acls_enabled:
        yield Need(alias, (CLUSTER,), ("DESCRIBE",), "copying ACLs (sync.topic.acls.enabled)", required=False)


def _target_needs(flow: FlowConfig, topics: FlowTopics) -> Iterator[Need]:
    alias, names = flow.name.target, tuple(sorted(topics.remote))
    yield Need(alias, names, ("WRITE",), "writing the remote topics")
    small = sorted(
        remote
        for name, topic in topics.mirrored.items()
        if (remote := flow.remote_topic(name)) in topics.remote and topics.remote[remote].partitions < topic.partitions
    )
    yield Need(alias, tuple(small), ("ALTER",), "adding partitions to remote topics")
    yield Need(alias, tuple(sorted(topics.internal)), ("READ", "WRITE"), "positions, status and orders")
    if flow.sync.configs_enabled:
        changing = ("DESCRIBE_CONFIGS", "ALTER_CONFIGS")
        yield Need(alias, names, changing, "keeping settings in step (sync.topic.configs.enabled)", required=False)
    if flow.sync.acls_enabled:
        yield Need(alias, (CLUSTER,), ("ALTER",), "copying ACLs (sync.topic.acls.enabled)", required=False)
    if flow.offsets.emit_checkpoints and flow.offsets.sync_groups:
        yield Need(alias, names, ("READ",), "committing offsets of groups on the remote topics", required=False)


def list_group_needs(flow: FlowConfig, followed: Collection[str]) -> Iterator[Need]:
    """What the flow does with the groups that it follows, and with the one that holds its progress on the source."""
    names = tuple(followed)
    if names:
        yield Need(flow.name.source, names, ("DESCRIBE",), "reading offsets of groups", required=False, kind="group")
    if names and flow.offsets.sync_groups:
        purpose = "keeping groups in step (sync.group.offsets.enabled)"
        yield Need(flow.name.target, names, ("READ",), purpose, required=False, kind="group")
    if flow.progress_group:
        yield Need(flow.name.source, (flow.progress_group,), ("READ",), "progress.group.id", kind="group")


def judge_need(need: Need, known: Mapping[str, Collection[str]]) -> Finding:
    """By the rights that are known of each name; a name without any is one that may not even be seen."""
    lacking = [name for name in need.names if not set(need.rights) <= set(known.get(name, ()))]
    rights = " and ".join(need.rights)
    if not lacking:
        where = "on the cluster" if need.names == (CLUSTER,) else f"on {len(need.names)}"
        return Finding(Level.OK, need.alias, "permissions", f"{need.purpose}: granted {where}, {rights}")
    if lacking == [CLUSTER]:
        said, grant = f"{need.purpose}: not granted on the cluster, {rights}", f"grant {rights} on the cluster"
    else:
        said = f"{need.purpose}: not granted on {len(lacking)} of {len(need.names)}, {rights}: {name_some(lacking)}"
        grant = f"grant {rights} on {f'these {need.kind}s' if len(lacking) > 1 else f'{need.kind} {lacking[0]}'}"
    level = Level.FAIL if need.required else Level.WARN
    return Finding(
        level, need.alias, "permissions", said, f"{grant} to the principal that {need.alias}.* of the file logs in as"
    )
