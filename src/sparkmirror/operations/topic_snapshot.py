"""Observes which topics of a flow are mirrored to what, as `views.topics_page` lists them. Asked by `cli.topics`."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import AuthorizationFailed
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin
from sparkmirror.model import Topic
from sparkmirror.policy.filters import LeftOut, compile_names
from sparkmirror.sync.config_job import observe_settings
from sparkmirror.sync.configs import ResetConfig, SetConfig, plan_configs
from sparkmirror.sync.flow import topic_rules
from sparkmirror.views.topics_page import TopicLine, list_lines, list_orphans


def look_at_topics(flow: FlowConfig, pattern: str = "") -> list[TopicLine]:
    """Topics whose whole source name matches; all for "". Raises ClusterError if a cluster does not answer."""
    compiled = compile_names([pattern or ".*"])
    assert compiled is not None
    with open_admin(flow.source, "topics") as source, open_admin(flow.target, "topics") as target:
        on_source, on_target = source.list_topics(), target.list_topics()
        chosen = {name: topic for name, topic in on_source.items() if compiled.fullmatch(name)}
        left_out = _left_out(flow, chosen)
        wanted = chosen.keys() - left_out.keys()
        settings = _differing(flow, source, target, wanted)
    orphans = {
        remote: name
        for remote, name in _origins(flow, on_target).items()
        if name not in on_source and compiled.fullmatch(name)
    }
    remote_names = {name: flow.remote_topic(name) for name in wanted}
    return [*list_lines(chosen, on_target, left_out, remote_names, settings), *list_orphans(on_target, orphans)]


def _left_out(flow: FlowConfig, topics: Mapping[str, Topic]) -> dict[str, tuple[LeftOut, str]]:
    """What the brokers mark internal is no candidate, whatever its name."""
    found: dict[str, tuple[LeftOut, str]] = {}
    for name, topic in topics.items():
        if topic.internal:
            found[name] = (LeftOut.INTERNAL, "internal to Kafka")
        elif why := flow.topics.why_not(name, flow.policy, flow.name):
            found[name] = why
    return found


def _differing(flow: FlowConfig, source: Admin, target: Admin, topics: Collection[str]) -> dict[str, list[str]]:
    """By source topic, the settings that a round of the settings job would change, whether or not there is one."""
    rules = replace(topic_rules(flow), is_mirrored=lambda name: name in topics)
    try:
        pairs = observe_settings(source, target, rules)
    except AuthorizationFailed:
        return {}  # shown as not compared
    differing: dict[str, list[str]] = defaultdict(list, {pair.source_topic: [] for pair in pairs})
    for change in plan_configs(pairs, rules.configs).changes:
        if isinstance(change, SetConfig | ResetConfig):
            differing[change.source_topic].append(change.key)
    return differing


def _origins(flow: FlowConfig, on_target: Mapping[str, Topic]) -> dict[str, str]:
    """Topics of the target that by their name came over this flow, with their names on the source.

    Where names are kept, a name says nothing.
    """
    found = {}
    for remote in on_target:
        name = flow.policy.upstream_topic(remote)
        if name is None or name == remote or flow.policy.topic_source(remote) != flow.name.source:
            continue
        if flow.should_replicate(name):
            found[remote] = name
    return found
