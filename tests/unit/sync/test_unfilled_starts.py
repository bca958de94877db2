"""What a person sets so that a start can be filled stays until all partitions have begun."""

from collections.abc import Iterable, Mapping
from typing import ClassVar
from uuid import UUID

import pytest
from tests.flows import flow_of

from sparkmirror.kafka.answers import ConfigEntry, ConfigSource
from sparkmirror.ledger.lineage import Extent
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import Position, Topic, TopicPartition
from sparkmirror.sync.config_job import ConfigSync
from sparkmirror.sync.configs import FOR_STARTS, ConfigRules, ResetConfig, SetConfig, SettingsPair, plan_configs
from sparkmirror.sync.topics import TopicRules
from sparkmirror.sync.unfilled_starts import have_begun

HERE, FORMER = UUID(int=1), UUID(int=2)
REMOTE = Topic("A.orders", HERE, 2, 1)
DEFAULTS = {"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1"}


def settings(**own: str) -> dict[str, ConfigEntry]:
    """All three, these of the topic's own and the others by default."""
    named = {key.replace("_", "."): value for key, value in own.items()}
    return {
        key: ConfigEntry(
            named.get(key, value), ConfigSource.TOPIC if key in named else ConfigSource.DEFAULT, False, False
        )
        for key, value in DEFAULTS.items()
    }


def pair(source: Mapping[str, ConfigEntry], target: Mapping[str, ConfigEntry]) -> SettingsPair:
    return SettingsPair("A.orders", "orders", source, target)


ADVISED = settings(**{key.replace(".", "_"): value for key, value in FOR_STARTS.items()})
COMPACTED = settings(cleanup_policy="compact", retention_bytes="500")


def test_what_was_set_for_a_start_stays_until_it_is_filled_and_is_then_set_back_at_once() -> None:
    advised = pair(COMPACTED, ADVISED)
    waiting = plan_configs([advised], ConfigRules(), {"A.orders"})
    assert waiting.changes == ()
    assert waiting.warnings == ("A.orders keeps its cleanup.policy and its retention until its start is filled.",)
    filled = plan_configs([advised], ConfigRules())
    assert set(filled.changes) == {
        SetConfig("A.orders", "orders", "cleanup.policy", "compact", "compact,delete"),
        SetConfig("A.orders", "orders", "retention.bytes", "500", "-1"),
        ResetConfig("A.orders", "orders", "retention.ms", "-1"),
    }
    assert filled.warnings == ()


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (COMPACTED, settings(cleanup_policy="delete")),
        (COMPACTED, settings()),
        (settings(cleanup_policy="delete"), ADVISED),
        (settings(cleanup_policy="compact,delete"), settings(cleanup_policy="compact")),
    ],
    ids=["deletes alone", "by default", "the source deletes", "the source does both"],
)
def test_what_else_differs_follows_the_source_at_once(
    source: Mapping[str, ConfigEntry], target: Mapping[str, ConfigEntry]
) -> None:
    known = pair(source, target)
    assert plan_configs([known], ConfigRules(), {"A.orders"}) == plan_configs([known], ConfigRules())
    assert plan_configs([known], ConfigRules()).changes


def view_of(*topic_ids: UUID | None, is_aligned: bool = True) -> LedgerView:
    """With a position in each partition, in a log of the target's topic of that id; None is without one."""
    view = LedgerView(flow_of().connector)
    for number, topic_id in enumerate(topic_ids):
        if topic_id is not None:
            extent = Extent("A.orders", topic_id, 5)
            record = PositionRecord(Position(5), 1, 0, extent=extent, is_aligned=is_aligned)
            view.records[TopicPartition("orders", number)] = record
    return view


@pytest.mark.parametrize(
    ("view", "begun"),
    [
        (view_of(HERE, HERE), True),
        (view_of(HERE, None), False),
        (view_of(HERE, FORMER), False),
        (view_of(HERE, HERE, is_aligned=False), False),
        (view_of(), False),
    ],
    ids=["all", "one has no position", "one in a topic that was deleted", "mirrored otherwise", "nothing yet"],
)
def test_a_topic_has_begun_once_each_of_its_partitions_has_a_position_in_it(view: LedgerView, begun: bool) -> None:
    assert have_begun(view, "orders", REMOTE) is begun


class Cluster:
    """Stands for an admin with one topic, whose settings it shows."""

    refused: ClassVar[dict[str, int]] = {}

    def __init__(self, topic: str, entries: dict[str, ConfigEntry]) -> None:
        self.topic, self.entries, self.digest = topic, entries, b"the same"

    def list_topics(self) -> dict[str, Topic]:
        return {self.topic: Topic(self.topic, HERE, 2, 1)}

    def ask_configs(self, _: Iterable[str]) -> "Cluster":
        return self

    def read(self) -> dict[str, dict[str, ConfigEntry]]:
        return {self.topic: self.entries}


def test_that_a_start_is_filled_is_noticed_though_no_setting_has_changed() -> None:
    unfilled, asked = {"A.orders"}, []

    def find(remotes: Mapping[str, str]) -> set[str]:
        asked.append(dict(remotes))
        return set(unfilled)

    rules = TopicRules(is_mirrored=lambda _: True, remote_name=lambda name: f"A.{name}", are_fixed=True)
    source, target = Cluster("orders", COMPACTED), Cluster("A.orders", ADVISED)
    sync = ConfigSync(source, target, rules, find)  # type: ignore[arg-type]
    assert [sync.plan().changes for _ in range(2)] == [(), ()]
    unfilled.clear()
    assert len(sync.plan().changes) == 3
    assert asked == [{"A.orders": "orders"}] * 3
    sync.plan()
    assert len(asked) == 3, "settings that are as they were are not compared again"
