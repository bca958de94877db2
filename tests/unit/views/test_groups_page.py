"""The page of `sparkmirror groups`."""

from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.views.groups_page import GroupLine, GroupPlace, render_groups
from sparkmirror.views.table import page_lines


def place_of(topic: str, translated: int | None, *, exact: bool, is_identical: bool | None) -> GroupPlace:
    where, remote = TopicPartition(topic, 0), TopicPartition(f"A.{topic}", 0)
    return GroupPlace(where, remote, 77, 80, translated, exact, None, 70, 80, is_identical)


def test_it_says_where_offsets_are_identical_and_which_places_may_lie_before() -> None:
    places = (
        place_of("kept", 77, exact=True, is_identical=True),
        place_of("ahead", 75, exact=False, is_identical=True),
        place_of("other", 31, exact=True, is_identical=False),
    )
    line = GroupLine("readers", "Empty", "", places)
    head, *rows = page_lines(render_groups(FlowName("A", "B"), [line], 0, whole=True))
    assert head == "A->B: 1 group, offsets are identical in 2 partitions"
    shown = {row.split()[1]: row for row in rows if row.split()[1].endswith("-0")}
    assert "77 (identical)" in shown["kept-0"] and "75 (not beyond)" in shown["ahead-0"]
    assert "31  " in shown["other-0"] and "(" not in shown["other-0"]
    assert [one["identical_offsets"] for one in line.as_json()["partitions"]] == [True, True, False]


def test_a_place_of_which_nobody_knows_whether_offsets_are_identical_is_not_marked() -> None:
    unclear = place_of("unclear", 77, exact=True, is_identical=None)
    line = GroupLine("readers", "Empty", "", (unclear, place_of("kept", 77, exact=True, is_identical=True)))
    head, *rows = page_lines(render_groups(FlowName("A", "B"), [line], 0, whole=True))
    assert head == "A->B: 1 group, offsets are identical in 1 partition (of 1 it is not known)"
    assert sum("77 (identical)" in row for row in rows) == 1
    assert line.as_json()["partitions"][0]["identical_offsets"] is None


def test_without_kept_offsets_nothing_is_said_of_them() -> None:
    line = GroupLine("readers", "Empty", "", (place_of("other", 31, exact=True, is_identical=False),))
    assert page_lines(render_groups(FlowName("A", "B"), [line, line], 0, whole=False))[0] == "A->B: 2 groups"
