"""Where partitions begin, and tasks that are tried again."""

from collections.abc import Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest
from tests.flows import flow_of
from tests.manual_clock import ManualClock

from sparkmirror.control.assignment import Append, Assigned
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.log_offsets import LogOffsets
from sparkmirror.kafka.wire.lookup import ClusterView
from sparkmirror.ledger.positions import Accepted, accepted_key, encode_accepted
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import ANOTHER_ID_SECONDS, Connector, Position, Topic, TopicPartition
from sparkmirror.planning import starts
from sparkmirror.planning.first_offsets import first_offsets
from sparkmirror.planning.starts import confirm_ids, settle_starts, start_again

WHERE = TopicPartition("orders", 3)
OLD, NEW, NEWEST = UUID(int=1), UUID(int=2), UUID(int=3)
PLANNED = Assigned(WHERE, 100, topic_id=OLD)
"""The topic was made again since: the ledger is in its new log."""
POSITION = Position(3013, ((0, 0),), NEW)


def topic(topic_id: UUID) -> Topic:
    return Topic("orders", topic_id, 4, 1)


def test_it_goes_on_in_the_log_of_the_position_which_the_plan_may_not_know() -> None:
    assert start_again(PLANNED, topic(NEW), POSITION, None) == Assigned(WHERE, 3013, ((0, 0),), NEW)


def test_a_topic_that_is_not_there_now_was_not_made_again() -> None:
    """To compare with the plan's log would begin the new one again from 0."""
    assert start_again(PLANNED, None, POSITION, None) == Assigned(WHERE, 3013, ((0, 0),), NEW)


def test_a_log_that_is_newer_than_the_position_begins_at_0_behind_a_gap() -> None:
    begun = start_again(PLANNED, topic(NEWEST), POSITION, None)
    assert (begun.offset, begun.topic_id, begun.restarted_from) == (0, NEWEST, POSITION)


def test_without_a_position_it_is_as_planned_and_an_unknown_one_is_held() -> None:
    assert start_again(PLANNED, topic(NEW), None, None) == PLANNED
    assert start_again(PLANNED, topic(NEW), POSITION, "unreadable").unknown == "unreadable"


class Woken:
    """An `Admin` whose first answer came from a broker that had stood still."""

    def __init__(self, then: UUID | None) -> None:
        self._then = then
        self.asked: list[str] = []

    def list_topics(self, names: Collection[str]) -> dict[str, Topic]:
        self.asked += names
        return {name: topic(self._then) for name in names if self._then is not None}


def shows(topic_id: UUID | None) -> ClusterView:
    return ClusterView(topic_ids={} if topic_id is None else {"orders": topic_id})


