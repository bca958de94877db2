"""Finds the permissions of `operations.grants` that a flow lacks on existing resources of both clusters; pure.

`operations.right_checks` observes, and also rehearses the creation of topics, about which brokers give no permissions
beforehand.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.ledger.topics import SHARING_GROUP
from sparkmirror.model import Topic
from sparkmirror.operations.grants import Grant, Kind, Part, list_grants
from sparkmirror.views.findings import Finding, Level, name_some

CLUSTER = ""
"""The name that stands for the cluster as a whole, where rights are listed by name."""
_REHEARSED = "CREATE"


@dataclass(frozen=True, slots=True)
class Need:
    """`rights` on each of `names`, topics or groups by their `kind`, of the cluster `alias`, for a `purpose`.
    Without a `required` right the flow does not mirror; for another one, `without` says what does not work."""

    alias: str
    names: tuple[str, ...]
    rights: tuple[str, ...]
    purpose: str
    required: bool = True
    kind: str = "topic"
    without: str = ""


@dataclass(frozen=True, slots=True)
class FlowTopics:
    """The topics of a flow: mirrored topics of the source with their remote topics, and topics of its own. `own` are
    by cluster, existing or not. `hidden` are mirrored topics that the file names and the principal may not see."""

    mirrored: Mapping[str, Topic]
    remote: Mapping[str, Topic]
    own: Mapping[str, Collection[str]]
    hidden: Collection[str] = ()


def list_needs(flow: FlowConfig, topics: FlowTopics) -> Iterator[Need]:
    """The needs on topics and on the cluster. A need without names is left out, because there is no resource to ask
    about."""
    for grant in list_grants(flow):
        kind = grant.resources[0].kind
        if kind in (Kind.TOPIC, Kind.CLUSTER):
            names = (CLUSTER,) if kind is Kind.CLUSTER else tuple(sorted(_there(flow, grant, topics)))
            yield from plain_needs(grant, names)


def _there(flow: FlowConfig, grant: Grant, topics: FlowTopics) -> Iterator[str]:
    """The topics of a row whose rights are known."""
    match grant.part:
        case Part.MIRRORED:
            yield from topics.mirrored
            yield from topics.hidden if "READ" in grant.operations else ()
        case Part.REMOTE:
            yield from topics.remote
        case Part.KEPT:
            kept = (flow.remote_topic(name) for name in topics.mirrored if flow.keeps_offsets(name))
            yield from (name for name in kept if name in topics.remote)
        case Part.GROWING:
            yield from _growing(flow, topics)
        case _:
            own = topics.own.get(grant.alias, ())
            yield from (name for name in own if any(one.covers(name) for one in grant.resources))


def _growing(flow: FlowConfig, topics: FlowTopics) -> Iterator[str]:
    for name, topic in topics.mirrored.items():
        remote = flow.remote_topic(name)
        if remote in topics.remote and topics.remote[remote].partitions < topic.partitions:
            yield remote


def list_group_needs(flow: FlowConfig, followed: Collection[str]) -> Iterator[Need]:
    """The needs on groups that the flow follows, and on the group that holds its progress on the source."""
    for grant in list_grants(flow):
        kind, name = grant.resources[0].kind, grant.resources[0].name
        if kind is Kind.GROUP and name != SHARING_GROUP:
            yield from plain_needs(grant, tuple(followed) if grant.part is Part.FOLLOWED else (name,))


def plain_needs(grant: Grant, names: Collection[str]) -> Iterator[Need]:
    """The need of a row on `names`, if any, without CREATE, which is rehearsed instead."""
    rights = tuple(one for one in grant.operations if one != _REHEARSED)
    if names and rights:
        kind = str(grant.resources[0].kind)
        yield Need(grant.alias, tuple(names), rights, grant.feature, grant.required, kind, grant.without)


def judge_need(need: Need, known: Mapping[str, Collection[str]]) -> Finding:
    """Judges a need by the known rights on each name; a name without known rights is one that the principal may not
    see."""
    lacking = [name for name in need.names if not set(need.rights) <= set(known.get(name, ()))]
    if not lacking:
        where = "on the cluster" if need.names == (CLUSTER,) else f"on {len(need.names)}"
        said = f"{need.purpose}: granted {where}, {' and '.join(need.rights)}"
        return Finding(Level.OK, need.alias, "permissions", said)
    rights = " and ".join(one for one in need.rights if any(one not in known.get(name, ()) for name in lacking))
    if lacking == [CLUSTER]:
        said, grant = f"{need.purpose}: not granted on the cluster, {rights}", f"grant {rights} on the cluster"
    else:
        said = f"{need.purpose}: not granted on {len(lacking)} of {len(need.names)}, {rights}: {name_some(lacking)}"
        grant = f"grant {rights} on {f'these {need.kind}s' if len(lacking) > 1 else f'{need.kind} {lacking[0]}'}"
    level = Level.FAIL if need.required else Level.WARN
    return Finding(level, need.alias, "permissions", said, to_principal(grant, need.alias, need.without))


def to_principal(grant: str, alias: str, without: str = "") -> str:
    """The hint for the person who grants rights, with what does not work meanwhile."""
    hint = f"{grant} to the principal that {alias}.* of the file logs in as"
    return f"{hint}: {without} meanwhile" if without else hint
