"""Plans the ACLs of remote topics to add or remove; pure. `sync.acl_job` observes and applies.

Principals that may read a topic may read its remote topic, and no principal may do more. Of the allowed operations only
READ is copied, to the remote topics of the source's topics. Every denial is copied, also before its topic exists, but
for a fence: a denial of WRITE to all principals would shut the mirror out too. There is never a binding of `*`. A
prefix stays one only where the naming is a built-in one that puts a prefix before every name, and, where it allows,
only if it covers nothing but remote topics; elsewhere each topic has its own binding.

MirrorMaker (`MirrorSourceConnector.shouldReplicateAcl`, `targetAclBinding`) copies every ALLOW but WRITE, of literal
names only: `AclRules.operations`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from sparkmirror.kafka.answers import LITERAL, PREFIXED, AclBinding
from sparkmirror.sync.change import Change, Plan

READ_ONLY: Final = "read"
ALL_BUT_WRITE: Final = "all-but-write"
"""MirrorMaker's set."""
_ALLOW, _DENY = "ALLOW", "DENY"
_READING = frozenset({"READ", "DESCRIBE", "DESCRIBE_CONFIGS"})
_EVERY_TOPIC = "*"
_NOT_SECURED = "The target has no authorizer, so no ACLs are copied: set sync.topic.acls.enabled to false to be silent."


def fence_of(topic: str) -> AclBinding:
    """The binding that denies WRITE on a topic to all but super users: `sparkmirror failover run --fence`."""
    return AclBinding(topic, LITERAL, "User:*", "*", "WRITE", _DENY)


def overlap(one: AclBinding, other: AclBinding) -> bool:
    """Whether there may be a topic that both bindings are of."""
    if one.pattern == PREFIXED and other.pattern == PREFIXED:
        return one.topic.startswith(other.topic) or other.topic.startswith(one.topic)
    if one.pattern == PREFIXED:
        return other.topic.startswith(one.topic)
    return one.topic.startswith(other.topic) if other.pattern == PREFIXED else one.topic == other.topic


@dataclass(frozen=True, slots=True)
class AddAcl:
    """Create a binding on the target."""

    binding: AclBinding

    @property
    def sentence(self) -> str:
        return f"add the ACL {self.binding}"


@dataclass(frozen=True, slots=True)
class RevokeAcl:
    """Remove a binding that the mirror created, because the source no longer has it."""

    binding: AclBinding

    @property
    def sentence(self) -> str:
        return f"revoke the ACL {self.binding}"


@dataclass(frozen=True, slots=True)
class ForgetAcl:
    """Remove the note of a binding that the mirror created and that is long gone: who makes it now, makes his own."""

    binding: AclBinding

    @property
    def sentence(self) -> str:
        return f"forget the ACL {self.binding}, which is no longer there"


@dataclass(frozen=True, slots=True)
class AclRules:
    """What the configuration says about ACLs: the flow's topics, its naming, and whether revocations follow.

    `source_name` gives the source's topic of a remote name, None for what is none. `prefix` is what a built-in policy
    puts before every name, "" for any other naming. `own_topics` are the mirror's internal topics on the target.
    """

    is_mirrored: Callable[[str], bool]
    remote_name: Callable[[str], str]
    source_name: Callable[[str], str | None]
    prefix: str = ""
    own_topics: frozenset[str] = frozenset()
    revoke: bool = False
    operations: str = READ_ONLY


@dataclass(frozen=True, slots=True)
class AclSnapshot:
    """Both clusters as seen in one round.

    `source` and `target` hold all bindings of topics, None where a cluster has no authorizer. `mirrored` names the
    source topics that are mirrored, `target_topics` all that the target has, `created` the bindings that earlier rounds
    added to the target, as notes say that anybody with rights on their topic may have written, and `lapsed` those of
    them that have been missing for so long that their notes are outdated (`sync.acl_job.FORGET_SECONDS`).
    """

    source: frozenset[AclBinding] | None
    target: frozenset[AclBinding] | None
    mirrored: frozenset[str]
    target_topics: frozenset[str] = frozenset()
    created: frozenset[AclBinding] = frozenset()
    lapsed: frozenset[AclBinding] = frozenset()


def plan_acls(seen: AclSnapshot, rules: AclRules) -> Plan:
    """What brings the target's ACLs in step; pure, and empty once applied.

    Ordered so that no principal may do more in between: denials are added first and removed last.
    """
    if seen.source is None:
        return Plan()
    thought = _Wanted(seen, rules)
    wanted = thought.bindings()
    if seen.target is None:
        return Plan(warnings=(_NOT_SECURED,)) if wanted else Plan()
    missing = sorted(wanted - seen.target)
    gone = sorted((seen.created & seen.target) - wanted) if rules.revoke else []
    gone = [binding for binding in gone if thought.is_of_remote_topics(binding)]
    changes: list[Change] = [AddAcl(binding) for binding in missing if binding.permission == _DENY]
    changes += [RevokeAcl(binding) for binding in gone if binding.permission != _DENY]
    changes += [AddAcl(binding) for binding in missing if binding.permission != _DENY]
    changes += [RevokeAcl(binding) for binding in gone if binding.permission == _DENY]
    changes += [ForgetAcl(binding) for binding in sorted(seen.lapsed - seen.target - wanted) if rules.revoke]
    return Plan(tuple(changes))


