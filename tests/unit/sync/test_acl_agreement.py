"""A source broker that slept says what it knew: what allows more waits until the others say so too."""

from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka import acls as kafka_acls
from sparkmirror.kafka.answers import LITERAL, AclBinding
from sparkmirror.sync import acl_job
from sparkmirror.sync.acl_job import AclSync
from sparkmirror.sync.acls import AclRules, AddAcl, RevokeAcl
from sparkmirror.sync.change import Change, Plan

RULES = AclRules(
    is_mirrored=lambda _: True, remote_name=lambda name: f"A.{name}", source_name=lambda name: name[2:], revoke=True
)


def binding(topic: str, user: str, permission: str) -> AclBinding:
    return AclBinding(topic, LITERAL, f"User:{user}", "*", "READ", permission)


ALLOWED, DENIED = binding("orders", "alice", "ALLOW"), binding("orders", "bob", "DENY")
REMOTE_ALLOWED, REMOTE_DENIED = (one._replace(topic="A.orders") for one in (ALLOWED, DENIED))


class Brokers:
    """Of the source: the one that is asked first, and what each of them knows; None stays silent."""

    def __init__(self, *known: set[AclBinding] | None) -> None:
        self.known = known
        self.alias = "A"
        self.asked: list[int | None] = []

    def brokers(self) -> dict[int, Any]:
        return dict.fromkeys(range(len(self.known)))

    def list_topics(self) -> dict[str, Any]:
        return {"orders": SimpleNamespace(internal=False)}

    def describe(self, node_id: int | None) -> set[AclBinding]:
        self.asked.append(node_id)
        found = self.known[node_id or 0]
        if found is None:
            raise ClusterUnreachable(f"broker {node_id} is silent")
        return found


def plan(monkeypatch: pytest.MonkeyPatch, source: Brokers, target: set[AclBinding], created: set[AclBinding]) -> Plan:
    remote: Any = SimpleNamespace(list_topics=lambda: ["A.orders"])

    def describe(admin: Any, node_id: int | None = None, _seconds: float | None = None) -> set[AclBinding]:
        return target if admin is remote else source.describe(node_id)

    for module in (acl_job, kafka_acls):
        monkeypatch.setattr(module, "describe_acls", describe)
    notes: Any = SimpleNamespace(created=lambda _: dict.fromkeys(created, 0))
    brokers: Any = source
    return AclSync(brokers, remote, RULES, notes).plan()


@pytest.mark.parametrize("later", [{ALLOWED}, None], ids=["all say so", "the other is silent"])
def test_a_grant_is_copied_where_no_broker_denies_it(
    monkeypatch: pytest.MonkeyPatch, later: set[AclBinding] | None
) -> None:
    found = plan(monkeypatch, Brokers({ALLOWED}, later), set(), set())
    assert found == Plan((AddAcl(REMOTE_ALLOWED),))


def test_a_grant_that_another_broker_does_not_know_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    found = plan(monkeypatch, Brokers({ALLOWED, DENIED}, {DENIED}), set(), set())
    assert found.changes == (AddAcl(REMOTE_DENIED),)
    assert found.warnings == (
        "ACLs that allow more wait for the next round: brokers of A do not agree on its ACLs yet.",
    )


@pytest.mark.parametrize(
    ("target", "changes"),
    [({REMOTE_DENIED}, ()), ({REMOTE_ALLOWED}, (RevokeAcl(REMOTE_ALLOWED),))],
    ids=["a denial stays", "a grant goes at once"],
)
def test_a_revocation_waits_where_it_allows_more(
    monkeypatch: pytest.MonkeyPatch, target: set[AclBinding], changes: tuple[Change, ...]
) -> None:
    found = plan(monkeypatch, Brokers(set(), {DENIED, ALLOWED}), target, target)
    assert found.changes == changes


def test_a_round_without_changes_asks_one_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Brokers({ALLOWED}, {ALLOWED})
    assert plan(monkeypatch, source, {REMOTE_ALLOWED}, {REMOTE_ALLOWED}) == Plan()
    assert source.asked == [None]
