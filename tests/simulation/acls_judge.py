"""Persons who change ACLs of topics on either side, and the judge of what the ACL job makes of them.

What is expected is written from `docs/security.md` and `docs/keys.md`, as a relation between bindings of the two
sides and as decisions of an authorizer, not from the job's planner.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.acls import (
    ALL,
    ALLOW,
    ALTER,
    CREATE_ACLS,
    DELETE,
    DELETE_ACLS,
    DENY,
    DESCRIBE,
    DESCRIBE_ACLS,
    DESCRIBE_CONFIGS,
    LITERAL,
    PREFIXED,
    READ,
    WRITE,
    Acl,
    Asked,
    is_allowed,
    is_fence,
)
from tests.simulation.cluster import Cluster
from tests.simulation.scheduler import Process

from sparkmirror.batch.records import Record

if TYPE_CHECKING:
    from tests.simulation.history import Scene

_TOPIC_KIND, _TOPIC = 2, "orders"
_PEOPLE = ("User:alice", "User:bob")
_HOSTS = ("*", "*", "*", "10.0.0.1")
_ALLOWED = (READ, READ, READ, ALL, WRITE, DESCRIBE, DESCRIBE_CONFIGS, DELETE, ALTER)
_DENIED = (READ, READ, READ, ALL, WRITE, DESCRIBE)
_PATTERNS = ((_TOPIC, LITERAL), (_TOPIC, LITERAL), ("*", LITERAL), ("or", PREFIXED), (_TOPIC, PREFIXED))
_OTHERS = (("others", LITERAL), ("ot", PREFIXED))
"""Of topics that are not mirrored."""
_READING = (READ, DESCRIBE, DESCRIBE_CONFIGS)
_DENIAL_SHARE, _REMOVAL_SHARE, _OTHERS_SHARE = 0.4, 0.4, 0.1
_PRIVATE_SHARE, _REFUSAL_SHARE, _SOURCE_SHARE, _PAUSE_SECONDS = 0.2, 0.1, 0.75, 4.0
_RESTORES_SHARE = 0.4
_PRIVATE = "-private"
_STALE_SECONDS = 2.0
"""In which every broker learns of a change, unless it stands still, or all of its side learn late."""


class _Access(NamedTuple):
    principal: str
    host: str
    topic: str
    operation: int


@dataclass(slots=True)
class _Look:
    """What a process was last told of the source's bindings, and when; and when it was of the target's."""

    source: frozenset[Acl] = frozenset()
    at: float = 0.0
    target_at: float = 0.0


@dataclass(slots=True)
class _Bindings:
    """Of the target. `persons` are those that a person has made, and not the mirror before without revoking it, and
    when all brokers know of them.
    `again` are the mirror's that persons removed and made again: whether they are its own still, its notes say."""

    persons: dict[Acl, float] = field(default_factory=dict)
    again: set[Acl] = field(default_factory=set)


