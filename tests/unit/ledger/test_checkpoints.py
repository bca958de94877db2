"""Which checkpoints and group offsets are written: MirrorMaker's rules where they are sound."""

from collections.abc import Collection
from dataclasses import replace
from uuid import UUID

import pytest

from sparkmirror.kafka.group_answers import Committed, GroupOffsets
from sparkmirror.ledger.checkpoints import (
    Checkpoints,
    GroupWrite,
    Origins,
    Places,
    Renewal,
    forget_places,
    may_move,
    note_origins,
    note_place,
    plan_checkpoints,
    plan_group_writes,
    plan_renewals,
    plan_take_back,
    translate_groups,
)
from sparkmirror.ledger.lineage import Extent
from sparkmirror.ledger.mirror_records import Checkpoint
from sparkmirror.ledger.offset_map import OffsetMap
from sparkmirror.ledger.translate import MapBegin, Translated, Translator
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.policy.naming import DefaultReplicationPolicy

ORDERS, REMOTE = TopicPartition("orders", 0), TopicPartition("A.orders", 0)


OLD, NEW = UUID(int=1), UUID(int=2)
KEY = ("g", REMOTE)


def planned(
    offset: int,
    downstream: int | None,
    last: Checkpoint | None = None,
    note: str = "",
    *,
    exact: bool = False,
    end: int | None = 10_000,
) -> list[Checkpoint]:
    before: Checkpoints = {KEY: last} if last else {}
    answer = None if downstream is None else Translated(REMOTE, downstream, exact)
    reached = translate_groups({"g": {ORDERS: Committed(offset, note)}}, lambda *_: answer)
    logs = {} if end is None else {REMOTE: Extent(REMOTE.topic, OLD, end)}
    plan = plan_checkpoints(reached, before, logs, {})
    assert not plan or may_move(KEY, reached[KEY], before), "what is written is looked at first"
    return plan


def checkpoint(upstream: int, downstream: int, note: str = "") -> Checkpoint:
    return Checkpoint("g", REMOTE, upstream, downstream, note)


def test_the_first_checkpoint_carries_the_groups_note() -> None:
    """`MirrorCheckpointTaskTest.testCheckpoint`."""
    assert planned(150, 101, note="by me") == [checkpoint(150, 101, "by me")]


def test_without_a_translation_or_an_offset_there_is_none() -> None:
    """`testNoCheckpointForTopicWithoutOffsetSyncs`, `…WithNullOffsetAndMetadata`."""
    assert planned(150, None) == []
    assert planned(-1, 101) == []


def test_checkpoints_go_forward_unless_the_group_itself_went_back() -> None:
    """`testCheckpointRecordsMonotonicIfStoreRewinds`."""
    last = checkpoint(400, 376)
    assert planned(400, 376, last) == []
    assert planned(450, 376, last) == [], "the translation did not move"
    assert planned(450, 300, last) == [], "less is known than before"
    assert planned(450, 401, last) == [checkpoint(450, 401)]
    assert planned(250, 201, last) == [checkpoint(250, 201)], "a rewind on the source"


def test_a_group_that_stands_still_gets_no_checkpoint_for_a_marker_behind_what_it_has_read() -> None:
    """With exactly-once: at first 13 translates to the log's end, 13; then to 14, where the next transaction begins."""
    found = OffsetMap(0)
    found.append(0, 13, 0)
    translator = Translator(FlowName("A", "B"), DefaultReplicationPolicy(), OneMap(found))  # type: ignore[arg-type]

    def plan(offset: int, before: Checkpoint | None) -> list[Checkpoint]:
        reached = translate_groups({"g": {ORDERS: Committed(offset, "")}}, translator.translate)
        last: Checkpoints = {KEY: before} if before else {}
        return plan_checkpoints(reached, last, {REMOTE: Extent(REMOTE.topic, OLD, 10_000)}, {})

    (first,) = plan(13, None)
    assert (first.upstream, first.downstream) == (13, 13)
    found.append(13, 7, 14)
    assert translator.translate(ORDERS, 13) == Translated(REMOTE, 14, True)
    assert plan(13, first) == [], "nothing but the marker lies between"
    (moved,) = plan(14, first)
    assert (moved.upstream, moved.downstream) == (14, 15)
    assert plan(13, checkpoint(13, 7)) == [checkpoint(13, 14)], "less was known then: records lie between"


