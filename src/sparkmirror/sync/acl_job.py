"""The ACL job of a flow: principals that may read a topic may read its remote topic; observe, plan, apply.

Run at start and at intervals; the plan is made in `sync.acls`, pure. What it creates is noted on the flow's status
topic, so that a later run revokes only what the mirror itself has granted. The note comes first: a mirror that dies
between the two leaves a note of nothing, which is forgotten later, and no right that nobody would take back.

Nothing fences who creates a binding: a process that slept may do it after another has taken its place. So what was
noted too long ago is not created, and a note is not forgotten before that time is long over, and brokers have learned
of what was created in it.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.errors import AuthorizationFailed, SparkMirrorError
from sparkmirror.kafka.acls import create_acls, delete_acls, describe_acls, have_all_brokers, known_acls
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import AclBinding
from sparkmirror.kafka.errors import RequestRefused, is_retriable
from sparkmirror.kafka.publish import publish
from sparkmirror.model import Cluster
from sparkmirror.stored_json import decode_or_none
from sparkmirror.sync.acls import AclRules, AclSnapshot, AddAcl, ForgetAcl, RevokeAcl, overlap, plan_acls
from sparkmirror.sync.change import Change, Plan
from sparkmirror.sync.status_notes import read_notes

_KIND = "acl"
_ALLOW: Final = "ALLOW"
_DISAGREE: Final = "ACLs that allow more wait for the next round: brokers of {alias} do not agree on its ACLs yet."
_CONFIRMED_SECONDS: Final = 2.0
"""What allows more is done within so long of the look at the source's brokers, or in a later round."""
_CREATE_SECONDS: Final = 30.0
"""A binding is created within so long of its note, or not at all."""
FORGET_SECONDS: Final = 300.0
"""A binding is missing for so long, by the same note, before the note is forgotten: that of `_CREATE_SECONDS`, of the
request that creates it, and of brokers that learn late."""


class AclNotes:
    """Which bindings the mirror has created on the target: records of a compacted topic. They are read in each round:
    a process that led the flow before may have woken since, and have created what it had planned."""

    def __init__(self, target: Cluster, topic: str, source_alias: str) -> None:
        self._target = target
        self._topic = topic
        self._source_alias = source_alias

    def created(self, target: Admin) -> Mapping[AclBinding, int]:
        """Each with the offset of its newest note. Raises ClusterError."""
        found: dict[AclBinding, int] = {}
        for binding, offset, is_removed in self._read(target):
            if is_removed:
                found.pop(binding, None)
            else:
                found[binding] = offset
        return found

    def newest(self, target: Admin) -> Mapping[AclBinding, int]:
        """The offset of the newest note of each binding, whether it was removed since or not. Raises ClusterError."""
        return {binding: offset for binding, offset, is_removed in self._read(target) if not is_removed}

    def add(self, bindings: Iterable[AclBinding]) -> None:
        """Before they are created: what is not noted is never revoked. Raises ClusterError."""
        self._publish(bindings, b"{}")

    def remove(self, bindings: Iterable[AclBinding]) -> None:
        """Raises ClusterError."""
        self._publish(bindings, None)

    def _read(self, target: Admin) -> Iterator[tuple[AclBinding, int, bool]]:
        for record in read_notes(self._target, target, self._topic, "acls"):
            if (binding := noted(record.key, self._source_alias)) is not None:
                yield binding, record.offset, record.value is None

    def _publish(self, bindings: Iterable[AclBinding], value: bytes | None) -> None:
        records = [(json.dumps([_KIND, self._source_alias, list(one)]).encode(), value) for one in bindings]
        if records:
            publish(self._target, self._topic, records)


class MissingBindings:
    """Since when bindings are missing that are noted, by which note, as this process has seen it."""

    def __init__(self) -> None:
        self._since: dict[AclBinding, tuple[int, float]] = {}

    def lapsed(self, missing: Mapping[AclBinding, int], now: float) -> frozenset[AclBinding]:
        """Those that have been missing for long. `missing` are all that are, each with the offset of its note."""
        before = self._since
        self._since = {
            one: before[one] if one in before and before[one][0] == offset else (offset, now)
            for one, offset in missing.items()
        }
        return frozenset(one for one, (_, since) in self._since.items() if now - since >= FORGET_SECONDS)


