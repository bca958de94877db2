"""Which names take part: include and exclude lists of Java regular expressions, and the rules above them.

Pure. Called by the planner for every source topic; `NameFilter` serves topics, config names and groups alike.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sparkmirror.errors import ConfigError
from sparkmirror.model import FlowName
from sparkmirror.policy.java_regex import JavaPatternError, NamePattern, compile_java
from sparkmirror.policy.naming import ReplicationPolicy

MIRRORS_INTERNAL = r"mm2.*\.internal"
"""Of the default of `topics.exclude`: what stands for the internal topics of mirrors."""
_OF_ANY_MIRROR = re.compile(r"mm2-.*\.internal|mm2-offset-syncs[._-].+[._-]internal|.+[._-]checkpoints[._-]internal")
EXPRESSION_LENGTH_MAX: Final = 10_000


def compile_names(expressions: Sequence[str]) -> NamePattern | None:
    """One pattern for a list, joined by `|` as `MirrorUtils.compilePatternList` does; None for an empty list.

    Raises ConfigError naming the item that is at fault.
    """
    if not expressions:
        return None
    try:
        return compile_java("|".join(expressions))
    except JavaPatternError as error:
        raise _bad_list(expressions, error) from None


def check_expression(expression: str) -> None:
    """Of an order or a question about topics, where an empty one stands for all. Raises ConfigError."""
    if len(expression) > EXPRESSION_LENGTH_MAX:
        raise ConfigError(
            f"An expression of {len(expression):,} characters is too long; {EXPRESSION_LENGTH_MAX:,} may be."
        )
    if expression:
        compile_names([expression])


def name_matcher(expression: str) -> Callable[[str], bool]:
    """Whether a whole name matches; an empty expression stands for all.

    Raises ConfigError for what is no Java regular expression, and the answer SlowPattern.
    """
    check_expression(expression)
    pattern = compile_names([expression]) if expression else None
    return lambda name: pattern is None or pattern.fullmatch(name) is not None


def _bad_list(expressions: Sequence[str], whole: JavaPatternError) -> ConfigError:
    for expression in expressions:
        try:
            compile_java(expression)
        except JavaPatternError as error:
            return ConfigError(f"`{expression}` is not a Java regular expression: {error}")
    return ConfigError(f"`{'|'.join(expressions)}` is not a Java regular expression: {whole}")


class LeftOut(StrEnum):
    """Why a topic is not mirrored, or a group not synced."""

    NOT_INCLUDED = "NOT INCLUDED"
    EXCLUDED = "EXCLUDED"
    INTERNAL = "INTERNAL"
    LOOP = "LOOP"


@dataclass(frozen=True, slots=True)
class NameFilter:
    """Accepts a name that some include matches whole and no exclude does; an empty list matches nothing."""

    include: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = ()

    def accepts(self, name: str) -> bool:
        return _matches(self.include, name) and not _matches(self.exclude, name)

    def why_unwanted(self, name: str, key: str) -> tuple[LeftOut, str]:
        """Why `accepts` says no, in a word and in words that name the list `key` (`topics`) and its expression."""
        if not _matches(self.include, name):
            return LeftOut.NOT_INCLUDED, f"`{key}` does not include it"
        if found := next((one for one in self.exclude if _matches((one,), name)), None):
            return LeftOut.EXCLUDED, f"`{key}.exclude` has {found}"
        return LeftOut.EXCLUDED, "the filter class leaves it out"


@dataclass(frozen=True, slots=True)
class TopicFilter(NameFilter):
    """The topics of a flow. With `heartbeats`, heartbeats topics take part whatever the lists say (KIP-1089)."""

    heartbeats: bool = True

    def should_replicate(self, topic: str, policy: ReplicationPolicy, flow: FlowName) -> bool:
        """`MirrorSourceConnector.shouldReplicateTopic`: wanted, not internal, not on its way home (invariant 8)."""
        wanted = self.accepts(topic) or (self.heartbeats and policy.is_heartbeats_topic(topic))
        return wanted and not is_internal(topic, policy, self.exclude) and not is_cycle(topic, policy, flow.target)

    def why_not(self, topic: str, policy: ReplicationPolicy, flow: FlowName) -> tuple[LeftOut, str] | None:
        """Why `should_replicate` says no, in a word and in words; None where it says yes."""
        if self.should_replicate(topic, policy, flow):
            return None
        if is_internal(topic, policy, self.exclude):
            return LeftOut.INTERNAL, "internal to Kafka or to a mirror"
        if is_cycle(topic, policy, flow.target):
            return LeftOut.LOOP, f"it came from {flow.target}"
        return self.why_unwanted(topic, "topics")


def is_left_out(topic: str, topics: NameFilter, policy: ReplicationPolicy) -> bool:
    """Whether an exclude list alone keeps a topic of a user's from being mirrored: `orders.internal`, not `__x`."""
    excluded = _matches(topics.include, topic) and _matches(topics.exclude, topic)
    return excluded and not topic.startswith("__") and not is_internal(topic, policy, topics.exclude)


def is_internal(topic: str, policy: ReplicationPolicy, exclude: Sequence[str]) -> bool:
    """Whether the topic belongs to Kafka or to a mirror: of this flow's policy, or of one with another separator.

    `policy.is_internal_topic` knows its own separator only, and the default of `topics.exclude` only the dot. A file
    with a list of its own means that list, as with MirrorMaker.
    """
    is_of_any_mirror = MIRRORS_INTERNAL in exclude and _OF_ANY_MIRROR.fullmatch(topic) is not None
    return policy.is_internal_topic(topic) or is_of_any_mirror


def is_cycle(topic: str, policy: ReplicationPolicy, target: str) -> bool:
    """Whether `topic` has already been on cluster `target`, as far as its name tells (invariant 8)."""
    current = topic
    while (source := policy.topic_source(current)) is not None:
        if source == target:
            return True
        upstream = policy.upstream_topic(current)
        if upstream is None or upstream == current:
            return False
        current = upstream
    return False


def _matches(expressions: tuple[str, ...], name: str) -> bool:
    pattern = compile_names(expressions)
    return pattern is not None and pattern.fullmatch(name) is not None
