"""The notes of bindings that the mirror has made on the target, where one of its brokers learns late."""

from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.kafka.answers import LITERAL, AclBinding
from sparkmirror.sync import acl_job
from sparkmirror.sync.acl_job import AclSync
from sparkmirror.sync.acls import AclRules, ForgetAcl
from sparkmirror.sync.change import Plan

GONE, LATE = (AclBinding("A.orders", LITERAL, f"User:{name}", "*", "READ", "ALLOW") for name in ("alice", "bob"))
RULES = AclRules(is_mirrored=lambda _: True, remote_name=lambda name: name, source_name=lambda name: name, revoke=True)


class Notes:
    def __init__(self) -> None:
        self.removed: list[AclBinding] = []
        self.added: list[AclBinding] = []

    def add(self, bindings: Iterable[AclBinding]) -> None:
        self.added += bindings

    def remove(self, bindings: Iterable[AclBinding]) -> None:
        self.removed += bindings


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
