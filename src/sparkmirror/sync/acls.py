"""Which ACLs of remote topics to add or remove; pure. `sync.acl_job` observes and applies.

MirrorMaker's rules (`MirrorSourceConnector.shouldReplicateAcl`, `targetAclBinding`): who may read a topic may read its
remote topic. ALLOW WRITE is left out, because only the mirror writes there; ALLOW ALL becomes ALLOW READ; every DENY is
copied, but for a fence: what denies writing to everybody would shut the mirror out too. Beyond it: patterns of prefixes
and `*` are carried over, and revocations where that is asked for.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from sparkmirror.kafka.answers import LITERAL, PREFIXED, AclBinding
from sparkmirror.sync.change import Change, Plan

_EVERY_TOPIC = "*"
_NOT_SECURED = "The target has no authorizer, so no ACLs are copied: set sync.topic.acls.enabled to false to be silent."


def fence_of(topic: str) -> AclBinding:
    """What denies everybody, but super users, to write to a topic: `sparkmirror failover run --fence`."""
    return AclBinding(topic, LITERAL, "User:*", "*", "WRITE", "DENY")


@dataclass(frozen=True, slots=True)
class AddAcl:
    """Create a binding on the target."""

    binding: AclBinding

    @property
    def sentence(self) -> str:
        return f"add the ACL {self.binding}"


@dataclass(frozen=True, slots=True)
class RevokeAcl:
    """Remove a binding that the mirror created, because the source has it no more."""

    binding: AclBinding

    @property
    def sentence(self) -> str:
        return f"revoke the ACL {self.binding}"


@dataclass(frozen=True, slots=True)
class AclRules:
    """What the configuration says about ACLs: the flow's topics, its naming, and whether revocations follow."""

    is_mirrored: Callable[[str], bool]
    remote_name: Callable[[str], str]
    revoke: bool = False


@dataclass(frozen=True, slots=True)
class AclSnapshot:
    """Both clusters as seen in one round.

    `source` and `target` hold all bindings of topics, None where a cluster has no authorizer. `mirrored` names the
    source topics that are mirrored, `created` the bindings that earlier rounds added to the target.
    """

    source: frozenset[AclBinding] | None
    target: frozenset[AclBinding] | None
    mirrored: frozenset[str]
    created: frozenset[AclBinding] = frozenset()


def plan_acls(seen: AclSnapshot, rules: AclRules) -> Plan:
    """What brings the target's ACLs in step; pure, and empty once applied."""
    if seen.source is None:
        return Plan()
    wanted = frozenset(remote for binding in seen.source for remote in _remote_bindings(binding, seen.mirrored, rules))
    if seen.target is None:
        return Plan(warnings=(_NOT_SECURED,)) if wanted else Plan()
    changes: list[Change] = [AddAcl(binding) for binding in sorted(wanted - seen.target)]
    if rules.revoke:
        changes += [RevokeAcl(binding) for binding in sorted((seen.created & seen.target) - wanted)]
    return Plan(tuple(changes))


def _remote_bindings(binding: AclBinding, mirrored: Iterable[str], rules: AclRules) -> Iterator[AclBinding]:
    if (binding.permission == "ALLOW" and binding.operation == "WRITE") or binding == fence_of(binding.topic):
        return
    if binding.permission == "ALLOW" and binding.operation == "ALL":
        binding = binding._replace(operation="READ")
    if binding.pattern == PREFIXED or binding.topic == _EVERY_TOPIC:
        prefix = "" if binding.topic == _EVERY_TOPIC and binding.pattern == LITERAL else binding.topic
        for pattern, name in sorted(_remote_patterns(prefix, mirrored, rules)):
            yield binding._replace(topic=name, pattern=pattern)
    elif binding.pattern == LITERAL and rules.is_mirrored(binding.topic):
        yield binding._replace(topic=rules.remote_name(binding.topic))


def _remote_patterns(prefix: str, mirrored: Iterable[str], rules: AclRules) -> set[tuple[str, str]]:
    """The patterns that cover the remote topics of all mirrored topics which begin with `prefix`.

    Where the naming keeps what follows the prefix, one pattern serves for later topics too; else one for each topic.
    """
    patterns: set[tuple[str, str]] = set()
    for topic in mirrored:
        if not topic.startswith(prefix):
            continue
        remote, rest = rules.remote_name(topic), topic[len(prefix) :]
        if not remote.endswith(rest):
            patterns.add((LITERAL, remote))
        elif begin := remote.removesuffix(rest):
            patterns.add((PREFIXED, begin))
        else:
            patterns.add((LITERAL, _EVERY_TOPIC))
    return patterns
