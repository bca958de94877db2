"""The table of permissions: the grants that each feature of a flow requires on either cluster, and what does not work
without them; pure.

Resources are literal where a name is known, else a prefix or `*`. `operations.needs` judges by these rows what `doctor`
observes, `operations.acl_commands` prints them as commands and writes docs/permissions.md.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.config.flow.settings import HeartbeatSettings
from sparkmirror.kafka.answers import LITERAL, PREFIXED
from sparkmirror.kafka.commit_log import COMMITS_TOPIC
from sparkmirror.kafka.fencing import transactional_id
from sparkmirror.ledger.setup import mirror_topics
from sparkmirror.ledger.topics import SHARING_GROUP
from sparkmirror.policy.fillers import WRITE_MARKERS, id_prefix
from sparkmirror.policy.naming import HEARTBEATS_TOPIC, added_prefix
from sparkmirror.policy.producer_memory import MEMORY_KEY
from sparkmirror.sync.canary_job import CLOCK_TOPIC

_EVERYTHING: Final = "*"
_NAME = re.compile(r"[\w.-]+")


class Kind(StrEnum):
    """Kafka's resource types, by the names of `kafka-acls` options."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactional-id"


class Resource(NamedTuple):
    """One resource, or all resources whose names begin with `name`. The cluster has no name."""

    kind: Kind
    name: str = ""
    pattern: str = LITERAL

    @property
    def shown(self) -> str:
        """The resource in a sentence: `topic orders`, `topic orders-*` for a prefix, `cluster`."""
        return f"{self.kind} {self.name}{'*' if self.pattern == PREFIXED else ''}".rstrip()

    def covers(self, name: str) -> bool:
        if self.pattern == PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, _EVERYTHING)


class Part(StrEnum):
    """The part of a flow that a row concerns; `operations.needs` finds the existing names by it."""

    MIRRORED = "mirrored"
    REMOTE = "remote"
    KEPT = "kept"
    INTERNAL = "internal"
    GROWING = "growing"
    FOLLOWED = "followed"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Grant:
    """`operations` on each of `resources` of the cluster `alias`, for a `feature`. `without` says in a sentence what
    does not work without the grant. Without a `required` grant the flow, or the partitions that it concerns, are not
    mirrored; without another one only the feature is missing."""

    alias: str
    resources: tuple[Resource, ...]
    operations: tuple[str, ...]
    feature: str
    without: str
    required: bool = False
    part: Part = Part.OTHER


def list_grants(flow: FlowConfig) -> Iterator[Grant]:
    """The grants of one flow, for the features that its file asks for."""
    yield from _of_source(flow)
    yield from _of_target(flow)
    if flow.preserves_offsets:
        yield from _of_kept_offsets(flow)
    yield from _of_groups(flow)
    if flow.canary_interval_seconds:
        yield from _of_canary(flow)


def list_heartbeat_grants(settings: HeartbeatSettings) -> Grant:
    """The grants for a pair of clusters to which a process writes heartbeats."""
    return Grant(
        settings.target.alias,
        (_topic(HEARTBEATS_TOPIC),),
        ("CREATE", "WRITE"),
        "heartbeats (emit.heartbeats.enabled)",
        "no heartbeats are written, which show clients that a mirror runs",
    )


def list_verb_grants(flow: FlowConfig) -> Iterator[Grant]:
    """The grants that single verbs require in addition to those of a running mirror."""
    source, target = flow.name.source, flow.name.target
    groups = tuple(Resource(Kind.GROUP, name, pattern) for pattern, name in patterns_of(flow.offsets.groups.include))
    remote, mirrored = remote_resources(flow), mirrored_resources(flow)
    yield Grant(target, remote, ("READ",), "`verify`, `tail`, `migrate`", "remote topics cannot be compared or shown")
    moving = "`failover run`, `migrate`: groups on the target"
    yield Grant(target, (*groups, *remote), ("READ",), moving, "they cannot be moved")
    yield Grant(source, groups, ("READ",), "`failback run`: groups on the source", "they cannot be moved")
    yield Grant(source, (_CLUSTER,), ("ALTER",), "`failover run --fence`", "writers cannot be kept out by ACL")
    delete = "`failover run --undo`: groups that had no offset before"
    yield Grant(target, groups, ("DELETE",), delete, "their offsets stay")
    yield Grant(source, mirrored, ("READ",), "`failback plan --export`", "records cannot be written to files")


