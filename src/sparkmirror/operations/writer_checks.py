"""Finds who may write to the topics on the target whose offsets are kept: a record of anybody but the mirror takes an
offset there. Called by `operations.cluster_checks` and `operations.kept_starts`.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import AuthorizationFailed
from sparkmirror.kafka.acls import describe_acls
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import PREFIXED, AclBinding
from sparkmirror.operations.needs import to_principal
from sparkmirror.sync.flow import topic_rules
from sparkmirror.sync.topic_job import observe_topics
from sparkmirror.views.findings import Finding, Level, name_some

_WHAT = "writers"
_WRITING = ("WRITE", "ALL")
_EVERY_TOPIC = "*"
_EVERYBODY = "User:*"


def check_writers(flow: FlowConfig, source: Admin, target: Admin) -> Iterator[Finding]:
    """A finding where the flow keeps offsets of some topics that there are. Raises ClusterError."""
    if not flow.preserves_offsets:
        return
    mirrored = observe_topics(source, target, topic_rules(flow)).source
    kept = [flow.remote_topic(name) for name in mirrored if flow.keeps_offsets(name)]
    if not kept:
        return
    try:
        yield judge_writers(target.alias, kept, describe_acls(target))
    except AuthorizationFailed:
        said = "keeping offsets: who else may write to the topics is not known"
        hint = to_principal("grant DESCRIBE on the cluster", target.alias, "a foreign record shows when it has come")
        yield Finding(Level.WARN, target.alias, _WHAT, said, hint)


def judge_writers(alias: str, topics: Collection[str], bindings: Collection[AclBinding] | None) -> Finding:
    """By the ACLs of the cluster, None where it has no authorizer. Super users may write anywhere, and no ACL says who
    they are; nor do the brokers say under which principal the mirror logs in."""
    of_what = f"to {len(topics)} topics whose offsets are kept"
    hint = "a foreign record makes its partition FAILED: give WRITE to the mirror's principal alone"
    if bindings is None:
        return Finding(
            Level.WARN, alias, _WHAT, f"the brokers have no authorizer: any client may write {of_what}", hint
        )
    found = find_writers(topics, bindings)
    named = [
        one if len(some) == len(topics) else f"{one} ({len(some)} of them: {name_some(some)})"
        for one, some in sorted(found.items())
    ]
    if len(found) > 1 or _EVERYBODY in found:
        return Finding(Level.WARN, alias, _WHAT, f"by the ACLs, {', '.join(named)} may write {of_what}", hint)
    who = f"only {named[0]} and super users" if named else "only super users"
    return Finding(Level.OK, alias, _WHAT, f"by the ACLs, {who} may write {of_what}")


def find_writers(topics: Collection[str], bindings: Collection[AclBinding]) -> Mapping[str, list[str]]:
    """The topics to which each principal may write. What is denied from some hosts only counts as allowed."""
    writing = [one for one in bindings if one.operation in _WRITING]
    found: dict[str, list[str]] = defaultdict(list)
    for topic in sorted(topics):
        here = [one for one in writing if _covers(one, topic)]
        denied = {one.principal for one in here if one.permission == "DENY" and one.host == "*"}
        allowed = {one.principal for one in here if one.permission == "ALLOW"}
        for principal in sorted(allowed - denied) if _EVERYBODY not in denied else ():
            found[principal].append(topic)
    return found


def _covers(binding: AclBinding, topic: str) -> bool:
    if binding.pattern == PREFIXED:
        return topic.startswith(binding.topic)
    return binding.topic in (topic, _EVERY_TOPIC)
