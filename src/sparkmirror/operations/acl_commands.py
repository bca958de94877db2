"""The table of permissions as text: `kafka-acls` commands for `sparkmirror doctor --acls`, and the manual; pure.

`python -m sparkmirror.operations.acl_commands > docs/permissions.md` writes the manual.
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence

from sparkmirror.config.flow.flows import MirrorConfig, parse_config
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.kafka.answers import PREFIXED
from sparkmirror.operations.grants import Grant, Kind, Resource, list_grants, list_heartbeat_grants, list_verb_grants

_EXAMPLE = """
clusters = S, T
S.bootstrap.servers = s1:9092
T.bootstrap.servers = t1:9092
S->T.enabled = true
topics = orders, payments-.*
groups = billing
{more}
"""
_OPTIONAL = "sync.group.offsets.enabled = true\nprogress.group.id = GROUP\ncanary.interval.seconds = 10\n"
_OPTIONAL += "preserve.offsets.enabled = true\npreserve.offsets.filler = write-markers"
_ONCE = "T.exactly.once.source.support = enabled"
_HEAD = """\
# What a mirror must be allowed to do

<!-- Written by `python -m sparkmirror.operations.acl_commands > docs/permissions.md`; edit grants.py instead. -->

This page is for administrators who grant a mirror's principals no more than they need. `sparkmirror doctor --acls
User:mirror FILE` prints the commands for a file, and `sparkmirror doctor FILE` lists missing permissions. The tables
are those of a flow `S->T` with `topics = orders, payments-.*` and `groups = billing`. READ, WRITE, ALTER and DELETE
imply DESCRIBE. A resource name is literal where the file names the topic. Remote topics have the source's alias as
prefix, unless the file names them by another policy. The name is `*` where the file has another regular expression;
then name the topics yourself if you can.

Without a permission whose row is bold, the partitions or flows of that row are not mirrored; without any other only the
feature is missing.
"""


def list_all(config: MirrorConfig) -> Iterator[Grant]:
    """The grants that a process with this file requires, for all its flows."""
    for flow in config.flows:
        yield from list_grants(flow)
    for settings in config.heartbeats:
        yield list_heartbeat_grants(settings)


def acl_commands(config: MirrorConfig, principal: str) -> list[str]:
    """Shell lines for each cluster: one command for each row of the table, with a comment above it that explains it.
    `admin.properties` stands for the client settings of a person who may alter ACLs there."""
    lines: list[str] = []
    for alias, grants in _by_cluster(list_all(config)):
        servers = config.clusters[alias].bootstrap_servers
        for grant in grants:
            lines.append(f"# {alias}: {grant.feature}; without: {grant.without}")
            lines += [_command(servers, principal, one, grant.operations) for one in grant.resources]
    return list(dict.fromkeys(lines))


def _command(servers: str, principal: str, resource: Resource, operations: Sequence[str]) -> str:
    words = ["kafka-acls", "--bootstrap-server", servers, "--command-config", "admin.properties", "--add"]
    words += ["--allow-principal", principal]
    for operation in operations:
        words += ["--operation", operation.title().replace("_", "")]
    words += [f"--{resource.kind}"] if resource.kind is Kind.CLUSTER else [f"--{resource.kind}", resource.name]
    if resource.pattern == PREFIXED:
        words += ["--resource-pattern-type", "prefixed"]
    return shlex.join(words)


def _by_cluster(grants: Iterable[Grant]) -> list[tuple[str, list[Grant]]]:
    found: dict[str, dict[Grant, None]] = {}
    for grant in grants:
        found.setdefault(grant.alias, {})[grant] = None
    return [(alias, list(some)) for alias, some in found.items()]


def render_manual() -> str:
    """The text of docs/permissions.md."""
    plain, whole, once = (_example(more) for more in ("", _OPTIONAL, _ONCE))
    usual = list(list_all(plain))
    asked = [grant for grant in list_all(whole) if grant not in usual]
    known = {grant.feature for grant in usual}
    asked += [grant for grant in list_all(once) if grant.feature not in known]
    lines = [_HEAD]
    for alias, grants in _by_cluster(usual):
        which = "source `S`" if alias == "S" else "target `T`"
        lines += [f"## On the {which}, by default", "", *_table(grants), ""]
    lines += ["## Where the file asks for it", "", *_table(asked, with_cluster=True), ""]
    verbs = [grant for flow in plain.flows for grant in list_verb_grants(flow)]
    lines += ["## For single verbs", "", *_table(verbs, with_cluster=True)]
    return "\n".join(lines) + "\n"


def _example(more: str) -> MirrorConfig:
    return parse_config(parse_properties(_EXAMPLE.format(more=more).encode(), "example"))


def _table(grants: Iterable[Grant], *, with_cluster: bool = False) -> Iterator[str]:
    first = "| on " if with_cluster else ""
    yield f"{first}| resource | operations | for | without it |"
    yield f"{'|---' if with_cluster else ''}|---|---|---|---|"
    for grant in grants:
        cluster = f"| `{grant.alias}` " if with_cluster else ""
        resources = ", ".join(_in_manual(one) for one in grant.resources)
        without = f"**{grant.without}**" if grant.required else grant.without
        yield f"{cluster}| {resources} | {', '.join(grant.operations)} | {grant.feature} | {without} |"


def _in_manual(resource: Resource) -> str:
    if resource.kind is Kind.CLUSTER:
        return "cluster"
    kind = str(resource.kind).replace("-", " ")
    return f"{kind} `{resource.name}`" + (" as a prefix" if resource.pattern == PREFIXED else "")


if __name__ == "__main__":
    print(render_manual(), end="")
