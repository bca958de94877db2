"""The settings job of a flow: remote topics follow their source's settings; observe, plan, apply.

Run by the engine at start and again and again; the plan itself is `sync.configs`, pure.
"""

from collections import defaultdict
from collections.abc import Sequence

from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.topic_settings import alter_topics
from sparkmirror.sync.change import Plan
from sparkmirror.sync.configs import ResetConfig, SetConfig, SettingsPair, plan_configs
from sparkmirror.sync.topics import TopicRules


class ConfigSync:
    """The settings job of one flow, a `Sync`. The admins belong to the caller."""

    description = "copying topic settings"

    def __init__(self, source: Admin, target: Admin, rules: TopicRules) -> None:
        self._source = source
        self._target = target
        self._rules = rules

    def plan(self) -> Plan:
        return plan_configs(observe_settings(self._source, self._target, self._rules), self._rules.configs)

    def apply(self, plan: Plan) -> Sequence[str]:
        settings: dict[str, dict[str, str | None]] = defaultdict(dict)
        for change in plan.changes:
            if isinstance(change, SetConfig):
                settings[change.name][change.key] = change.value
            elif isinstance(change, ResetConfig):
                settings[change.name][change.key] = None
        return [str(failure) for failure in alter_topics(self._target, settings)]


def observe_settings(source: Admin, target: Admin, rules: TopicRules) -> list[SettingsPair]:
    """The settings of all mirrored topics that have a remote topic; topics that cannot be read are left out."""
    on_target = target.list_topics().keys()
    remote: dict[str, str] = {}
    for name, topic in sorted(source.list_topics().items()):
        if not topic.internal and rules.is_mirrored(name) and (there := rules.remote_name(name)) in on_target:
            remote.setdefault(there, name)
    if not remote:
        return []
    upstream, downstream = source.describe_configs(remote.values()), target.describe_configs(remote)
    return [
        SettingsPair(there, name, upstream[name], downstream[there])
        for there, name in remote.items()
        if name in upstream and there in downstream
    ]