class AclSync:
    """The ACL job of one flow, a `Sync`. The admins belong to the caller."""

    description = "copying ACLs"

    def __init__(
        self, source: Admin, target: Admin, rules: AclRules, notes: AclNotes, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._source = source
        self._target = target
        self._rules = rules
        self._notes = notes
        self._clock = clock
        self._missing = MissingBindings()
        self._confirmed_at = clock.monotonic()
        self._seen: Collection[AclBinding] = ()
        """The source's bindings that the plan is made for."""
        self._revoked: dict[AclBinding, int] = {}
        """Each with the note that goes with it: it is still to be seen whether there is a newer one."""

    def plan(self) -> Plan:
        """The target's ACLs are read only if the source has ACLs, or had. What allows more than before waits until all
        brokers of the source know the ACLs that one has named."""
        source = describe_acls(self._source)
        if source is None:
            return Plan()
        self._seen = source
        mirrored = frozenset(
            name
            for name, topic in self._source.list_topics().items()
            if not topic.internal and self._rules.is_mirrored(name)
        )
        target = describe_acls(self._target)
        self._note_again()
        created = self._notes.created(self._target) if self._rules.revoke else {}
        missing = {one: offset for one, offset in created.items() if target is not None and one not in target}
        lapsed = self._missing.lapsed(missing, self._clock.monotonic())
        bindings, topics = None if target is None else frozenset(target), frozenset(self._target.list_topics())
        seen = AclSnapshot(frozenset(source), bindings, mirrored, topics, frozenset(created), lapsed)
        plan = plan_acls(seen, self._rules)
        if not any(map(_widens, plan.changes)) or self._is_confirmed(source):
            return plan
        narrower = tuple(change for change in plan.changes if not _widens(change))
        return Plan(narrower, (*plan.warnings, _DISAGREE.format(alias=self._source.alias)))

    def _is_confirmed(self, source: Collection[AclBinding]) -> bool:
        """A broker that does not answer takes seconds: what was read before that is looked at once more."""
        if not have_all_brokers(self._source, source):
            return False
        self._confirmed_at = self._clock.monotonic()
        return describe_acls(self._source) == source

    def apply(self, plan: Plan) -> Sequence[str]:
        """Apply in the plan's order. A refused change holds back later changes for the same topics: no principal is
        allowed what a missing denial would deny. What allows more waits where this process has slept since it read."""
        failures: list[str] = []
        refused: list[AclBinding] = []
        ordered = [change for change in plan.changes if isinstance(change, AddAcl | RevokeAcl)]
        for (adds, widens), changes in groupby(ordered, lambda one: (isinstance(one, AddAcl), _widens(one))):
            held, bindings = _held([change.binding for change in changes], refused)
            failures += [f"the ACL {one} waits for {behind}" for one, behind in held]
            if widens and self._age() > _CONFIRMED_SECONDS:
                failures += [str(error) for error in self._outdated(bindings).values()]
                continue
            outcome = self._create(bindings, widens) if adds else self._delete(bindings, widens)
            refused += [one for one, error in outcome.items() if error is not None]
            failures += [str(error) for error in outcome.values() if error is not None]
        self._forget([change.binding for change in plan.changes if isinstance(change, ForgetAcl)])
        return failures

    def _age(self) -> float:
        """How many seconds ago the source's brokers were asked last."""
        return self._clock.monotonic() - self._confirmed_at

    def _outdated(self, bindings: Sequence[AclBinding]) -> dict[AclBinding, SparkMirrorError | None]:
        age = self._age()
        return {
            one: SparkMirrorError(f"the ACL {one} waits: the source's ACLs were read {age:.0f} s ago")
            for one in bindings
        }

    def _is_still_confirmed(self) -> bool:
        """Notes may take long, and this process may have slept while it read or wrote them: what the source allows is
        then looked at once more."""
        if self._age() <= _CONFIRMED_SECONDS:
            return True
        return self._is_confirmed(self._seen) and self._age() <= _CONFIRMED_SECONDS

    def _create(self, bindings: Sequence[AclBinding], widens: bool) -> Mapping[AclBinding, SparkMirrorError | None]:
        """The note goes before, and once more behind: another process, which leads by now, may have forgotten it since,
        as one of a binding that was not there. What was noted before stays so, whatever the answer: a broker that
        learns late may have hidden it. So does what is there by now: another process has created it since."""
        if not bindings:
            return {}
        began = self._clock.monotonic()
        known = self._notes.created(self._target)
        self._notes.add(bindings)
        if (seconds := self._clock.monotonic() - began) > _CREATE_SECONDS:
            return {one: SparkMirrorError(f"to note the ACL {one} took {seconds:.0f} s: it waits") for one in bindings}
        if widens and not self._is_still_confirmed():
            return self._outdated(bindings)
        outcome = create_acls(self._target, bindings)
        self._notes.add(one for one, error in outcome.items() if error is None)
        refused = {one for one, error in outcome.items() if error is not None and _is_certain(error)}
        self._forget(sorted(refused - known.keys()))
        return outcome

    def _delete(self, bindings: Sequence[AclBinding], widens: bool) -> Mapping[AclBinding, SparkMirrorError | None]:
        """What is noted still: another process may have revoked a binding while this one slept, and a person have made
        it again. One that sleeps right before the request nothing can hold back."""
        noted = self._notes.created(self._target) if bindings else {}
        own = [one for one in bindings if one in noted]
        if not own:
            return {}
        if widens and not self._is_still_confirmed():
            return self._outdated(own)
        outcome = delete_acls(self._target, own)
        self._revoked |= {one: offset for one, offset in noted.items() if one in outcome}
        self._notes.remove(one for one, error in outcome.items() if error is None)
        self._note_again()
        return outcome

    def _note_again(self) -> None:
        """Another process, which slept, may have created a binding right behind its revocation, and noted that before
        the note was removed: nobody would take back what it has made. Brokers may learn of it late, notes tell."""
        if self._revoked:
            newest = self._notes.newest(self._target)
            self._notes.add(one for one, offset in self._revoked.items() if newest.get(one, offset) > offset)
            self._revoked.clear()

    def _forget(self, bindings: Sequence[AclBinding]) -> None:
        """One that a broker still knows, or knows already, waits for a later round. What another process created in
        this very moment is noted again."""
        known = known_acls(self._target) if bindings else set()
        if gone := [one for one in bindings if one not in known]:
            self._notes.remove(gone)
            if back := known_acls(self._target).intersection(gone):
                self._notes.add(back)


def _held(
    bindings: Sequence[AclBinding], refused: Sequence[AclBinding]
) -> tuple[list[tuple[AclBinding, AclBinding]], list[AclBinding]]:
    """The bindings that wait, each with the one that it waits for, and the others. Bindings of one kind never wait for
    each other."""
    behind = {
        one: next((other for other in refused if other.permission != one.permission and overlap(one, other)), None)
        for one in bindings
    }
    return [(one, other) for one, other in behind.items() if other], [one for one in bindings if not behind[one]]


def _widens(change: Change) -> bool:
    """Whether somebody may do more by it."""
    match change:
        case AddAcl(binding):
            return binding.permission == _ALLOW
        case RevokeAcl(binding):
            return binding.permission != _ALLOW
    return False


def _is_certain(error: SparkMirrorError) -> bool:
    """Whether a refusal says that nothing was created: a time-out or an error of the broker's own does not."""
    is_known = isinstance(error, RequestRefused) and error.code > 0 and not is_retriable(error.code)
    return is_known or isinstance(error, AuthorizationFailed)


def noted(key: bytes | None, source_alias: str) -> AclBinding | None:
    found = decode_or_none(key, tuple[str, str, AclBinding])
    return found[2] if found is not None and found[:2] == (_KIND, source_alias) else None
