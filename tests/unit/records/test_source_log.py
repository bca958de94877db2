"""Limits become offsets of each partition; what they leave open or cannot mean is an error."""

from collections.abc import Collection, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from tests.manual_clock import ManualClock

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.errors import ClusterError, ClusterUnreachable, ConfigError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import EARLIEST, LATEST
from sparkmirror.kafka.errors import UNKNOWN_TOPIC_OR_PARTITION
from sparkmirror.kafka.log_offsets import LogOffsets
from sparkmirror.kafka.settings import ClientSettings, client_settings
from sparkmirror.kafka.wire import leader_search
from sparkmirror.kafka.wire.lookup import ClusterView
from sparkmirror.model import Cluster, Topic, TopicPartition
from sparkmirror.records import source_log
from sparkmirror.records.offset_limits import AtOffsets, AtTimestamps, Everywhere
from sparkmirror.records.options import read_options
from sparkmirror.records.source_log import SourceLog, most_say

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
FIRST, LAST = {A: 1, B: 2}, {A: 9, B: 8}


class FakeAdmin:
    """A cluster with the topics t, of two partitions, `__internal` and `trades`."""

    def __init__(self) -> None:
        self.connection = SimpleNamespace(wait=lambda _: True)
        self.is_away = False
        self.closed = 0
        self.committed: list[bool] = []

    def close(self) -> None:
        self.closed += 1

    def list_topics(self, names: Iterable[str] | None) -> dict[str, Topic]:
        if self.is_away:
            self.is_away = False
            raise ClusterUnreachable("away")
        there = [Topic("t", UUID(int=1), 2, 1), Topic("__internal", UUID(int=2), 1, 1, internal=True)]
        there.append(Topic("trades", UUID(int=3), 1, 1))
        return {one.name: one for one in there if names is None or one.name in names}

    def await_earliest_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {where: FIRST[where] for where in partitions if where in FIRST}

    def await_latest_offsets(
        self, partitions: Collection[TopicPartition], *, read_committed: bool
    ) -> dict[TopicPartition, int]:
        self.committed.append(read_committed)
        return {where: LAST[where] for where in partitions if where in LAST}

    def shown_topics(self, names: Iterable[str] | None) -> list[dict[str, Topic]]:
        return [self.list_topics(names)]

    def newest_offsets(
        self, times: Mapping[TopicPartition, int], seconds_max: float, *, read_committed: bool
    ) -> LogOffsets:
        assert seconds_max == 30.0, "longer than a cluster needs to replace a leader"
        if EARLIEST in times.values():
            return LogOffsets("kafka", self.await_earliest_offsets(times))
        if LATEST in times.values():
            return LogOffsets("kafka", self.await_latest_offsets(times, read_committed=read_committed))
        return LogOffsets("kafka", {where: 5 if time < 100 else -1 for where, time in times.items()})

    def newest_ends(self, partitions: Collection[TopicPartition], seconds_max: float) -> LogOffsets:
        assert seconds_max == 30.0, "longer than a cluster needs to replace a leader"
        return LogOffsets("kafka", {where: 12 for where in partitions if where in LAST})

    def await_newest_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return Admin.await_newest_ends(cast(Admin, self), partitions)

    def describe_configs(self, topics: Collection[str], keys: Collection[str]) -> dict[str, Any]:
        return {"t": {"cleanup.policy": SimpleNamespace(value="compact,delete")}}


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    made = FakeAdmin()
    monkeypatch.setattr(source_log, "open_admin", lambda *_: made)
    return made


def log(clock: Clock = SYSTEM_CLOCK, /, **options: str) -> SourceLog:
    given = {"kafka.bootstrap.servers": "b:1", **(options or {"subscribe": "t"})}
    return SourceLog(read_options(given, is_stream=True), clock)


def test_topics_are_found_by_name_pattern_and_partition(admin: FakeAdmin) -> None:
    assert log().all_partitions() == {A, B}
    assert log(subscribepattern="t.*").all_partitions() == {A, B, TopicPartition("trades", 0)}
    assert log(subscribepattern=".*nal").all_partitions() == set(), "internal topics are left out"
    assert log(assign='{"t": [1]}').all_partitions() == {B}


def test_what_is_named_and_not_there_is_an_error(admin: FakeAdmin) -> None:
    with pytest.raises(ClusterError, match="has no topic u, which subscribe names"):
        log(subscribe="t,u").all_partitions()
    with pytest.raises(ClusterError, match="has no partition t-7, which assign names"):
        log(assign='{"t": [1, 7]}').all_partitions()
    with pytest.raises(ClusterError, match="has no partition u-0 any more"):
        log().earliest([TopicPartition("u", 0)])


def test_a_cluster_that_was_away_is_connected_to_again(admin: FakeAdmin) -> None:
    admin.is_away = True
    assert log().partitions() == {A, B}
    assert admin.closed == 1


def test_the_end_is_that_of_the_isolation_level(admin: FakeAdmin) -> None:
    assert log(subscribe="t", **{"kafka.isolation.level": "read_committed"}).latest([A]) == {A: 9}
    log().latest([A])
    assert admin.committed == [True, False]


def test_limits_become_offsets(admin: FakeAdmin) -> None:
    source = log()
    assert source.resolve(Everywhere(EARLIEST), FIRST, LAST) == FIRST
    assert source.resolve(Everywhere(LATEST), FIRST, LAST) == LAST
    assert source.resolve(AtOffsets("startingOffsets", {A: EARLIEST, B: 4}), FIRST, LAST) == {A: 1, B: 4}
    assert source.resolve(AtTimestamps("startingTimestamp", {}, 50), FIRST, LAST) == {A: 5, B: 5}
    assert source.resolve(AtTimestamps("x", {A: 50, B: 100}, or_latest=True), FIRST, LAST) == {A: 5, B: 8}


