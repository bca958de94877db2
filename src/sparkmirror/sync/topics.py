"""Plans which remote topics to create or grow; pure. `sync.topic_job` observes and applies.

Follows MirrorMaker (`MirrorSourceConnector.computeAndCreateTopicPartitions`): a new topic takes the source's partition
count and settings, an old one only ever grows, nothing is deleted. Unlike there, each topic stands alone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sparkmirror.model import Topic
from sparkmirror.sync.change import Change, Plan
from sparkmirror.sync.configs import ConfigRules

DEFAULT_REPLICATION_FACTOR = 2
BROKER_DEFAULT = -1
_NAMED_MAX = 10


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Make the remote topic `name` for `source_topic`; `partitions` of BROKER_DEFAULT lets the brokers do it."""

    name: str
    source_topic: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        if self.partitions == BROKER_DEFAULT:
            return f"let the brokers create {self.name} for {self.source_topic}"
        copies = "the brokers' replication factor"
        if self.replication_factor != BROKER_DEFAULT:
            copies = f"replication factor {self.replication_factor}"
        settings = ", ".join(f"{key}={value}" for key, value in self.configs.items())
        line = f"create {self.name} for {self.source_topic}: {self.partitions} partitions, {copies}"
        return f"{line}, {settings}" if settings else line


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Grow the remote topic `name` from `partitions_now` to `partitions` in total."""

    name: str
    source_topic: str
    partitions: int
    partitions_now: int

    @property
    def sentence(self) -> str:
        grown = f"from {self.partitions_now} to {self.partitions} partitions"
        return f"grow {self.name} {grown}, like {self.source_topic}"


@dataclass(frozen=True, slots=True)
class TopicRules:
    """What the configuration says about remote topics.

    `remote_name` is the flow's naming; `is_mirrored` decides by source topic name; `configs` are the rules of settings;
    `replication_factor` of -1 leaves it to the target's brokers. With `by_broker` the target's brokers create topics by
    themselves, and nothing grows. `are_fixed` where the rules will say tomorrow what they say today: a user's classes
    may not.
    """

    is_mirrored: Callable[[str], bool]
    remote_name: Callable[[str], str]
    configs: ConfigRules = field(default_factory=ConfigRules)
    replication_factor: int = DEFAULT_REPLICATION_FACTOR
    by_broker: bool = False
    is_left_out: Callable[[str], bool] = field(default=lambda _: False)
    are_fixed: bool = False


@dataclass(frozen=True, slots=True)
class TopicSnapshot:
    """Both clusters as seen in one round.

    `source` holds mirrored topics only, with the configs that a new remote topic takes where it is missing;
    `unreadable` names topics whose configs could not be read. `target_brokers` is the number of live brokers there.
    `put_off` are missing ones that a later round makes; they are not in `source`.
    """

    source: Mapping[str, Topic]
    target: Mapping[str, Topic]
    target_brokers: int
    unreadable: frozenset[str] = frozenset()
    left_out: tuple[str, ...] = ()
    put_off: tuple[str, ...] = ()


def beyond(topics: Mapping[str, Topic], new: Sequence[str], partitions_max: int) -> tuple[str, ...]:
    """The end of `new` that goes beyond so many partitions; the first is never in it."""
    total = 0
    for at, name in enumerate(new):
        total += topics[name].partitions
        if at and total > partitions_max:
            return tuple(new[at:])
    return ()


def plan_topics(seen: TopicSnapshot, rules: TopicRules) -> Plan:
    """The changes that bring the target in step with `seen`; pure, and empty once applied."""
    changes: list[Change] = []
    warnings: list[str] = []
    taken: dict[str, str] = {}
    replication_factor = possible_replication_factor(rules.replication_factor, seen.target_brokers)
    for source_name in sorted(seen.source):
        name = rules.remote_name(source_name)
        if (first := taken.setdefault(name, source_name)) != source_name:
            warnings.append(f"{source_name} and {first} would both be mirrored to {name}: {source_name} is left out.")
        elif name not in seen.target and source_name in seen.unreadable and not rules.by_broker:
            warnings.append(f"The settings of {source_name} could not be read: {name} is not created yet.")
        else:
            remote = seen.target.get(name)
            changes += _plan_topic(
                seen.source[source_name], name, remote, replication_factor, by_broker=rules.by_broker
            )
    if replication_factor != rules.replication_factor and any(isinstance(change, CreateTopic) for change in changes):
        warnings.append(
            f"The target has {seen.target_brokers} broker(s): new topics get replication factor {replication_factor} "
            f"instead of {rules.replication_factor}."
        )
    if seen.left_out:
        warnings.append(_left_out(seen.left_out))
    return Plan(tuple(changes), tuple(warnings))


def _left_out(topics: Sequence[str]) -> str:
    named = ", ".join(topics[:_NAMED_MAX])
    more = f" and {len(topics) - _NAMED_MAX} more" if len(topics) > _NAMED_MAX else ""
    return f"{named}{more}: not mirrored, as the default of `topics.exclude` says; set it to change that."


def possible_replication_factor(wanted: int, brokers: int) -> int:
    """That with which a topic is made where so many brokers are there."""
    return wanted if wanted == BROKER_DEFAULT else min(wanted, brokers)


def _plan_topic(
    source: Topic, name: str, remote: Topic | None, replication_factor: int, *, by_broker: bool
) -> Iterator[Change]:
    if by_broker:
        if remote is None:
            yield CreateTopic(name, source.name, BROKER_DEFAULT, BROKER_DEFAULT)
    elif remote is None:
        configs = dict(sorted(source.configs.items()))
        yield CreateTopic(name, source.name, source.partitions, replication_factor, configs)
    elif remote.partitions < source.partitions:
        yield AddPartitions(name, source.name, source.partitions, remote.partitions)