@dataclass(frozen=True)
class _Wanted:
    """What the target is to have of the source's bindings."""

    seen: AclSnapshot
    rules: AclRules

    def bindings(self) -> frozenset[AclBinding]:
        source = self.seen.source or frozenset()
        denied = {remote for binding in source if binding.permission == _DENY for remote in self._denials(binding)}
        return frozenset(denied | set(self._allowed(source)))

    def is_of_remote_topics(self, binding: AclBinding) -> bool:
        """Whether a binding is one that this flow may have made: of its remote topics, by name. A naming that does not
        tell what a remote topic comes from has only those of the topics that are there."""
        rules, name = self.rules, binding.topic
        if name in rules.own_topics or name == _EVERY_TOPIC:
            return False
        if rules.prefix and name.startswith(rules.prefix):
            return True
        is_remote = self._source_of(name) is not None
        return binding.pattern == LITERAL and (is_remote or name in self._mirrored.values())

    def _source_of(self, remote: str) -> str | None:
        """The source topic that is mirrored to the topic of this name, if the naming tells."""
        source = self.rules.source_name(remote)
        is_named = source is not None and self.rules.is_mirrored(source) and self.rules.remote_name(source) == remote
        return source if is_named else None

    @cached_property
    def _mirrored(self) -> dict[str, str]:
        """Remote names by source topic, of existing topics."""
        return self._remote(self.seen.mirrored)

    @cached_property
    def _named(self) -> dict[str, str]:
        """As `_mirrored`, with the topics that bindings name: a new topic gets its denials before its permissions. And
        with those whose remote topics are there: a denial of many stays on them while the source lacks the topic."""
        named = {one.topic for one in self.seen.source or () if not _is_of_many(one)}
        named = {name for name in named if self.rules.is_mirrored(name)}
        if not self.rules.prefix:
            named |= {source for remote in self.seen.target_topics if (source := self._source_of(remote)) is not None}
        return self._mirrored | self._remote(named)

    def _remote(self, names: Iterable[str]) -> dict[str, str]:
        found = {name: self.rules.remote_name(name) for name in names}
        return {name: to for name, to in found.items() if to != _EVERY_TOPIC and to not in self.rules.own_topics}

    def _denials(self, binding: AclBinding) -> Iterator[AclBinding]:
        if binding._replace(topic="", pattern=LITERAL) == fence_of(""):
            return
        if self.rules.prefix and _is_of_many(binding):
            yield binding._replace(topic=self.rules.prefix + _prefix_of(binding), pattern=PREFIXED)
            return
        for name in _covered(binding, self._named):
            yield binding._replace(topic=self._named[name], pattern=LITERAL)

    def _allowed(self, source: Iterable[AclBinding]) -> Iterator[AclBinding]:
        """If a naming makes one remote topic of several, only the operations that are allowed on all of them."""
        by_topic: dict[str, set[AclBinding]] = defaultdict(set)
        for binding in source:
            operation = self._operation(binding)
            if operation is None:
                continue
            names, copied = _covered(binding, self._mirrored), binding._replace(operation=operation)
            if names and (prefix := self._safe_prefix(binding)):
                yield copied._replace(topic=prefix, pattern=PREFIXED)
                continue
            for name in names:
                by_topic[name].add(copied._replace(topic=self._mirrored[name], pattern=LITERAL))
        for names_of_one in self._names_by_remote().values():
            yield from set.intersection(*(by_topic[name] for name in names_of_one))

    def _names_by_remote(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for name, remote in self._mirrored.items():
            found[remote].append(name)
        return found

    def _operation(self, binding: AclBinding) -> str | None:
        """What is allowed on remote topics where this is on the source."""
        operation = "READ" if binding.operation == "ALL" else binding.operation
        if binding.permission != _ALLOW or operation == "WRITE":
            return None
        restored = self.rules.operations == ALL_BUT_WRITE and not _is_of_many(binding)
        return operation if restored or operation in _READING else None

    def _safe_prefix(self, binding: AclBinding) -> str:
        """The prefix on the target; "" where it would cover a topic that is not one of the flow's remote topics."""
        if not (self.rules.prefix and binding.pattern == PREFIXED):
            return ""
        prefix = self.rules.prefix + binding.topic
        others = self.rules.own_topics | (self.seen.target_topics - set(self._mirrored.values()))
        return "" if any(name.startswith(prefix) for name in others) else prefix


def _covered(binding: AclBinding, names: Mapping[str, str]) -> list[str]:
    """The source topics among `names` that a binding is of."""
    if not _is_of_many(binding):
        return [binding.topic] if binding.topic in names else []
    prefix = _prefix_of(binding)
    return [name for name in names if name.startswith(prefix)]


def _is_of_many(binding: AclBinding) -> bool:
    return binding.pattern == PREFIXED or binding.topic == _EVERY_TOPIC


def _prefix_of(binding: AclBinding) -> str:
    return binding.topic if binding.pattern == PREFIXED else ""