class OneMap:
    """The maps of a flow with one partition."""

    def __init__(self, found: OffsetMap) -> None:
        self._found = found

    def map_of(self, _: TopicPartition) -> OffsetMap:
        return self._found


def test_what_was_published_before_a_restart_counts() -> None:
    """`testCheckpointsTaskRestartUsesExistingCheckpoints`."""
    last = checkpoint(200, 201)
    assert planned(250, 176, last) == []
    assert planned(370, 176, last) == []
    assert planned(400, 376, last) == [checkpoint(400, 376)]


def writes(on_target: GroupOffsets | None, *, active: bool = False) -> list[GroupWrite]:
    return plan_group_writes(
        {"g": {REMOTE: checkpoint(100, 101, "note")}},
        frozenset({"g"} if active else ()),
        {} if on_target is None else {"g": on_target},
    )


def test_a_group_moves_forward_and_only_forward() -> None:
    """`testSyncOffset`; the same for a group that does not exist yet."""
    forward = [GroupWrite("g", {REMOTE: Committed(101, "note")})]
    assert writes({}) == forward
    assert writes({REMOTE: Committed(100)}) == forward
    assert writes({REMOTE: Committed(-1)}) == forward
    assert writes({REMOTE: Committed(101)}) == []
    assert writes({REMOTE: Committed(500)}) == []
    assert writes({TopicPartition("A.orders", 1): Committed(500)}) == forward


def test_an_active_group_and_one_that_could_not_be_read_are_left_alone() -> None:
    assert writes({}, active=True) == []
    assert writes(None) == []


def test_nothing_is_written_beyond_a_log_s_end_or_for_a_log_that_is_not_known() -> None:
    assert planned(150, 101, end=60) == [checkpoint(150, 60)]
    assert planned(150, 101, end=None) == []


def renewed(
    last: Checkpoint,
    now: Translated | None,
    log: Extent | None,
    *,
    reached: tuple[int, Translated] | None = None,
    source: TopicPartition | None = ORDERS,
    remade: Collection[TopicPartition] = (),
    places: Places | None = None,
    origins: Origins | None = None,
) -> list[Renewal]:
    """`now` is what the checkpoint's source offset translates to, `reached` the group's offset with its translation."""
    offsets = {} if reached is None else {"g": {ORDERS: Committed(reached[0], "new")}}

    def translate(_: TopicPartition, offset: int) -> Translated | None:
        return reached[1] if reached is not None and offset == reached[0] else now

    logs = {} if log is None else {REMOTE: log}
    reached_now = translate_groups(offsets, translate)
    known = reached_now, {KEY: last}, logs, translate, lambda _: source, remade
    return list(plan_renewals(*known, places=places or {}, origins=origins or {}).values())


EMPTY, SHORT, LONG = (Extent(REMOTE.topic, NEW, end) for end in (0, 100, 9_000))


@pytest.mark.parametrize(
    ("now", "log", "downstream"),
    [
        (Translated(REMOTE, 4000, True, OLD), EMPTY, 0),
        (Translated(REMOTE, 4000, True, OLD), SHORT, 0),
        (Translated(REMOTE, 4000, True, OLD), LONG, 0),
        (Translated(REMOTE, 0, True, NEW), SHORT, 0),
        (Translated(REMOTE, 0, True, NEW), LONG, 0),
        (Translated(REMOTE, 4000, True, NEW), SHORT, 100),
        (Translated(REMOTE, 4000, True), SHORT, 100),
        (Translated(REMOTE, 3000, False, NEW, at_most=3999), LONG, 3000),
        (None, SHORT, 0),
    ],
)
def test_a_checkpoint_of_a_log_that_is_no_more_is_renewed(now: Translated | None, log: Extent, downstream: int) -> None:
    """Made again, whatever its length by now and whether the map knows it yet; or cut."""
    last = checkpoint(4000, 4000, "note")
    assert renewed(last, now, log) == [Renewal(last, checkpoint(4000, downstream, "note"), log.end)]


