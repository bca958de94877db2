"""The settings job of a flow: remote topics follow their source's settings; observe, plan, apply.

Run at start and at intervals; the plan is made in `sync.configs`, pure.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.errors import UNKNOWN_TOPIC_OR_PARTITION, error_name
from sparkmirror.kafka.topic_settings import alter_topics
from sparkmirror.kafka.wire.raw_answer import SettingsAnswer
from sparkmirror.sync.change import Plan
from sparkmirror.sync.configs import ResetConfig, SetConfig, SettingsPair, plan_configs
from sparkmirror.sync.topics import TopicRules

_NAMED_MAX: Final = 10


class ConfigSync:
    """The settings job of one flow, a `Sync`. The admins belong to the caller."""

    description = "copying topic settings"
    compared = 0
    """How many pairs of topics the brokers were asked about last."""

    def __init__(
        self,
        source: Admin,
        target: Admin,
        rules: TopicRules,
        find_unfilled: Callable[[Mapping[str, str]], Collection[str]] = lambda _: (),
    ) -> None:
        """`find_unfilled` gives those of remote topics, which it gets with their sources, whose starts are not filled
        yet."""
        self._source = source
        self._target = target
        self._rules = rules
        self._find_unfilled = find_unfilled
        self._unfilled: Collection[str] = ()
        self._seen: tuple[object, ...] = ()
        self._planned = Plan()

    def plan(self) -> Plan:
        """Unchanged answers are not compared again: a thousand topics have 70,000 settings. But that a start is filled
        shows in none."""
        answers = ask_settings(self._source, self._target, self._rules)
        self.compared = len(answers.remote)
        seen = (answers.remote, answers.source.digest, answers.target.digest)
        if seen != self._seen or not self._rules.are_fixed or self._unfilled:
            pairs = answers.read()
            asked = {pair.name: pair.source_topic for pair in pairs if pair.is_for_starts}
            self._unfilled = self._find_unfilled(asked) if asked else ()
            plan = plan_configs(pairs, self._rules.configs, self._unfilled)
            unread = (*_name_refused(self._source, answers.source), *_name_refused(self._target, answers.target))
            self._planned, self._seen = Plan(plan.changes, (*plan.warnings, *unread)), seen
        return self._planned

    def apply(self, plan: Plan) -> Sequence[str]:
        settings: dict[str, dict[str, str | None]] = defaultdict(dict)
        for change in plan.changes:
            if isinstance(change, SetConfig):
                settings[change.name][change.key] = change.value
            elif isinstance(change, ResetConfig):
                settings[change.name][change.key] = None
        return [str(failure) for failure in alter_topics(self._target, settings)]


def _name_refused(cluster: Admin, answer: SettingsAnswer) -> Iterator[str]:
    """A sentence for each error that kept settings from being read; of a topic that is deleted at this moment none."""
    by_code: dict[int, list[str]] = defaultdict(list)
    for name, code in sorted(answer.refused.items()):
        by_code[code].append(name)
    for code, names in sorted(by_code.items()):
        if code != UNKNOWN_TOPIC_OR_PARTITION:
            more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
            shown = ", ".join(names[:_NAMED_MAX])
            yield f"{cluster.alias} does not show the settings of {shown}{more} ({error_name(code)}): none are copied."


@dataclass(frozen=True, slots=True)
class SettingsAnswers:
    """What both clusters reported of mirrored topics; `remote` has their names by those of their remote topics."""

    remote: Mapping[str, str]
    source: SettingsAnswer
    target: SettingsAnswer

    def read(self) -> list[SettingsPair]:
        """Pair by pair; topics that cannot be read are left out."""
        upstream, downstream = self.source.read(), self.target.read()
        return [
            SettingsPair(there, name, upstream[name], downstream[there])
            for there, name in self.remote.items()
            if name in upstream and there in downstream
        ]


def observe_settings(source: Admin, target: Admin, rules: TopicRules) -> list[SettingsPair]:
    """The settings of all mirrored topics that have a remote topic; topics that cannot be read are left out."""
    return ask_settings(source, target, rules).read()


def ask_settings(source: Admin, target: Admin, rules: TopicRules) -> SettingsAnswers:
    """The same, not read yet. Raises ClusterError."""
    on_target = target.list_topics().keys()
    remote: dict[str, str] = {}
    for name, topic in sorted(source.list_topics().items()):
        if not topic.internal and rules.is_mirrored(name) and (there := rules.remote_name(name)) in on_target:
            remote.setdefault(there, name)
    return SettingsAnswers(remote, source.ask_configs(remote.values()), target.ask_configs(remote))