def _of_canary(flow: FlowConfig) -> Iterator[Grant]:
    feature, without = "the canary (canary.interval.seconds)", "no probes are sent, so latency and loss are unknown"
    probes, clock, usual = _topic(flow.canary_topic), _topic(CLOCK_TOPIC), ("CREATE", "READ", "WRITE")
    remote = _topic(flow.remote_topic(flow.canary_topic))
    settings = ("DESCRIBE_CONFIGS", "ALTER_CONFIGS") if flow.sync.configs_enabled else ()
    fetch_state = ("DESCRIBE_CONFIGS",) if _reads_settings(flow) else ()
    yield Grant(flow.name.source, (probes,), (*usual, *fetch_state), feature, without)
    for alias in (flow.name.source, flow.name.target):
        yield Grant(alias, (clock,), usual, feature, without)
    yield Grant(flow.name.target, (remote,), (*usual, *settings), feature, without)


def _of_source(flow: FlowConfig) -> Iterator[Grant]:
    alias, mirrored = flow.name.source, mirrored_resources(flow)
    yield Grant(
        alias, mirrored, ("READ",), "reading the mirrored topics",
        "their partitions are FAILED, or not seen at all without DESCRIBE", required=True, part=Part.MIRRORED,
    )  # fmt: skip
    if _reads_settings(flow):
        yield Grant(
            alias, mirrored, ("DESCRIBE_CONFIGS",), "copying their settings",
            "their remote topics are not created, and settings are not kept in step", part=Part.MIRRORED,
        )  # fmt: skip
    if flow.sync.acls_enabled:
        yield Grant(alias, (_CLUSTER,), ("DESCRIBE",), _ACLS, "no ACLs are copied")
    if flow.offsets.emit_syncs:
        names = mirror_topics(flow.name, flow.policy, flow.offsets.syncs_location)
        yield Grant(
            alias if names.syncs_on_source else flow.name.target,
            (_topic(names.syncs),),
            ("CREATE", "READ", "WRITE"),
            "offset syncs (emit.offset-syncs.enabled)",
            "no offset syncs are written, which only MirrorMaker would miss",
        )


def _reads_settings(flow: FlowConfig) -> bool:
    return flow.sync.configs_enabled or flow.topic_creation != "broker"