def test_one_that_holds_is_not_or_of_which_nothing_is_known() -> None:
    last = checkpoint(4000, 4000)
    assert renewed(last, Translated(REMOTE, 4000, True, NEW), LONG) == []
    assert renewed(last, Translated(REMOTE, 3000, False, NEW), LONG) == [], "less is known than before"
    assert renewed(last, Translated(REMOTE, 3000, False, NEW, at_most=4000), LONG) == []
    assert renewed(last, None, LONG) == []
    assert renewed(last, Translated(REMOTE, 4000, True, OLD), None) == [], "the target does not say"


def test_the_group_s_present_place_is_taken_where_it_is_known() -> None:
    last, lower = checkpoint(4000, 4000), Translated(REMOTE, 0, True, NEW)
    (found,) = renewed(last, lower, LONG, reached=(4020, Translated(REMOTE, 20, True, NEW)))
    assert found.after == checkpoint(4020, 20, "new")
    assert renewed(last, lower, LONG, reached=(9000, Translated(REMOTE, 5000, True, NEW))) == [], "it goes forward"
    assert renewed(last, None, SHORT, source=None)[0].after.downstream == 0


def test_a_place_behind_a_checkpoint_s_that_translates_to_before_it_renews_it() -> None:
    """Of the checkpoint's own place the map has nothing left: the log was cut, and has grown again."""
    last, now = checkpoint(5, 5), Translated(REMOTE, 2, True, NEW)
    assert renewed(last, None, LONG, reached=(15, now)) == [Renewal(last, checkpoint(15, 2, "new"), LONG.end)]
    assert renewed(last, None, LONG, reached=(15, Translated(REMOTE, 2, False, NEW))) == [], "less may be known"
    assert renewed(last, None, LONG, reached=(4, now)) == [], "the group went back by itself"


def test_a_checkpoint_beyond_the_beginning_of_the_next_topics_map_is_of_a_log_that_was_cut() -> None:
    """The source's topic was made again, and the target's log was cut and has grown again, between two looks."""
    last, origins = checkpoint(88, 86, "note"), Origins()
    was = Translated(REMOTE, 86, True, NEW, begin=MapBegin(OLD, 0, 0))
    note_origins(origins, translate_groups({"g": {ORDERS: Committed(88)}}, lambda *_: was), [last])
    now = Translated(REMOTE, 79, False, NEW, begin=MapBegin(NEW, 0, 63))
    assert renewed(last, now, LONG, origins=origins) == [Renewal(last, checkpoint(0, 63, "note"), LONG.end)]
    reached = 17, replace(now, offset=66, exact=True)
    (found,) = renewed(last, now, LONG, reached=reached, origins=origins)
    assert found.after == checkpoint(17, 66, "new")
    behind = replace(now, begin=MapBegin(NEW, 0, 90))
    assert not renewed(last, behind, LONG, origins=origins), "the next topic's records lie behind what it has read"
    same = replace(now, begin=MapBegin(OLD, 0, 63))
    assert not renewed(last, same, LONG, origins=origins)
    assert not renewed(checkpoint(88, 86), now, LONG, origins=origins), "another process wrote this one"


