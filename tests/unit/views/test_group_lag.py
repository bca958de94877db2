"""The lines of `sparkmirror lag`."""

from tests import examples

from sparkmirror.model import TopicPartition
from sparkmirror.views.group_lag import list_lags, render_lags
from sparkmirror.views.table import page_lines

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 10)


def test_a_line_for_each_partition_as_the_consumer_offset_checker_wrote_it() -> None:
    lags = list_lags("east", "mirror", {FIRST: 90, SECOND: 7}, {FIRST: 100, SECOND: 7})
    lines = page_lines(render_lags(lags))
    assert lines == [
        "Group   Topic   Pid  Offset  logSize  Lag",
        "mirror  orders  0    90      100      10",
        "mirror  orders  10   7       7        0",
    ]
    examples.check("mirrormaker1.md", "lag", "\n".join(lines))


def test_what_is_not_known_is_said_so_and_nothing_is_behind_by_less_than_none() -> None:
    lags = list_lags("east", "mirror", {FIRST: 9}, {FIRST: 3, SECOND: 5})
    assert [line.split()[3:] for line in page_lines(render_lags(lags))[1:]] == [
        ["9", "3", "0"],
        ["unknown", "5", "unknown"],
    ]
    assert [lag.as_json()["lag"] for lag in lags] == [0, None]


def test_where_offsets_are_kept_a_line_says_so() -> None:
    lags = list_lags(
        "west", "mirror", {FIRST: 9}, {FIRST: 9, SECOND: 5}, identical={SECOND: True, TopicPartition("other", 0): True}
    )
    assert page_lines(render_lags(lags))[-1] == "offsets are identical in 1 partition"
    assert [lag.as_json()["identical_offsets"] for lag in lags] == [False, True]


def test_where_nobody_knows_whether_offsets_are_identical_the_line_says_so() -> None:
    lags = list_lags("west", "mirror", {FIRST: 9}, {FIRST: 9, SECOND: 5}, identical={FIRST: None, SECOND: True})
    assert page_lines(render_lags(lags))[-1] == "offsets are identical in 1 partition (of 1 it is not known)"
    assert [lag.as_json()["identical_offsets"] for lag in lags] == [None, True]


def test_several_clusters_have_a_column_of_their_own() -> None:
    lags = [*list_lags("east", "g", {FIRST: 1}, {FIRST: 2}), *list_lags("west", "g", {FIRST: 3}, {FIRST: 3})]
    assert [line.split()[0] for line in page_lines(render_lags(lags))] == ["Cluster", "east", "west"]