@pytest.mark.parametrize(("then", "begun"), [(NEW, 3013), (NEWEST, 0), (OLD, 0), (None, 0)])
def test_an_id_that_is_not_the_positions_is_believed_when_it_is_shown_twice(
    then: UUID | None, begun: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    began = clock.now
    monkeypatch.setattr(starts, "_views", lambda *_: [shows(then), ClusterView()])
    admin, first = Woken(then), {"orders": topic(OLD)}
    topics = confirm_ids(cast(Admin, admin), first, {WHERE: POSITION}, clock)
    assert start_again(PLANNED, topics["orders"], POSITION, None).offset == begun
    assert (admin.asked, clock.now) == (["orders"], began + ANOTHER_ID_SECONDS)


@pytest.mark.parametrize(
    ("views", "counts"),
    [((OLD, NEW, NEW), NEW), ((OLD, NEW), NEW), ((NEWEST, NEWEST, NEW), NEWEST), ((OLD, OLD), OLD), ((), OLD)],
)
def test_a_server_that_is_cut_off_from_the_others_makes_no_topic_another_one(
    views: Collection[UUID], counts: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shows the former id however often it is asked: the topic would be mirrored again from its beginning."""
    monkeypatch.setattr(starts, "_views", lambda *_: [shows(one) for one in views])
    topics = confirm_ids(cast(Admin, Woken(OLD)), {"orders": topic(OLD)}, {WHERE: POSITION}, ManualClock())
    assert topics["orders"].topic_id == counts


def test_no_topic_is_asked_for_again_whose_id_is_its_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    admin, first = Woken(None), {"orders": topic(NEW)}
    assert confirm_ids(cast(Admin, admin), first, {WHERE: POSITION, TopicPartition("gone", 0): POSITION}) is first
    assert admin.asked == []


KEPT, OTHER = TopicPartition("ledger", 0), TopicPartition("orders", 0)
SINCE_MS = 1_795_172_400_000
KEEPS_SOME = ("preserve.offsets.enabled = true", "preserve.offsets.topics = led.*, audit")


class Log:
    """An `Admin` of a source whose logs go from 100 to 900; the records since any time begin at 500."""

    alias = "A"

    def list_topics(self, names: Collection[str]) -> dict[str, Topic]:
        return {name: Topic(name, NEW, 1, 1) for name in names}

    def earliest_offsets(self, partitions: Collection[TopicPartition]) -> LogOffsets:
        return LogOffsets("A", dict.fromkeys(partitions, 100))

    def latest_offsets(self, partitions: Collection[TopicPartition]) -> LogOffsets:
        return LogOffsets("A", dict.fromkeys(partitions, 900))

    def offsets_at(self, partitions: Collection[TopicPartition], at_ms: int) -> LogOffsets:
        assert at_ms == SINCE_MS
        return LogOffsets("A", dict.fromkeys(partitions, 500))


@pytest.mark.parametrize(("start", "kept"), [("latest", 900), ("2026-11-20T11:00", 500), ("earliest", 100), ("", 100)])
def test_topics_whose_offsets_are_kept_begin_by_their_own_setting_and_the_others_by_the_consumers(
    start: str, kept: int
) -> None:
    flow = flow_of(*KEEPS_SOME, f"preserve.offsets.start = {start}")
    found = first_offsets(flow, cast(Admin, Log()), [KEPT, OTHER], all_of_them=True)
    assert found == {KEPT: kept, OTHER: 100}
    later = flow_of(*KEEPS_SOME, f"preserve.offsets.start = {start}", "A.consumer.auto.offset.reset = latest")
    found = first_offsets(later, cast(Admin, Log()), [KEPT, OTHER], all_of_them=False)
    assert found == {KEPT: kept if start else 900, OTHER: 900}


def test_only_the_logs_of_topics_whose_offsets_are_kept_are_looked_for_on_the_target(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class KeptStarts:
        def __init__(self, *_: object, is_patient: bool, notes: object) -> None:
            assert is_patient

        def settle(self, items: Sequence[Assigned], _: Mapping[str, Topic]) -> list[Assigned]:
            return [Assigned(item.partition, 7, append=Append(1, 7, "A.kept")) for item in items]

    monkeypatch.setattr(starts, "OffsetStarts", KeptStarts)
    ledger = cast(LedgerReader, SimpleNamespace(view=LedgerView(Connector.of_dedicated_mode("A"))))
    clusters = cast(Admin, Log()), cast(Admin, Log()), ledger
    items = [Assigned(KEPT, 100), Assigned(OTHER, 100)]
    flow = flow_of(*KEEPS_SOME)

    def settle() -> dict[TopicPartition, tuple[int, Append | None]]:
        begun = settle_starts(flow, clusters, {}, items, all_of_them=True)
        return {item.partition: (item.offset, item.append) for item in begun}

    assert settle() == {KEPT: (7, Append(1, 7, "A.kept")), OTHER: (100, None)}
    for topic_id, start in ((OLD, (7, Append(1, 7, "A.kept"))), (NEW, (100, None))):
        accepted = encode_accepted(Accepted(90, topic_id))
        ledger.view.take_ours(accepted_key("A", KEPT), accepted)
        assert settle()[KEPT] == start, "it is accepted of the topic that is there now that its logs part"
    ledger.view.take_ours(accepted_key("A", KEPT), None)
    assert settle()[KEPT] == (7, Append(1, 7, "A.kept"))
