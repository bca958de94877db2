"""What a failover is said to mean: losses, and what each group would read again."""

from collections.abc import Mapping
from dataclasses import replace

from sparkmirror.cli.procedure import render_readiness
from sparkmirror.kafka.group_answers import Committed
from sparkmirror.ledger.lineage import Extent
from sparkmirror.ledger.map_records import ChunkName, MapView, encode_chunk, encode_key
from sparkmirror.ledger.mirror_records import Checkpoint
from sparkmirror.ledger.offset_map import OffsetMap
from sparkmirror.ledger.translate import Translated, Translator
from sparkmirror.model import NO_TOPIC_ID, FlowName, TopicPartition
from sparkmirror.operations.failover import (
    IN_STEP,
    GroupPlace,
    Readiness,
    Resume,
    name_beyond,
    plan_behind,
    plan_places,
    plan_places_without_source,
)
from sparkmirror.policy.naming import DefaultReplicationPolicy
from sparkmirror.views.table import page_lines

FLOW = FlowName("A", "B")
ORDERS, REMOTE = TopicPartition("orders", 0), TopicPartition("A.orders", 0)


def maps(*spans: tuple[int, int, int]) -> MapView:
    """Of the partition: (first source offset, records, first target offset) of each stretch."""
    found = OffsetMap(spans[0][0])
    for span in spans:
        found.append(*span)
    view = MapView("A")
    view.take(encode_key("A", ORDERS, ChunkName(1, 1, 1)), encode_chunk(found.as_chunk()))
    return view


def place(
    committed: int,
    *,
    stands: int | None = None,
    checkpoint: int | None = None,
    known: MapView | None = None,
    active: bool = False,
    end: int = 10_000,
) -> GroupPlace:
    view = known or maps((0, 100, 0), (101, 100, 100))
    translate = Translator(FLOW, DefaultReplicationPolicy(), view).translate
    checkpoints = {} if checkpoint is None else {("g", REMOTE): Checkpoint("g", REMOTE, 150, checkpoint)}
    on_target: Mapping[str, Mapping[TopicPartition, Committed]] = (
        {} if stands is None else {"g": {REMOTE: Committed(stands)}}
    )
    at_work = frozenset({"g"} if active else ())
    on_source, remote = {"g": {ORDERS: Committed(committed, "note")}}, {ORDERS: REMOTE}
    logs = {REMOTE: Extent(REMOTE.topic, NO_TOPIC_ID, end)}
    (found,) = plan_places(on_source, checkpoints, on_target, at_work, view, translate, remote, logs)
    return found


def again(found: GroupPlace) -> tuple[int | None, int | None]:
    return found.repeats(planned=True), found.repeats(planned=False)


def test_a_last_translation_is_exact_and_a_checkpoint_is_as_old_as_it_is() -> None:
    found = place(151, stands=30, checkpoint=99)
    assert (found.planned and found.planned.offset, found.lost and found.lost.offset) == (150, 99)
    assert again(found) == (0, 51), "offsets 99 and 101 to 150 of the source: the marker at 100 is no record"


def test_a_group_that_stands_further_than_its_checkpoint_is_left_there() -> None:
    assert again(place(150, stands=120, checkpoint=99)) == (0, 29)


def test_nothing_is_planned_beyond_the_end_of_a_log_that_was_made_again() -> None:
    found = place(151, stands=120, checkpoint=150, end=60)
    assert (found.planned, found.lost) == (Resume(60, 90, True), Resume(60, 90, True))
    ready = Readiness(FLOW, True, (), (found,))
    assert ready.moves(planned=True) == {}, "where it stands is not ours to take back"
    assert name_beyond((found,), {REMOTE: Extent(REMOTE.topic, NO_TOPIC_ID, 60)}) == (
        "group g stands at 120 of A.orders-0, whose log ends at 60: set it by `sparkmirror offsets reset`",
    )
    assert name_beyond((place(151, stands=60, end=60),), {REMOTE: Extent(REMOTE.topic, NO_TOPIC_ID, 60)}) == ()


