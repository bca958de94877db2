"""Which internal topics a flow creates, and what it warns about."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest
from tests.flows import flow_of

from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.admin import Admin
from sparkmirror.ledger import setup
from sparkmirror.ledger.setup import count_offsets_partitions
from sparkmirror.ledger.topics import ledger_topics, plan_ledger_topics
from sparkmirror.model import Topic
from sparkmirror.operations.reverse_ledger import ReverseLedger

NAMES = ledger_topics("A")


def topic(name: str, policy: str) -> Topic:
    return Topic(name, UUID(int=1), 25, 1, configs={"cleanup.policy": policy})


def test_names_are_mirrormakers_and_our_own() -> None:
    assert NAMES.offsets == "mm2-offsets.A.internal"
    assert list(ledger_topics("A", "my-offsets")) == [
        "my-offsets",
        "mm2-sparkmirror-positions.A.internal",
        "mm2-sparkmirror-commands.A.internal",
        "mm2-sparkmirror-status.A.internal",
        "mm2-sparkmirror-offset-map.A.internal",
        "mm2-sparkmirror-gaps.A.internal",
    ]


def test_connects_topic_is_created_exactly_as_connect_does() -> None:
    plan = plan_ledger_topics(NAMES, {}, brokers=3)
    offsets = next(one for one in plan.missing if one.name == NAMES.offsets)
    assert (offsets.partitions, offsets.replication_factor) == (25, 3)
    assert offsets.configs == {"cleanup.policy": "compact"}
    assert plan.warnings == ()


def test_our_topics_have_one_partition_and_small_segments() -> None:
    ours = [one for one in plan_ledger_topics(NAMES, {}, brokers=3).missing if one.name != NAMES.offsets]
    assert [one.partitions for one in ours] == [1, 1, 1, 1, 1]
    assert {one.configs["segment.bytes"] for one in ours} == {"1048576"}
    policies = {one.name: one.configs["cleanup.policy"] for one in ours}
    assert policies == {
        NAMES.positions: "compact",
        NAMES.commands: "compact,delete",
        NAMES.status: "compact",
        NAMES.offset_map: "compact",
        NAMES.gaps: "compact",
    }


def test_a_small_target_gets_what_is_possible_and_a_warning() -> None:
    plan = plan_ledger_topics(NAMES, {}, brokers=1)
    assert {one.replication_factor for one in plan.missing} == {1}
    assert "replication factor 1 instead of 3" in plan.warnings[0]


def test_minus_one_leaves_the_replication_factor_to_the_brokers() -> None:
    plan = plan_ledger_topics(replace(NAMES, replication_factor=-1), {}, brokers=1)
    assert {one.replication_factor for one in plan.missing} == {-1}
    assert plan.warnings == ()


def test_what_exists_is_left_as_it_is() -> None:
    existing = {name: topic(name, "compact") for name in NAMES}
    plan = plan_ledger_topics(NAMES, existing, brokers=1)
    assert (plan.missing, plan.warnings) == ((), ())


def test_a_topic_that_may_forget_positions_is_warned_about() -> None:
    existing = {name: topic(name, "compact") for name in NAMES} | {NAMES.offsets: topic(NAMES.offsets, "delete")}
    plan = plan_ledger_topics(NAMES, existing, brokers=3)
    assert plan.missing == ()
    assert "mm2-offsets.A.internal has cleanup.policy=delete" in plan.warnings[0]


class Behind:
    """An `Admin` of a server that learns of a topic after so many questions, if it is not cut off."""

    alias = "A"
    connection = SimpleNamespace(wait=lambda _: False)

    def __init__(self, questions: float) -> None:
        self._left = questions

    def list_known_topics(self, names: list[str]) -> dict[str, Topic]:
        self._left -= 1
        return {} if self._left >= 0 else {name: Topic(name, UUID(int=1), 25, 3) for name in names}


def test_a_server_that_does_not_know_the_offsets_topic_yet_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "_APPEARS_SECONDS", 1.0)
    assert count_offsets_partitions(cast(Admin, Behind(2)), ledger_topics("A")) == 25
    monkeypatch.setattr(setup, "_APPEARS_SECONDS", 0.0)
    with pytest.raises(ClusterUnreachable, match=r"does not know topic mm2-offsets\.B\.internal"):
        ReverseLedger(flow_of(), cast(Admin, Behind(float("inf")))).write({})
