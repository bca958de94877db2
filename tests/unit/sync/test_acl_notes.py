"""The notes of bindings that the mirror has made on the target, where one of its brokers learns late, and where another
process, which slept, still creates what it had noted."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from tests.manual_clock import ManualClock

from sparkmirror.errors import ClusterError
from sparkmirror.kafka.answers import LITERAL, AclBinding
from sparkmirror.kafka.publish import Record
from sparkmirror.kafka.tail import TailRecord
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.sync import acl_job
from sparkmirror.sync.acl_job import FORGET_SECONDS, AclNotes, AclSync, MissingBindings
from sparkmirror.sync.acls import AclRules, AddAcl, ForgetAcl, RevokeAcl
from sparkmirror.sync.change import Plan

GONE, LATE = (AclBinding("A.orders", LITERAL, f"User:{name}", "*", "READ", "ALLOW") for name in ("alice", "bob"))
DENIED = AclBinding("A.orders", LITERAL, "User:carol", "*", "READ", "DENY")
RULES = AclRules(is_mirrored=lambda _: True, remote_name=lambda name: name, source_name=lambda name: name, revoke=True)


class Notes:
    def __init__(self, clock: ManualClock | None = None, seconds: float = 0.0) -> None:
        self.removed: list[AclBinding] = []
        self.added: list[AclBinding] = []
        self._clock, self._seconds = clock, seconds

    def created(self, target: Any) -> Mapping[AclBinding, int]:
        return {}

    def add(self, bindings: Iterable[AclBinding]) -> None:
        self.added += bindings
        if self._clock is not None:
            self._clock.now += self._seconds

    def remove(self, bindings: Iterable[AclBinding]) -> None:
        self.removed += bindings


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[AclBinding]:
    """What the target is asked to create."""
    found: list[AclBinding] = []

    def create(_: Any, bindings: Sequence[AclBinding]) -> dict[AclBinding, None]:
        found.extend(bindings)
        return dict.fromkeys(bindings)

    monkeypatch.setattr(acl_job, "create_acls", create)
    return found


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Notes:
    monkeypatch.setattr(acl_job, "known_acls", lambda _: {LATE})
    return Notes()


def apply(notes: Notes, *changes: ForgetAcl) -> Sequence[str]:
    nobody: Any = SimpleNamespace()
    return AclSync(nobody, nobody, RULES, notes).apply(Plan(changes))  # type: ignore[arg-type]


def test_what_a_broker_still_knows_is_not_forgotten(notes: Notes) -> None:
    assert apply(notes, ForgetAcl(GONE), ForgetAcl(LATE)) == []
    assert notes.removed == [GONE]


def test_what_another_process_creates_as_it_is_forgotten_is_noted_again(
    notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([set[AclBinding](), {GONE}])
    monkeypatch.setattr(acl_job, "known_acls", lambda _: next(answers))
    assert apply(notes, ForgetAcl(GONE)) == []
    assert (notes.removed, notes.added) == ([GONE], [GONE])


def test_a_note_is_outdated_when_its_binding_was_missing_for_long_since() -> None:
    missing = MissingBindings()
    assert not missing.lapsed({GONE: 4}, 100.0)
    assert not missing.lapsed({GONE: 4, LATE: 7}, 99.0 + FORGET_SECONDS)
    assert missing.lapsed({GONE: 4, LATE: 7}, 100.0 + FORGET_SECONDS) == {GONE}
    assert missing.lapsed({GONE: 9, LATE: 7}, 99.0 + 2 * FORGET_SECONDS) == {LATE}, "noted once more since"
    assert missing.lapsed({LATE: 7}, 100.0 + 2 * FORGET_SECONDS) == {LATE}
    assert not missing.lapsed({GONE: 9}, 101.0 + 3 * FORGET_SECONDS), "it was there in between"


@pytest.mark.parametrize(("seconds", "is_created"), [(29.0, True), (31.0, False)])
def test_what_was_noted_too_long_ago_is_not_created(asked: list[AclBinding], seconds: float, is_created: bool) -> None:
    """By now its note may be forgotten."""
    clock = ManualClock()
    notes = Notes(clock, seconds)
    nobody: Any = SimpleNamespace()
    failures = AclSync(nobody, nobody, RULES, notes, clock).apply(Plan((AddAcl(DENIED),)))  # type: ignore[arg-type]
    assert (asked == [DENIED], not failures) == (is_created, is_created)
    if not is_created:
        assert failures == [f"to note the ACL {DENIED} took 31 s: it waits"]
        assert notes.removed == [], "another round may have created it"


@pytest.mark.parametrize("is_revoked", [False, True])
def test_a_broker_that_takes_seconds_keeps_back_only_what_has_changed_since(
    asked: list[AclBinding], is_revoked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that does not answer takes five."""
    clock, there = ManualClock(), {GONE}

    def ask_all(*_: Any) -> bool:
        clock.now += 5.0
        if is_revoked:
            there.clear()
        return True

    monkeypatch.setattr(acl_job, "have_all_brokers", ask_all)
    monkeypatch.setattr(acl_job, "describe_acls", lambda *_: set(there))
    nobody: Any = SimpleNamespace()
    job = AclSync(nobody, nobody, RULES, Notes(clock, 0.0), clock)  # type: ignore[arg-type]
    assert job._is_confirmed({GONE}) is not is_revoked
    if not is_revoked:
        assert job.apply(Plan((AddAcl(GONE),))) == []
        assert asked == [GONE]