def test_a_group_without_checkpoint_or_offset_would_begin_by_its_own_reset() -> None:
    found = place(150)
    assert found.lost is None
    assert again(found) == (0, None)


def test_what_is_not_mirrored_yet_is_not_read_again() -> None:
    assert again(place(500, stands=200)) == (0, 0), "the map ends at 200"
    assert again(place(500, stands=190)) == (0, 10)


def test_a_group_at_work_on_the_target_stays_where_it_is() -> None:
    found = place(150, stands=20, checkpoint=99, active=True)
    assert again(found) == (129, 129)
    assert Readiness(FLOW, True, (), (found,), active_on_target=frozenset({"g"})).moves(planned=True) == {}


def test_where_the_map_is_coarse_the_figure_is_an_upper_bound() -> None:
    coarse = OffsetMap(0)
    for at in range(0, 500, 50):
        coarse.append(at, 45, at // 50 * 45)
    coarse.shrink(2)
    view = MapView("A")
    view.take(encode_key("A", ORDERS, ChunkName(1, 1, 1)), encode_chunk(coarse.as_chunk()))
    found = place(47, known=view)
    assert found.planned is not None
    assert not found.planned.certain
    assert found.planned.repeats is not None and found.planned.repeats >= 43 - found.planned.offset


def test_groups_move_forward_only_and_keep_their_note() -> None:
    ready = Readiness(FLOW, True, (), (place(150, stands=30, checkpoint=99),))
    assert ready.moves(planned=True) == {"g": {REMOTE: Committed(149, "note")}}
    assert ready.moves(planned=False) == {"g": {REMOTE: Committed(99, "note")}}
    assert Readiness(FLOW, True, (), (place(20, stands=30),)).moves(planned=True) == {}


def test_without_the_source_checkpoints_decide_and_nobody_knows_what_comes_again() -> None:
    checkpoint = Checkpoint("g", REMOTE, 100, 99, "note")
    upstream = {REMOTE: ORDERS}
    logs = {REMOTE: Extent(REMOTE.topic, NO_TOPIC_ID, 200)}
    (found,) = plan_places_without_source({("g", REMOTE): checkpoint}, {}, frozenset(), upstream, lambda *_: None, logs)
    ready = Readiness(FLOW, False, (), (found,), heard_seconds=12.0)
    assert ready.moves(planned=False) == {"g": {REMOTE: Committed(99, "note")}}
    assert (ready.repeats("g", planned=False), ready.records_behind(), ready.seconds_behind()) == (None, None, None)
    page = "\n".join(page_lines(render_readiness(ready)))
    assert "cluster A does not answer" in page and "12 s ago" in page and "unknown" in page


def test_a_checkpoint_of_a_topic_that_keeps_its_offsets_counts_with_a_translation_alone() -> None:
    """Its topic may have been made again on the target since."""
    checkpoints, logs = (
        {("g", REMOTE): Checkpoint("g", REMOTE, 100, 99, "")},
        {REMOTE: Extent("A.orders", NO_TOPIC_ID, 200)},
    )
    for keeps, resumes in ((lambda _: True, None), (lambda _: False, 99)):
        (found,) = plan_places_without_source(
            checkpoints, {}, frozenset(), {REMOTE: ORDERS}, lambda *_: None, logs, keeps
        )
        assert (None if found.lost is None else found.lost.offset) == resumes


def test_losses_are_counted_from_the_ledger_or_the_logs_start() -> None:
    other, third = TopicPartition("orders", 1), TopicPartition("orders", 2)
    found = plan_behind({ORDERS: 70, third: 10}, {other: 5}, {ORDERS: 100, other: 25, third: 10}, {ORDERS: 3.5})
    ready = Readiness(FLOW, True, found, ())
    assert (ready.records_behind(), ready.seconds_behind()) == (50, 3.5)
    page = "\n".join(page_lines(render_readiness(ready)))
    assert "50 records would be lost if A is gone, the oldest 3.5 s old" in page
    assert "orders-1: from 5 to 25, 20 records" in page


def test_what_a_silent_leader_has_is_unknown_and_never_nothing() -> None:
    reason = "its leader, broker 3 (c:9092), does not answer"
    nothing = Readiness(FLOW, True, (), (), unknown={ORDERS: reason})
    assert (nothing.records_behind(), nothing.seconds_behind()) == (None, None)
    assert nothing.as_json()["unknown"] == [{"topic": "orders", "partition": 0, "reason": reason}]
    page = "\n".join(page_lines(render_readiness(nothing)))
    assert f"orders-0: {reason}" in page and "nothing would be lost" not in page

    some = Readiness(
        FLOW, True, plan_behind({}, {}, {TopicPartition("orders", 1): 20}, {}), (), unknown={ORDERS: reason}
    )
    page = "\n".join(page_lines(render_readiness(some)))
    assert "of the others 20 records would be lost" in page and some.records_behind() is None


def test_the_page_and_the_json_carry_the_same_figures() -> None:
    found = place(150, stands=30, checkpoint=99)
    ready = Readiness(FLOW, True, (), (found,), frozenset({"g"}), frozenset(), ("create A.new",))
    row = page_lines(render_readiness(ready))[3].split()
    assert row == ["g", "A", "0", "50"]
    about = ready.as_json()["groups"]["g"]
    assert (about["active_on_source"], about["repeats_planned"], about["repeats_source_lost"]) == (True, 0, 50)
    assert "create A.new" in "\n".join(page_lines(render_readiness(ready)))


def test_a_partition_of_which_nothing_was_read_spoils_no_figure() -> None:
    empty, unknown = place(0, known=MapView("A")), place(7, known=MapView("A"))
    assert (again(empty), again(unknown)) == ((0, 0), (None, None))
    ready = Readiness(FLOW, True, (), (empty, place(150, stands=140)))
    assert (ready.repeats("g", planned=True), ready.untranslated) == (0, ())
    assert Readiness(FLOW, True, (), (empty, unknown)).untranslated == (unknown,)


def test_a_group_that_read_what_came_from_the_target_goes_on_at_the_original() -> None:
    there, home = TopicPartition("B.orders", 0), TopicPartition("orders", 0)

    def resumed(*, exact: bool, stands: int) -> GroupPlace:
        (found,) = plan_places(
            {"g": {there: Committed(40)}}, {}, {"g": {home: Committed(stands)}}, frozenset(), MapView("A"),
            lambda *_: Translated(home, 35, exact), {there: home}, {home: Extent(home.topic, NO_TOPIC_ID, 100)},
        )  # fmt: skip
        return found

    assert (resumed(exact=True, stands=3).planned, resumed(exact=True, stands=3).lost) == (
        Resume(35, 0), Resume(3, None, certain=False)
    )  # fmt: skip
    assert resumed(exact=True, stands=50).planned == Resume(50, 0)
    assert resumed(exact=False, stands=3).planned == Resume(35, None, certain=False)


def test_in_step_is_said_of_nothing_that_was_not_compared() -> None:
    """After the last step nothing is compared; and a flow may copy no ACLs."""
    ready = Readiness(FLOW, True, (), ())
    assert "in step" not in "\n".join(page_lines(render_readiness(ready)))
    assert ready.as_json()["in_step"] is None
    some = replace(ready, compared=("topics", "settings"))
    said = "topics and settings are in step; ACLs are not copied, and were not compared"
    assert said in "\n".join(page_lines(render_readiness(some))) and some.as_json()["in_step"] == said
    assert replace(ready, compared=IN_STEP).in_step == "topics, settings and ACLs are in step"
    assert replace(ready, compared=IN_STEP, differences=("create A.new",)).in_step == ""
