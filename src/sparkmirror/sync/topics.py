"""Which remote topics to create or grow; pure. `sync.topic_job` observes and applies, `--dry-run` prints the plan.

Follows MirrorMaker (`MirrorSourceConnector.computeAndCreateTopicPartitions`): a new topic takes the source's partition
count and its explicit settings, an old one only ever grows, nothing is deleted. Unlike there, each topic stands alone.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from sparkmirror.model import Topic

DEFAULT_REPLICATION_FACTOR = 2
BROKER_DEFAULT = -1


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Make the remote topic `name` for `source_topic`."""

    name: str
    source_topic: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Grow the remote topic `name` from `partitions_now` to `partitions` in total."""

    name: str
    source_topic: str
    partitions: int
    partitions_now: int


Action = CreateTopic | AddPartitions


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """What to do, in the order of source topic names, and sentences about what cannot be done as configured."""

    actions: tuple[Action, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicRules:
    """What the configuration says about remote topics.

    `remote_name` is the flow's naming; `is_mirrored` decides by source topic name; `is_copied` by setting name (the
    reverse of `config.properties.exclude`); `replication_factor` of -1 leaves it to the target's brokers.
    """

    is_mirrored: Callable[[str], bool]
    remote_name: Callable[[str], str]
    is_copied: Callable[[str], bool]
    replication_factor: int = DEFAULT_REPLICATION_FACTOR


@dataclass(frozen=True, slots=True)
class TopicSnapshot:
    """Both clusters as seen in one round.

    `source` holds mirrored topics only, with explicit configs where the remote topic is missing; `unreadable` names
    topics whose configs could not be read. `target_brokers` is the number of live brokers on the target.
    """

    source: Mapping[str, Topic]
    target: Mapping[str, Topic]
    target_brokers: int
    unreadable: frozenset[str] = frozenset()


def plan_topics(seen: TopicSnapshot, rules: TopicRules) -> TopicPlan:
    """What brings the target in step with `seen`; pure, and empty once applied."""
    actions: list[Action] = []
    warnings: list[str] = []
    taken: dict[str, str] = {}
    replication_factor = _possible_replication_factor(rules.replication_factor, seen.target_brokers)
    for source_name in sorted(seen.source):
        name = rules.remote_name(source_name)
        if (first := taken.setdefault(name, source_name)) != source_name:
            warnings.append(f"{source_name} and {first} would both be mirrored to {name}: {source_name} is left out.")
        elif name not in seen.target and source_name in seen.unreadable:
            warnings.append(f"The settings of {source_name} could not be read: {name} is not created yet.")
        else:
            actions += _plan_topic(seen.source[source_name], name, seen.target.get(name), replication_factor, rules)
    if replication_factor != rules.replication_factor and any(isinstance(action, CreateTopic) for action in actions):
        warnings.append(
            f"The target has {seen.target_brokers} broker(s): new topics get replication factor {replication_factor} "
            f"instead of {rules.replication_factor}."
        )
    return TopicPlan(tuple(actions), tuple(warnings))


def render_plan(plan: TopicPlan) -> list[str]:
    """The plan as lines for people, actions first."""
    return [*(_render(action) for action in plan.actions), *(f"warning: {warning}" for warning in plan.warnings)]


def _possible_replication_factor(wanted: int, brokers: int) -> int:
    return wanted if wanted == BROKER_DEFAULT else min(wanted, brokers)


def _plan_topic(
    source: Topic, name: str, remote: Topic | None, replication_factor: int, rules: TopicRules
) -> Iterator[Action]:
    if remote is None:
        configs = {key: value for key, value in sorted(source.configs.items()) if rules.is_copied(key)}
        yield CreateTopic(name, source.name, source.partitions, replication_factor, configs)
    elif remote.partitions < source.partitions:
        yield AddPartitions(name, source.name, source.partitions, remote.partitions)


def _render(action: Action) -> str:
    if isinstance(action, AddPartitions):
        grown = f"from {action.partitions_now} to {action.partitions} partitions"
        return f"grow {action.name} {grown}, like {action.source_topic}"
    copies = "the brokers' replication factor"
    if action.replication_factor != BROKER_DEFAULT:
        copies = f"replication factor {action.replication_factor}"
    settings = ", ".join(f"{key}={value}" for key, value in action.configs.items())
    line = f"create {action.name} for {action.source_topic}: {action.partitions} partitions, {copies}"
    return f"{line}, {settings}" if settings else line