def test_a_log_that_was_made_again_between_two_looks_has_no_former_checkpoint_however_long_it_is() -> None:
    last, now = checkpoint(4000, 4000), Translated(REMOTE, 4000, True, NEW)
    (found,) = renewed(last, now, LONG, remade=[REMOTE])
    assert found.after.downstream == 0, "its source may have been made again, too"
    (found,) = renewed(last, now, LONG, reached=(20, Translated(REMOTE, 20, True, NEW)), remade=[REMOTE])
    assert found.after == checkpoint(20, 20, "new")


def test_a_former_place_beyond_what_is_mirrored_is_no_place_where_offsets_are_kept() -> None:
    kept = Translated(REMOTE, 100, False, NEW, is_kept=True)
    (found,) = renewed(checkpoint(4000, 4000), kept, SHORT)
    assert found.after.downstream == 0


def test_only_what_this_mirror_committed_is_taken_back_and_only_from_idle_groups() -> None:
    renewal = Renewal(checkpoint(4000, 4000, "note"), checkpoint(4000, 0, "note"), 100)

    def taken(*committed: object, active: bool = False) -> tuple[list[GroupWrite], list[int]]:
        there = {"g": {REMOTE: Committed(*committed)} if committed else {}}  # type: ignore[arg-type]
        writes, held, left = plan_take_back([renewal], frozenset({"g"} if active else ()), there, {})
        assert held == ([renewal] if active else []), "its members may leave without a commit"
        return writes, [stands for _, stands in left]

    assert taken(4000, "note") == ([GroupWrite("g", {REMOTE: Committed(0, "note")})], [])
    assert taken(4000, "note", active=True) == ([], [4000])
    assert taken(4000, "its own") == ([], [4000])
    assert taken(4000, "note", 7) == ([], [4000]), "a consumer that says its leader epoch"
    assert taken(3999, "note") == ([], [3999])
    assert taken(60, "note") == ([], []), "within the log, by whomever"
    assert taken() == ([], [])
    assert plan_take_back([renewal], frozenset(), {}, {}) == ([], [], []), "a group that could not be read"


def test_a_log_that_ends_before_an_earlier_place_renews_a_checkpoint_that_lies_in_it() -> None:
    """The source's topic was made again, its group went on from the beginning, and then the target's log was cut."""
    places = Places()
    for at in (86, 13):
        note_place(places, checkpoint(at, at))
    reached = 16, Translated(REMOTE, 16, True, NEW)
    shorter = Extent(REMOTE.topic, NEW, 70)
    (found,) = renewed(checkpoint(13, 13), Translated(REMOTE, 13, True, NEW), shorter, reached=reached, places=places)
    assert found.after == checkpoint(16, 16, "new")
    (found,) = renewed(checkpoint(13, 13), None, shorter, places=places)
    assert found.after == checkpoint(13, 13), "it holds, whatever is known of it now"
    forget_places(places, KEY, 70)
    assert not renewed(checkpoint(13, 13), Translated(REMOTE, 13, True, NEW), shorter, reached=reached, places=places)


def test_what_a_checkpoint_before_the_last_put_is_taken_back_too() -> None:
    """The last one was written, and its commit had not been made when the log was cut."""
    renewal, places = Renewal(checkpoint(48, 48), checkpoint(48, 14), 17), Places()
    for at in (35, 48):
        note_place(places, checkpoint(at, at))

    def taken(offset: int) -> tuple[list[GroupWrite], list[int]]:
        writes, _, left = plan_take_back([renewal], frozenset(), {"g": {REMOTE: Committed(offset)}}, places)
        return writes, [stands for _, stands in left]

    assert taken(35) == ([GroupWrite("g", {REMOTE: Committed(14)})], [])
    assert taken(36) == ([], [36])
    there = {"g": {REMOTE: Committed(35)}}
    _, held, _ = plan_take_back([renewal], frozenset({"g"}), there, places)
    assert plan_take_back(held, frozenset(), there, {}).writes, "also once its place is forgotten"
    note_place(places, checkpoint(14, 14))
    assert taken(14) == ([], []), "where it belongs"