def test_who_slept_since_the_look_at_the_source_allows_nothing_more(asked: list[AclBinding]) -> None:
    """What it is to grant may have been taken away since; what it is to deny is denied all the same."""
    clock = ManualClock()
    nobody: Any = SimpleNamespace()
    job = AclSync(nobody, nobody, RULES, Notes(clock, 0.0), clock)  # type: ignore[arg-type]
    clock.now += 2.5
    assert job.apply(Plan((AddAcl(DENIED), AddAcl(GONE)))) == [
        f"the ACL {GONE} waits: the source's ACLs were read 2 s ago"
    ]
    assert asked == [DENIED]


@pytest.mark.parametrize("is_taken_away", [False, True])
def test_who_slept_in_a_note_looks_at_the_source_again_before_it_allows_more(
    asked: list[AclBinding], is_taken_away: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, there = ManualClock(), {GONE}
    monkeypatch.setattr(acl_job, "have_all_brokers", lambda _, bindings: bindings == there)
    monkeypatch.setattr(acl_job, "describe_acls", lambda admin: set(admin.there))
    source: Any = SimpleNamespace(there=there, alias="A", list_topics=dict)
    target: Any = SimpleNamespace(there=set(), list_topics=dict)
    job = AclSync(source, target, RULES, Notes(clock, 8.0), clock)  # type: ignore[arg-type]
    job.plan()
    if is_taken_away:
        there.clear()
    failures = job.apply(Plan((AddAcl(GONE),)))
    assert failures == ([f"the ACL {GONE} waits: the source's ACLs were read 8 s ago"] if is_taken_away else [])
    assert asked == ([] if is_taken_away else [GONE])


def test_who_slept_as_it_read_notes_lifts_no_denial_that_the_source_has_again(monkeypatch: pytest.MonkeyPatch) -> None:
    topic, clock = StatusTopic(monkeypatch), ManualClock()
    topic.there = {DENIED}
    topic.noting.add([DENIED])
    source: Any = SimpleNamespace(there=set(), alias="A", list_topics=dict)
    target: Any = SimpleNamespace(there=topic.there, list_topics=dict)
    monkeypatch.setattr(acl_job, "have_all_brokers", lambda admin, bindings: bindings == admin.there)
    job = AclSync(source, target, RULES, AclNotes(Cluster("B", {}), "status", "A"), clock)
    plan = job.plan()
    assert plan.changes == (RevokeAcl(DENIED),)
    source.there, topic.while_reading = {DENIED}, lambda: clock.sleep(8.0)
    assert job.apply(plan) == [f"the ACL {DENIED} waits: the source's ACLs were read 8 s ago"]
    assert topic.there == {DENIED}


class StatusTopic:
    """What the target has, and what is noted of it: by two processes, each with notes of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.there: set[AclBinding] = set()
        self.meanwhile: list[AclBinding] = []
        """What another process creates behind the next revocation, and notes."""
        self.is_silent = False
        self.while_reading: Callable[[], None] = lambda: None
        self._records: list[TailRecord] = []
        for name in ("read_notes", "publish", "delete_acls"):
            monkeypatch.setattr(acl_job, name, getattr(self, name))
        monkeypatch.setattr(acl_job, "describe_acls", lambda admin: admin.there)
        self.noting = AclNotes(Cluster("B", {}), "status", "A")

    def read_notes(self, *_: Any) -> Sequence[TailRecord]:
        if self.is_silent:
            raise ClusterError("no answer")
        self.while_reading()
        return list(self._records)

    def publish(self, _: Cluster, topic: str, records: Sequence[Record]) -> None:
        for key, value in records:
            self._records.append(TailRecord(TopicPartition(topic, 0), len(self._records), 0, key, value))

    def delete_acls(self, _: Any, bindings: Sequence[AclBinding]) -> dict[AclBinding, None]:
        self.there -= set(bindings)
        self.there |= set(self.meanwhile)
        self.noting.add(self.meanwhile)
        return dict.fromkeys(bindings)


@pytest.mark.parametrize("is_silent", [False, True])
def test_what_another_process_creates_behind_its_revocation_is_revoked_too(
    is_silent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It notes that before the note of the revoked binding is removed; also where notes cannot be read right then."""
    topic = StatusTopic(monkeypatch)
    topic.there, topic.meanwhile = {GONE, LATE}, [GONE]
    topic.noting.add([GONE, LATE])
    source: Any = SimpleNamespace(there=set(), alias="A", list_topics=dict)
    target: Any = SimpleNamespace(there=topic.there, list_topics=dict)
    job = AclSync(source, target, RULES, AclNotes(Cluster("B", {}), "status", "A"))
    plan = job.plan()
    assert plan.changes == (RevokeAcl(GONE), RevokeAcl(LATE))
    if is_silent:
        remove = AclNotes.remove

        def fall_silent(notes: AclNotes, bindings: Iterable[AclBinding]) -> None:
            remove(notes, bindings)
            topic.is_silent = True

        with monkeypatch.context() as patched, pytest.raises(ClusterError, match="no answer"):
            patched.setattr(AclNotes, "remove", fall_silent)
            job.apply(plan)
        topic.is_silent = False
    else:
        assert job.apply(plan) == []
    topic.meanwhile = []
    assert topic.there == {GONE}
    assert (again := job.plan()).changes == (RevokeAcl(GONE),)
    assert job.apply(again) == []
    assert not topic.there
    assert not topic.noting.created(target), "who makes it now, makes his own"