class AclJudge:
    """Of the topic and its remote topic."""

    def __init__(self, scene: "Scene", *, revokes: bool) -> None:
        self._scene = scene
        self._revokes = revokes
        self._prefix = "" if scene.remote == _TOPIC else "A."
        self._own = _Bindings()
        self._looks: dict[Process | None, _Look] = {}
        self._revoked: dict[Acl, float] = {}
        """What the mirror, or a person, has taken from the target, and when they last did."""
        self._revocations: dict[Acl, tuple[int, Process | None, float]] = {}
        """Of the mirror: where the status topic ended then, which process revoked it, and when."""
        self._granted: dict[Acl, tuple[float, Process | None]] = {}
        """What mirrors have last allowed on the target: when, and which process."""
        self._removal_known_at = 0.0
        """When all brokers know of the last binding that a person removed from the target."""
        scene.target.acls.is_on = True
        scene.source.acls.watchers.append(self._take_on_source)
        scene.target.acls.watchers.append(self._take_on_target)
        scene.target.publications.append(self._take_note)

    # What persons do.

    def begin(self, random: Random) -> None:
        """The source has a few bindings, and persons go on to change them."""
        for _ in range(random.randint(0, 5)):
            self.change(self._scene.source, random)
        if random.random() < _PRIVATE_SHARE:
            self.add_private()
        self._go_on(random)

    def _go_on(self, random: Random) -> None:
        if self._scene.is_healed:
            return
        cluster = self._scene.source if random.random() < _SOURCE_SHARE else self._scene.target
        for _ in range(random.choice((1, 1, 2, 4))):
            self._scene.world.tell(self.change(cluster, random))
        if random.random() < _REFUSAL_SHARE:
            self._scene.world.tell(self.refuse(random))
        self._scene.world.after(_PAUSE_SECONDS * random.random(), lambda: self._go_on(random))

    def change(self, cluster: Cluster, random: Random) -> str:
        """Adds a binding, or removes one."""
        is_source = cluster is self._scene.source
        there = sorted(one for one in cluster.acls.bindings if not is_fence(one))
        if there and random.random() < _REMOVAL_SHARE:
            one = random.choice(there)
            cluster.acls.remove(one)
            if not is_source:
                self._own.persons.pop(one, None)
                self._revoked[one], self._removal_known_at = self._scene.world.now, self._known_at(cluster)
            return f"{_shown(one)} is removed from {cluster.alias}"
        one = self._draw(random) if is_source else self._draw_on_target(random)
        is_new = one not in cluster.acls.bindings
        cluster.acls.add(one)
        if not is_source and is_new:
            self._take_from_person(one, self._known_at(cluster))
        return f"{_shown(one)} is added to {cluster.alias}"

    def _known_at(self, cluster: Cluster) -> float:
        return max(self._scene.world.now + _STALE_SECONDS, cluster.acls.known_at)

    def _take_from_person(self, one: Acl, known_at: float) -> None:
        """The mirror forgets what is gone minutes later, so until then it takes this for its own; and so it does with
        what it has noted and was interrupted before it made it. What it revoked itself it forgets in the same round."""
        noted = self._noted().get(one, -1)
        if noted >= 0 and not self._has_forgotten(one, noted):
            self._own.again.add(one)
        else:
            self._own.persons[one] = known_at

    def _has_forgotten(self, one: Acl, noted: int) -> bool:
        """Whether a note is older than the revocation, by a process that has ended that round."""
        status_end, by, at = self._revocations.get(one, (-1, None, 0.0))
        ended = (each for mirror in self._scene.mirrors if mirror.driver is by and mirror.jobs is not None
                 for each in mirror.jobs.rounds)  # fmt: skip
        return noted < status_end and any(when > at and not reason for when, reason in ended)

    def _draw(self, random: Random) -> Acl:
        is_denied = random.random() < _DENIAL_SHARE
        name, pattern = random.choice(_OTHERS if random.random() < _OTHERS_SHARE else _PATTERNS)
        return Acl(
            _TOPIC_KIND, name, pattern, random.choice(_PEOPLE), random.choice(_HOSTS),
            random.choice(_DENIED if is_denied else _ALLOWED), DENY if is_denied else ALLOW,
        )  # fmt: skip

    def _draw_on_target(self, random: Random) -> Acl:
        """Most often what the mirror may make, too, or what it has just revoked."""
        if self._revoked and random.random() < _RESTORES_SHARE:
            return random.choice(list(self._revoked)[-3:])
        one = self._draw(random)
        return one._replace(name=one.name if one.name == "*" else self._prefix + one.name)

    def refuse(self, random: Random) -> str:
        acls, seconds = self._scene.target.acls, random.choice((1.0, 6.0, 12.0))
        acls.refused, acls.refuses_until = random.choice((0, ALLOW, DENY, DENY)), self._scene.world.now + seconds
        kind = {0: "ACL", ALLOW: "allowance", DENY: "denial"}[acls.refused]
        return f"no {kind} of the target can be made or removed for {seconds} s"

    def delay(self, random: Random) -> str:
        cluster, seconds = random.choice((self._scene.source, self._scene.target)), random.choice((0.5, 3.0, 6.0))
        cluster.acls.late_until = self._scene.world.now + seconds
        return f"brokers of {cluster.alias} learn of no ACL for {seconds} s"

    def add_private(self) -> str:
        """A topic of the target that is no remote topic, though its name begins like one."""
        name = f"{self._scene.remote}{_PRIVATE}"
        if name in self._scene.target.topics:
            return ""
        self._scene.target.create_topic(name, 1)
        return f"{name} is made on the target"

    # What the mirror asks for.

    def _asking(self) -> Process | None:
        current = self._scene.world.current
        return None if current is None else current.process

    def _take_on_source(self, asked: Asked) -> None:
        look = self._looks.setdefault(self._asking(), _Look())
        if asked.api == DESCRIBE_ACLS:
            look.source, look.at = self._scene.source.acls.known(asked.node), self._scene.world.now

    def _take_on_target(self, asked: Asked) -> None:
        world, acls = self._scene.world, self._scene.target.acls
        look = self._looks.setdefault(self._asking(), _Look())
        if asked.api == DESCRIBE_ACLS:
            look.target_at = world.now
            return
        for one in (*asked.creations, *asked.deletions):
            world.tell(f"{_shown(one)} is {'added to' if one in asked.creations else 'revoked on'} the target")
        before = acls.bindings
        after = (before | set(asked.creations)) - set(asked.deletions)
        self._judge_creations(asked.creations)
        self._judge_revocations(asked.deletions)
        if asked.api in (CREATE_ACLS, DELETE_ACLS):
            unseen = self._unseen(look) if asked.api == DELETE_ACLS else frozenset()
            self._judge_allowed(look, self._not_of_persons(before - unseen), self._not_of_persons(after - unseen))
        for one in asked.deletions:
            self._own.again.discard(one)
            self._revoked[one] = world.now
            self._revocations[one] = self._status_end(), self._asking(), world.now
        for one in asked.creations:
            if one not in before:
                if one.permission == ALLOW:
                    self._granted[one] = world.now, self._asking()
                self._own.again.discard(one)
            elif self._own.persons.get(one, 0.0) > look.target_at:
                self._own.persons.pop(one, None)  # both have made it in the same moment

    def _take_note(self, topic: str, process: Process | None, key: bytes, value: bytes | None) -> None:
        """Who notes a binding before all brokers know that a person has made it may not know either: from then on the
        notes say whose it is, also where the process sleeps, and another one knows no more than them."""
        if topic != self._scene.ledger.status or value is None or (one := _noted_binding(key)) is None:
            return
        if self._own.persons.get(one, 0.0) > self._looks.setdefault(process, _Look()).target_at:
            del self._own.persons[one]
            self._own.again.add(one)

    def _unseen(self, look: _Look) -> frozenset[Acl]:
        """What another process has allowed since this one looked at the target: one that slept right before its request
        nothing holds back, and who revokes the denial meanwhile cannot know. The next round takes it back."""
        me = self._asking()
        return frozenset(one for one, (at, by) in self._granted.items() if at > look.target_at and by is not me)

    def _not_of_persons(self, bindings: Iterable[Acl]) -> frozenset[Acl]:
        return frozenset(one for one in bindings if one.permission == DENY or one not in self._own.persons)

    def _judge_creations(self, creations: Iterable[Acl]) -> None:
        for one in creations:
            if one.permission == ALLOW and one.operation not in _READING:
                self._fail(f"{_shown(one)} is added, which allows more than to read")
            if is_fence(one):
                self._fail(f"{_shown(one)} is added, which shuts the mirror out")
            if one.name == "*":
                self._fail(f"{_shown(one)} is added, a binding of all topics")

    def _may_be_noted_late(self, one: Acl) -> bool:
        """Whether a process slept while another one revoked the binding that the first had made: its note of that comes
        when it wakes, and says that what a person has made since is the mirror's."""
        revoked_at = self._revoked.get(one)
        drivers = [mirror.driver for mirror in self._scene.mirrors]
        return revoked_at is not None and any(driver.frozen_until > revoked_at for driver in drivers)

    def _judge_revocations(self, deletions: Iterable[Acl]) -> None:
        for one in deletions:
            if not self._revokes:
                self._fail(f"{_shown(one)} is revoked, and revoking is not enabled")
            if one in self._own.persons and not self._may_be_noted_late(one):
                self._fail(f"{_shown(one)} is revoked, which a person has made")

    def _judge_allowed(self, look: _Look, before: Iterable[Acl], after: Iterable[Acl]) -> None:
        """A change allows nobody what the source, as the mirror was told of it, does not allow or denies: or, where it
        revokes a denial, as another mirror was told later, which has made the allowance."""
        if self._removal_known_at > look.target_at:
            return  # the mirror may rely on a denial that a person has removed
        topics = self._scene.target.topics
        names = [name for name in topics if topics[name].made_at < look.at and not name.startswith("__")]
        for one in _accesses(names):
            if not is_allowed(after, *one) or is_allowed(before, *one):
                continue
            if one.topic != self._scene.remote:
                self._fail(f"{one.principal} is allowed {one.operation} on {one.topic}, which is no remote topic")
            elif one.operation not in _READING:
                self._fail(f"{one.principal} is allowed {one.operation} on {one.topic}, more than to read")
            elif not any(
                is_allowed(seen.source, *one._replace(topic=_TOPIC))
                for seen in self._looks.values()
                if seen.at >= look.at
            ):
                self._fail(f"{one.principal} is allowed {one.operation} on {one.topic}, and is not on the source")

    def _fail(self, problem: str) -> None:
        self._scene.checker.fail(problem)

    # What has to be in the end.

    def problems(self) -> list[str]:
        source = {one for one in self._scene.source.acls.bindings if not is_fence(one)}
        target = self._scene.target.acls.bindings
        lacking = [one for one in sorted(source) if not self._has(target, one)]
        found = [f"the target has nothing of {_shown(one)}" for one in lacking]
        if self._revokes:
            noted = self._noted()
            left = target - self._own.persons.keys() - (self._own.again - noted.keys())
            found += [
                f"{_shown(one)} is left on the target, and nothing of the source asks for it"
                for one in sorted(left)
                if not self._is_asked_for(one, source)
            ]
        return found

    def _has(self, target: Iterable[Acl], one: Acl) -> bool:
        """Whether the remote topic has a binding's counterpart; of one that asks for none, True."""
        if not one.covers(_TOPIC):
            return True
        operation = _copied(one)
        if operation is None:
            return True
        return any(
            other.covers(self._scene.remote)
            and other[3:] == one._replace(operation=operation)[3:]
            for other in target
        )  # fmt: skip

    def _is_asked_for(self, one: Acl, source: Iterable[Acl]) -> bool:
        return any(self._asks_for(asking, one) for asking in source)

    def _asks_for(self, asking: Acl, one: Acl) -> bool:
        operation = _copied(asking)
        if operation is None or asking._replace(operation=operation)[3:] != one[3:]:
            return False
        if one.pattern == LITERAL:
            is_literal = one.permission == ALLOW or not self._prefix or asking[1:3] == (_TOPIC, LITERAL)
            return one.name == self._scene.remote and asking.covers(_TOPIC) and is_literal
        prefix = asking.name if asking.pattern == PREFIXED else "" if asking.name == "*" else None
        if not self._prefix or prefix is None or one.name != self._prefix + prefix:
            return False
        others = [name for name in self._scene.target.topics if name != self._scene.remote]
        return one.permission == DENY or (bool(prefix) and not any(other.startswith(one.name) for other in others))

    def _noted(self) -> dict[Acl, int]:
        """What the status topic says that the mirror has made, or was about to make, and the offsets of these notes."""
        found: dict[Acl, int] = {}
        for record in self._status():
            if (one := _noted_binding(record.key)) is not None:
                found[one] = record.offset if record.value is not None else -1
        return {one: offset for one, offset in found.items() if offset >= 0}

    def _status(self) -> Iterator[Record]:
        for _, stored in self._scene.checker.stored(self._scene.ledger.status):
            yield from stored.records

    def _status_end(self) -> int:
        stored = self._scene.checker.stored(self._scene.ledger.status)
        return max((partition.log.end for partition, _ in stored), default=0)