def _of_target(flow: FlowConfig) -> Iterator[Grant]:
    alias, remote = flow.name.target, remote_resources(flow)
    yield Grant(
        alias, remote, ("WRITE",), "writing the remote topics", "their partitions are FAILED", required=True,
        part=Part.REMOTE,
    )  # fmt: skip
    without = "a topic that does not exist on the target yet is not mirrored"
    yield Grant(alias, remote, ("CREATE",), "creating remote topics", without, required=True, part=Part.REMOTE)
    yield Grant(
        alias, remote, ("ALTER",), "adding partitions to remote topics",
        "partitions that the source has added are not mirrored", required=True, part=Part.GROWING,
    )  # fmt: skip
    yield Grant(
        alias, tuple(_topic(name) for name in flow.ledger_topics),
        ("CREATE", "READ", "WRITE"), "positions, status and orders", "the flow does not begin", required=True,
        part=Part.INTERNAL,
    )  # fmt: skip
    yield Grant(
        alias, (Resource(Kind.TRANSACTIONAL_ID, transactional_id(flow.connector, 0).removesuffix("0"), PREFIXED),),
        ("WRITE",), "fencing an older instance",
        "with exactly-once the flow does not begin; else an older instance is not fenced",
        required=flow.is_exactly_once,
    )  # fmt: skip
    if flow.is_exactly_once:
        yield Grant(
            alias, remote, ("READ",), "ending transactions that lie open (exactly.once.source.support)",
            "records of an aborted transaction that brokers left open come twice", part=Part.REMOTE,
        )  # fmt: skip
    yield Grant(
        alias, (Resource(Kind.GROUP, SHARING_GROUP),), ("READ",), "sharing flows between processes",
        "a process works alone, and a second one takes its flows over",
    )  # fmt: skip
    if flow.sync.configs_enabled:
        yield Grant(
            alias, remote, ("DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
            "keeping settings in step (sync.topic.configs.enabled)", "settings of remote topics stay as they are",
            part=Part.REMOTE,
        )  # fmt: skip
    if flow.sync.acls_enabled:
        yield Grant(alias, (_CLUSTER,), ("DESCRIBE", "ALTER"), _ACLS, "no ACLs are copied")


def _of_kept_offsets(flow: FlowConfig) -> Iterator[Grant]:
    alias = flow.name.target
    yield Grant(
        alias, _kept_resources(flow), ("READ", "DELETE"), KEEPING_OFFSETS,
        "their partitions do not begin", required=True, part=Part.KEPT,
    )  # fmt: skip
    yield Grant(
        alias, (_CLUSTER,), ("DESCRIBE_CONFIGS",), f"keeping offsets ({MEMORY_KEY} of the brokers)",
        "it is taken for the default, a day",
    )  # fmt: skip
    yield Grant(
        alias, (Resource(Kind.TRANSACTIONAL_ID, id_prefix(flow.connector.group), PREFIXED),), ("WRITE",),
        KEEPING_OFFSETS, "partitions are FAILED at the first offset without a record", required=True,
    )  # fmt: skip
    if flow.offsets_filler == WRITE_MARKERS:
        yield Grant(
            alias, (_CLUSTER,), ("DESCRIBE", "CLUSTER_ACTION"), "large holes (preserve.offsets.filler = write-markers)",
            "they are filled as by `markers`, which takes many times as long",
        )  # fmt: skip


def _of_groups(flow: FlowConfig) -> Iterator[Grant]:
    source, target, offsets = flow.name.source, flow.name.target, flow.offsets
    groups = tuple(Resource(Kind.GROUP, name, pattern) for pattern, name in patterns_of(offsets.groups.include))
    if offsets.emit_checkpoints:
        names = mirror_topics(flow.name, flow.policy, offsets.syncs_location)
        yield Grant(
            source, groups, ("DESCRIBE",), "reading offsets of groups",
            "groups that may not be described have no checkpoints", part=Part.FOLLOWED,
        )  # fmt: skip
        yield Grant(
            target, (_topic(names.checkpoints),), ("CREATE", "READ", "WRITE"), "checkpoints (emit.checkpoints.enabled)",
            "no checkpoints are written, and groups are not kept in step",
        )  # fmt: skip
    if offsets.emit_checkpoints and offsets.sync_groups:
        purpose = "keeping groups in step (sync.group.offsets.enabled)"
        without = "groups on the target are not moved"
        yield Grant(target, groups, ("READ",), purpose, without, part=Part.FOLLOWED)
        committing = "committing offsets of groups on the remote topics"
        yield Grant(target, remote_resources(flow), ("READ",), committing, without, part=Part.REMOTE)
        yield Grant(
            target, (_topic(COMMITS_TOPIC),), ("READ",), "commits of consumers at the same moment as the mirror's",
            "a commit that a consumer makes in the same moment is not restored",
        )  # fmt: skip
    if flow.progress_group:
        yield Grant(
            source, (Resource(Kind.GROUP, flow.progress_group),), ("READ",), "progress.group.id",
            "the flow does not begin", required=True,
        )  # fmt: skip


KEEPING_OFFSETS: Final = "keeping offsets (preserve.offsets.enabled)"
_CLUSTER: Final = Resource(Kind.CLUSTER)
_ACLS: Final = "copying ACLs (sync.topic.acls.enabled)"


def _topic(name: str) -> Resource:
    return Resource(Kind.TOPIC, name)


def named_topics(flow: FlowConfig, alias: str) -> frozenset[str]:
    """Topics of a cluster, beside mirrored and remote ones, that the flow uses by name."""
    return frozenset(
        one.name
        for grant in list_grants(flow)
        for one in grant.resources
        if grant.alias == alias and one.kind is Kind.TOPIC and grant.part in (Part.INTERNAL, Part.OTHER)
    )


def mirrored_names(flow: FlowConfig) -> frozenset[str]:
    """Source topics that the file names, without those for which it has a regular expression."""
    patterns = patterns_of(flow.topics.include)
    return frozenset(name for pattern, name in patterns if pattern == LITERAL and name != _EVERYTHING)


def mirrored_resources(flow: FlowConfig) -> tuple[Resource, ...]:
    """The mirrored topics of the source; flows that mirror heartbeats mirror the heartbeats topic too."""
    found = [Resource(Kind.TOPIC, name, pattern) for pattern, name in patterns_of(flow.topics.include)]
    if flow.topics.heartbeats:
        found.append(_topic(HEARTBEATS_TOPIC))
    return _least(found)


def remote_resources(flow: FlowConfig) -> tuple[Resource, ...]:
    """The remote topics on the target: by prefix where the naming puts a prefix before names, by name where names
    are known."""
    return _on_target(flow, mirrored_resources(flow))


def _kept_resources(flow: FlowConfig) -> tuple[Resource, ...]:
    """The remote topics whose offsets are kept."""
    kept = [Resource(Kind.TOPIC, name, pattern) for pattern, name in patterns_of(flow.kept_topics)]
    return remote_resources(flow) if _topic(_EVERYTHING) in kept else _on_target(flow, kept)


def _on_target(flow: FlowConfig, mirrored: Collection[Resource]) -> tuple[Resource, ...]:
    if prefix := added_prefix(flow.policy, flow.name.source):
        found = [
            Resource(Kind.TOPIC, prefix, PREFIXED)
            if one.name == _EVERYTHING
            else one._replace(name=f"{prefix}{one.name}")
            for one in mirrored
        ]
        return _least(found)
    literal = all(one.pattern == LITERAL and one.name != _EVERYTHING for one in mirrored)
    if literal:
        return _least(_topic(flow.remote_topic(one.name)) for one in mirrored)
    return (_topic(_EVERYTHING),)


def _least(found: "Sequence[Resource] | Iterator[Resource]") -> tuple[Resource, ...]:
    """The resources without those that another one covers."""
    distinct = sorted(set(found))
    return tuple(one for one in distinct if not any(other != one and _covers_all(other, one) for other in distinct))


def _covers_all(other: Resource, one: Resource) -> bool:
    if other.pattern == LITERAL:
        return other.name == _EVERYTHING
    return one.name != _EVERYTHING and one.name.startswith(other.name)


def patterns_of(expressions: Sequence[str]) -> list[tuple[str, str]]:
    """A list of regular expressions as ACL patterns: a name, a prefix (`orders-.*`), or `*` where it is neither."""
    return [_pattern_of(expression.replace(r"\.", ".")) for expression in expressions]


def _pattern_of(expression: str) -> tuple[str, str]:
    if _NAME.fullmatch(expression):
        return LITERAL, expression
    head = expression.removesuffix(".*").removesuffix(".+")
    return (PREFIXED, head) if head != expression and _NAME.fullmatch(head) else (LITERAL, _EVERYTHING)