def test_a_limit_that_says_too_little_or_too_much_is_an_error(admin: FakeAdmin) -> None:
    source = log()
    with pytest.raises(ConfigError, match="startingOffsets does not say where t-1 is to be read"):
        source.resolve(AtOffsets("startingOffsets", {A: 3}), FIRST, LAST)
    with pytest.raises(ConfigError, match="startingOffsets names u-0, which is not read"):
        source.resolve(AtOffsets("startingOffsets", {A: 3, B: 3, TopicPartition("u", 0): 1}), FIRST, LAST)
    with pytest.raises(ClusterError, match="startingTimestamp: t-0, t-1 has no record that is so late"):
        source.resolve(AtTimestamps("startingTimestamp", {}, 500, or_latest=False), FIRST, LAST)


def test_a_topic_whose_settings_may_not_be_read_counts_as_not_compacted(admin: FakeAdmin) -> None:
    assert log().compacted(["t", "hidden"]) == {"t"}


@pytest.mark.parametrize(("knows", "gone"), [({"well:1"}, set()), (set(), {A})])
def test_a_topic_is_gone_when_no_server_knows_it(
    knows: set[str], gone: set[TopicPartition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is cut off from the others does not know a new one, and is asked first."""
    clock = ManualClock()
    began = clock.now

    def look_up(settings: ClientSettings, topics: Collection[str]) -> ClusterView:
        if settings.bootstrap_servers[0] in knows:
            return ClusterView({}, {}, sizes=dict.fromkeys(topics, 2))
        return ClusterView({}, {}, errors=dict.fromkeys(topics, UNKNOWN_TOPIC_OR_PARTITION))

    monkeypatch.setattr(source_log, "look_up", look_up)
    settings = client_settings(Cluster("kafka", {"bootstrap.servers": "cut-off:1,well:1"}), "test")
    assert source_log.gone_partitions(settings, [A], clock) == gone
    assert clock.now - began > 2.0 or not gone, "a broker may hear of a new topic so much later than another one"


def test_a_log_is_shorter_where_its_newest_leader_says_so(admin: FakeAdmin) -> None:
    """Any broker may be cut off from the others, and lead by what it knew."""
    assert log().latest([A]) == {A: 9}
    assert log().high_watermarks([A]) == {A: 12}


def test_what_one_broker_shows_is_compared_with_what_all_say(admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of four show the topic as it is known; one has a former topic of that name, and one does not answer."""
    known, former = UUID(int=7), UUID(int=1)
    shown = {"b:1": (1, former), "b:2": (2, known), "b:3": (2, known)}

    def look_up(settings: ClientSettings, topics: Collection[str], *_: object) -> ClusterView:
        server = settings.bootstrap_servers[0]
        if server not in shown:
            raise ClusterUnreachable("away")
        partitions, topic_id = shown[server]
        brokers = {at: ("b", at) for at in range(1, 5)}
        return ClusterView(brokers, {}, {"t": topic_id}, sizes={"t": partitions})

    monkeypatch.setattr(leader_search, "look_up", look_up)
    source = log(ManualClock())
    source.partitions()
    assert source.doubted({"t": known}) == {"t"} and source.topic_ids["t"] == known
    assert source.shown([A, B, TopicPartition("t", 2), TopicPartition("other", 0)]) == {A, B}
    shown["b:2"] = (1, former)
    source.partitions()
    assert source.doubted({"t": known}) == set() and source.topic_ids["t"] == former
    assert source.doubted({"t": former}) == set()


def shown(*ids: int, sizes: tuple[int, ...] = (1, 1, 1)) -> list[dict[str, Topic]]:
    return [{"t": Topic("t", UUID(int=one), size, 1)} if one else {} for one, size in zip(ids, sizes, strict=False)]


def test_of_a_topic_counts_what_most_brokers_show() -> None:
    assert most_say(shown(1, 2, 2, sizes=(9, 1, 3))) == ({"t": Topic("t", UUID(int=2), 3, 1)}, set())
    assert most_say(shown(1, 0, 0)) == ({}, set()), "it is gone"
    assert most_say(shown(0, 2, 2))[0]["t"].topic_id == UUID(int=2), "one does not know it yet"
    for divided in (shown(1, 2), shown(1, 0), shown(1, 2, 3), shown(1, 2, 0)):
        assert most_say(divided) == ({}, {"t"})
    assert most_say(shown(5)) == ({"t": Topic("t", UUID(int=5), 1, 1)}, set())


def test_a_read_does_not_begin_while_brokers_show_different_topics(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = [shown(1, 2), shown(1, 2), shown(2, 2)]
    monkeypatch.setattr(admin, "shown_topics", lambda _: views.pop(0) if len(views) > 1 else views[0])
    clock = ManualClock()
    admin.connection.wait = clock.sleep
    assert log(clock).all_partitions() == {A} and len(views) == 1
    views[:] = [shown(1, 2)]
    with pytest.raises(ClusterUnreachable, match="show different topics of the name t"):
        log(clock).all_partitions()
    views[:] = [[{"other": Topic("other", UUID(int=one), 1, 1), **shown(1)[0]} for one in (1, 2)]]
    assert log(subscribepattern="t").all_partitions() == {A}, "of others it does not matter"


def test_options_take_what_they_name() -> None:
    other = TopicPartition("u", 0)
    for options, taken in (
        ({"subscribe": "t"}, {A, B}), ({"subscribepattern": "[tu]"}, {A, B, other}), ({"assign": '{"t": [1]}'}, {B}),
    ):  # fmt: skip
        selection = read_options({"kafka.bootstrap.servers": "b:1", **options}, is_stream=True).topics
        assert {one for one in (A, B, other) if selection.takes(one)} == taken
