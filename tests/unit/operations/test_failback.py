"""The way back: what only the old primary has, where groups return to, where the reverse flow starts."""

from dataclasses import replace
from uuid import UUID

from sparkmirror.cli.procedure import render_divergence, render_home
from sparkmirror.kafka.group_answers import Committed
from sparkmirror.kafka.tail import TailRecord
from sparkmirror.ledger.committed_end import CommittedEnd
from sparkmirror.ledger.lineage import Extent
from sparkmirror.ledger.map_records import ChunkName, MapView, encode_chunk, encode_key
from sparkmirror.ledger.offset_map import OffsetMap
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.model import Position, TopicPartition
from sparkmirror.operations.failback import (
    Divergence,
    mirrored_end,
    plan_divergence,
    plan_home,
    plan_home_moves,
    plan_interleaved,
    plan_reverse_start,
    plan_unmapped,
)
from sparkmirror.views.table import page_lines

ORDERS, REMOTE = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
HOME = {REMOTE: ORDERS}
OLD, NEW = UUID(int=1), UUID(int=2)
LOGS = {where: Extent(where.topic, OLD, 1000) for where in (REMOTE, ORDERS)}
ENDS = {ORDERS: 1000}


def maps(*spans: tuple[int, int, int]) -> MapView:
    found = OffsetMap(spans[0][0], OLD)
    for span in spans:
        found.append(*span)
    view = MapView("A")
    view.take(encode_key("A", ORDERS, ChunkName(1, 1, 1)), encode_chunk(found.as_chunk()))
    return view


def test_what_only_the_old_primary_has_begins_at_the_ledger_or_the_logs_start() -> None:
    other = TopicPartition("orders", 1)
    found = plan_divergence({ORDERS: 200, other: 7}, {ORDERS: 0, other: 0}, {ORDERS: 230, other: 7})
    assert found == (Divergence(ORDERS, 200, 230),)
    assert render_divergence("A", found) == ["30 records are on A only:", "  orders-0: from 200 to 230, 30 records"]
    assert plan_divergence({}, {ORDERS: 50}, {ORDERS: 60}) == (Divergence(ORDERS, 50, 60),)
    assert render_divergence("A", ()) == ["A has nothing that was not mirrored"]


def test_a_group_returns_behind_what_it_read_and_only_forward() -> None:
    committed = {"g": {REMOTE: Committed(149, "note"), TopicPartition("own", 0): Committed(3)}}
    (place,) = plan_home(committed, HOME, maps((0, 100, 0), (101, 100, 100)), LOGS, ENDS)
    assert (place.home, place.offset, place.exact) == (ORDERS, 150, True)
    assert plan_home_moves([place], {}, frozenset()) == {"g": {ORDERS: Committed(150, "note")}}
    assert plan_home_moves([place], {"g": {ORDERS: Committed(150)}}, frozenset()) == {}
    assert plan_home_moves([place], {}, frozenset({"g"})) == {}, "its members are home already"
    assert "149" in page_lines(render_home("B", [place]))[1]


def test_a_group_that_nobody_can_translate_is_left_and_shown() -> None:
    (place,) = plan_home({"g": {REMOTE: Committed(5)}}, HOME, MapView("A"), LOGS, ENDS)
    assert place.offset is None
    assert plan_home_moves([place], {}, frozenset()) == {}
    assert "none" in page_lines(render_home("B", [place]))[1]


def test_the_reverse_flow_starts_behind_what_came_from_the_old_primary_if_names_do_not_tell() -> None:
    same = {ORDERS: ORDERS}
    assert plan_reverse_start(same, maps((0, 100, 0)), LOGS, names_stay=True) == {ORDERS: 100}
    assert plan_reverse_start(HOME, maps((0, 100, 0)), LOGS, names_stay=False) == {}
    assert plan_reverse_start(same, MapView("A"), LOGS, names_stay=True) == {}


def test_without_a_map_the_reverse_flow_starts_behind_what_the_ledger_says_was_written() -> None:
    same = {ORDERS: ORDERS}

    def start(record: PositionRecord | None, stored: int = 100, view: MapView | None = None, end: int = 1000) -> object:
        records = {} if record is None else {ORDERS: record}
        logs = {ORDERS: Extent("orders", OLD, end)}
        return plan_unmapped(same, view or MapView("A"), {ORDERS: stored}, records, logs).get(ORDERS, "nothing")

    written = PositionRecord(Position(100), 1, 0, extent=Extent("orders", OLD, 120))
    assert start(written) == 120
    assert start(written, end=60) == 60, "the log was cut"
    assert start(replace(written, extent=Extent("orders", NEW, 120))) == "nothing", "the topic was made again"
    assert start(replace(written, extent=None)) == "nothing", "it has begun at the end of the source's log"
    assert start(written, view=maps((0, 100, 0))) == "nothing", "the map tells"
    assert start(None, stored=0) == start(None, end=0) == "nothing"
    committed = replace(written, committed_end=CommittedEnd(1, 0, 100))
    assert start(committed) is start(replace(committed, extent=None)) is None, "its transaction may have written more"
    assert start(committed, end=120) == 120, "there is no more"
    assert start(replace(committed, extent=Extent("orders", NEW, 120))) == "nothing", "the topic was made again"
    assert start(None) is None, "MirrorMaker's position"
    assert start(written, stored=101) is None, "a MirrorMaker has mirrored since"


def test_a_map_of_a_log_that_is_no_more_sends_nobody_anywhere() -> None:
    known, committed = maps((0, 100, 0)), {"g": {REMOTE: Committed(40)}}
    again = {where: Extent(where.topic, NEW, 1000) for where in (REMOTE, ORDERS)}
    cut = {where: Extent(where.topic, OLD, 60) for where in (REMOTE, ORDERS)}
    assert [plan_home(committed, HOME, known, logs, ENDS)[0].offset for logs in (LOGS, again, {})] == [40, None, None]
    assert plan_home(committed, HOME, known, LOGS, {ORDERS: 30})[0].offset == 30
    assert plan_home(committed, HOME, known, LOGS, {})[0].offset is None
    same = {ORDERS: ORDERS}
    starts = [plan_reverse_start(same, known, logs, names_stay=True) for logs in (LOGS, again, cut)]
    assert starts == [{ORDERS: 100}, {}, {ORDERS: 60}]


def test_records_that_others_wrote_in_between_are_counted_since_the_reverse_flow_leaves_them_out() -> None:
    same = {ORDERS: ORDERS}
    assert plan_interleaved(same, maps((0, 100, 0), (100, 50, 107)), names_stay=True) == {ORDERS: 7}
    assert plan_interleaved(same, maps((0, 100, 0)), names_stay=True) == {}
    assert plan_interleaved(HOME, maps((0, 100, 0), (100, 50, 107)), names_stay=False) == {}


def test_behind_the_end_of_a_map_the_mirrored_records_are_found_by_their_content() -> None:
    def log(first: int, *values: str) -> list[TailRecord]:
        return [TailRecord(ORDERS, first + n, 7, b"k", value.encode()) for n, value in enumerate(values)]

    missing = log(40, "a", "b", "c")
    assert mirrored_end(missing, log(100, "a", "b", "c", "of others")) == 103
    assert mirrored_end(missing, log(100, "of others", "a", "c", "of others")) == 103, "one is left out by a filter"
    assert mirrored_end(missing, log(100, "of others")) == -1
    assert mirrored_end(missing, log(100, "c", "a")) == 101
    assert mirrored_end([], log(100, "a")) == -1
