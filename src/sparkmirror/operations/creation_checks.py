"""Whether a flow could create the topics that it lacks: its brokers rehearse it, nothing is created.

Asked by `operations.right_checks`. A refusal is told with the row of `operations.grants` that it breaks.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.config.flow.offsets import HeartbeatSettings
from sparkmirror.errors import AuthorizationFailed, SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NewTopic, TopicExists
from sparkmirror.ledger.mirror_topics import compacted_topic, mirror_topics
from sparkmirror.ledger.topics import ledger_topics, plan_ledger_topics
from sparkmirror.operations.grants import Grant, list_grants, list_heartbeat_grants
from sparkmirror.operations.needs import to_principal
from sparkmirror.policy.naming import HEARTBEATS_TOPIC
from sparkmirror.sync.canary_job import canary_topics
from sparkmirror.sync.flow import topic_rules
from sparkmirror.sync.topic_job import new_topic
from sparkmirror.sync.topics import BROKER_DEFAULT, CreateTopic, TopicSnapshot, plan_topics
from sparkmirror.views.findings import Finding, Level, name_some

_WHAT = "creating topics"


def rehearse_creations(flow: FlowConfig, source: Admin, target: Admin, seen: TopicSnapshot) -> Iterator[Finding]:
    """Of all that the flow creates on either side, what is missing there. Raises ClusterError."""
    grants = list(list_grants(flow))
    for admin in (source, target):
        wanted = [*_of_features(flow, admin)]
        if admin is target:
            wanted += [*_internal(flow, target), *_remote(flow, seen)]
        yield from judge_creations(admin.alias, _rehearse(admin, wanted), grants)


def rehearse_heartbeats(settings: HeartbeatSettings, admin: Admin) -> Iterator[Finding]:
    """Of the topic that heartbeats are written to. Raises ClusterError."""
    wanted = compacted_topic(admin, HEARTBEATS_TOPIC, settings.replication_factor)
    yield from judge_creations(admin.alias, _rehearse(admin, [wanted]), [list_heartbeat_grants(settings)])


def _rehearse(admin: Admin, wanted: Sequence[NewTopic]) -> Mapping[str, SparkMirrorError | None]:
    """Topics that may not be seen are rehearsed as well: the brokers say whether they are there."""
    there = admin.list_topics(topic.name for topic in wanted)
    return admin.rehearse_topics([topic for topic in wanted if topic.name not in there])


def _of_features(flow: FlowConfig, admin: Admin) -> Iterator[NewTopic]:
    names, offsets = mirror_topics(flow.name, flow.policy, flow.offsets.syncs_location), flow.offsets
    is_source = admin.alias == flow.name.source
    if offsets.emit_syncs and names.syncs_on_source is is_source:
        yield compacted_topic(admin, names.syncs, offsets.syncs_replication_factor)
    if offsets.emit_checkpoints and not is_source:
        yield compacted_topic(admin, names.checkpoints, offsets.checkpoints_replication_factor)
    if flow.canary_interval_seconds:
        yield from canary_topics(flow, admin)


def _internal(flow: FlowConfig, target: Admin) -> Sequence[NewTopic]:
    return plan_ledger_topics(
        ledger_topics(flow.name.source, flow.offset_storage_topic),
        {},
        len(target.brokers()),
        replication_factor=flow.offset_storage_replication_factor,
        offsets_partitions=flow.offset_storage_partitions,
    ).missing


def _remote(flow: FlowConfig, seen: TopicSnapshot) -> Iterator[NewTopic]:
    for change in plan_topics(seen, topic_rules(flow)).changes:
        if isinstance(change, CreateTopic) and change.partitions != BROKER_DEFAULT:
            yield new_topic(change)


def judge_creations(
    alias: str, outcome: Mapping[str, SparkMirrorError | None], grants: Iterable[Grant] = ()
) -> Iterator[Finding]:
    """What the brokers said when topics were created for show: a line for each row that was refused."""
    refused = {name: why for name, why in outcome.items() if why is not None and not isinstance(why, TopicExists)}
    if outcome and not refused:
        yield Finding(Level.OK, alias, _WHAT, f"{len(outcome)} can be created")
    for grant in grants:
        names = [name for name, why in refused.items() if _breaks(grant, alias, name, why)]
        if names:
            yield _judge_refused(alias, {name: refused.pop(name) for name in names}, len(outcome), grant)
    if refused:
        yield _judge_refused(alias, refused, len(outcome))


def _breaks(grant: Grant, alias: str, name: str, why: SparkMirrorError) -> bool:
    if grant.alias != alias or "CREATE" not in grant.operations or not isinstance(why, AuthorizationFailed):
        return False
    return any(one.covers(name) for one in grant.resources)


def _judge_refused(
    alias: str, refused: Mapping[str, SparkMirrorError], asked: int, grant: Grant | None = None
) -> Finding:
    first = next(iter(refused.values()))
    said = f"{len(refused)} of {asked} cannot be created ({name_some(sorted(refused))}): {first.args[0]}"
    if grant is None:
        return Finding(Level.FAIL, alias, _WHAT, said, first.hint)
    which = f"topic {next(iter(refused))}" if len(refused) == 1 else "these topics"
    hint = to_principal(f"grant CREATE on {which}, or on the cluster,", alias, grant.without)
    level = Level.FAIL if grant.required else Level.WARN
    return Finding(level, alias, "permissions", f"{grant.feature}: {said.rstrip('.')}", hint)