def _copied(one: Acl) -> int | None:
    """The operation that a binding of the source asks for on the target, None where it asks for nothing."""
    if one.permission == DENY:
        return None if is_fence(one) else one.operation
    operation = READ if one.operation == ALL else one.operation
    return operation if operation in _READING else None


def _accesses(topics: Iterable[str]) -> Iterator[_Access]:
    operations = (READ, WRITE, DESCRIBE, DESCRIBE_CONFIGS, DELETE, ALTER)
    return (_Access(*one) for one in product(_PEOPLE, ("10.0.0.1", "10.0.0.2"), topics, operations))


_NUMBERS = {
    "LITERAL": LITERAL, "PREFIXED": PREFIXED, "ALLOW": ALLOW, "DENY": DENY, "ALL": ALL, "READ": READ, "WRITE": WRITE,
    "DESCRIBE": DESCRIBE, "DESCRIBE_CONFIGS": DESCRIBE_CONFIGS, "DELETE": DELETE, "ALTER": ALTER,
}  # fmt: skip


def _noted_binding(key: bytes | None) -> Acl | None:
    fields = json.loads(key) if key else None
    return _of_note(fields[2]) if isinstance(fields, list) and fields[:2] == ["acl", "A"] else None


def _of_note(fields: list[str]) -> Acl:
    topic, pattern, principal, host, operation, permission = fields
    return Acl(
        _TOPIC_KIND, topic, _NUMBERS[pattern], principal, host, _NUMBERS[operation], _NUMBERS[permission],
    )  # fmt: skip


def _shown(one: Acl) -> str:
    names = {number: name for name, number in _NUMBERS.items() if name not in ("LITERAL", "PREFIXED", "ALLOW", "DENY")}
    permission = "DENY" if one.permission == DENY else "ALLOW"
    star = "*" if one.pattern == PREFIXED else ""
    return f"{permission} {names[one.operation]} on {one.name}{star} for {one.principal} from {one.host}"
