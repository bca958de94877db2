"""Whether the reverse flow can go on at the end of an old primary's logs, and where they part."""

import json
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest
from tests.flows import flow_of
from tests.unit.planning.test_log_comparison import data

from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.wire.batch_owners import OwnedBatch
from sparkmirror.ledger.lineage import Extent
from sparkmirror.ledger.positions import PositionRecord, decode_value
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import Connector, Position, Topic, TopicPartition
from sparkmirror.operations import kept_return, reverse_ledger
from sparkmirror.operations.kept_return import (
    Ends,
    KeptReturn,
    is_new_home,
    look_at_kept,
    offsets_to_compare,
    why_parted,
    why_unknown,
)
from sparkmirror.operations.reverse_start import KeepReverse
from sparkmirror.policy.fillers import Hole

HOME, AWAY = UUID(int=1), UUID(int=2)
ORDERS, PARTED = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.mark.parametrize(
    ("ends", "stored", "compared"),
    [
        (Ends(0, 5000, 0, 5300), 5000, Hole(4000, 5000)),
        (Ends(0, 5000, 0, 5300), 2000, Hole(1000, 5000)),
        (Ends(0, 5000, 0, 5300), None, Hole(0, 5000)),
        (Ends(0, 5000, 4990, 5300), 5000, Hole(4990, 5000)),
        (Ends(0, 5000, 0, 3000), 4000, Hole(2000, 3000)),
        (Ends(0, 3000, 0, 5000), 4000, Hole(2000, 3000)),
        (Ends(9000, 9000, 0, 8000), 100, Hole(8000, 8000)),
        (Ends(0, 0, 0, 10), 0, Hole(0, 0)),
    ],
)
def test_what_the_ledger_does_not_vouch_for_is_compared_and_a_little_more(
    ends: Ends, stored: int | None, compared: Hole
) -> None:
    assert offsets_to_compare(ends, stored) == compared


def test_logs_part_at_a_difference_or_where_only_the_old_primary_goes_on() -> None:
    assert why_parted("A", "B", Ends(0, 5000, 0, 5300), None) == ("", None), "what follows is copied from there"
    assert why_parted("A", "B", Ends(0, 5000, 0, 5000), None) == ("", None)
    why, at = why_parted("A", "B", Ends(0, 5, 0, 5), 4711)
    assert ("part at offset 4711, where A has something else than B" in why, at) == (True, 4711)
    alone, at = why_parted("A", "B", Ends(0, 5030, 0, 5000), None)
    assert ("part at offset 5000: the 30 offsets from there on are on A alone" in alone, at) == (True, 5000)


def test_logs_without_an_offset_in_common_are_the_same_only_where_the_flow_had_come_so_far() -> None:
    apart = Ends(0, 100, 500, 1000)
    assert why_unknown("A", "B", apart, None) == (
        "A's log ends at offset 100, and B's begins at 500: nobody knows whether they were the same"
    )
    assert why_unknown("A", "B", apart, 99) and not why_unknown("A", "B", apart, 100)
    assert not why_unknown("A", "B", Ends(0, 600, 500, 1000), None)
    assert why_unknown("A", "B", Ends(0, 500, 500, 1000), None), "the last of one lies before the first of the other"
    assert not why_unknown("A", "B", Ends(500, 500, 500, 1000), None), "nothing is there that could differ"
    assert is_new_home(Ends(0, 0, 500, 1000)) and not is_new_home(Ends(0, 0, 0, 1000)) and not is_new_home(apart)


class Published:
    """The reverse flow's ledger, by topic."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.values: dict[str, dict[bytes, bytes | None]] = {}
        monkeypatch.setattr(reverse_ledger, "publish", self._publish)
        monkeypatch.setattr(reverse_ledger, "ensure_ledger_topics", lambda *_: None)
        monkeypatch.setattr(reverse_ledger.ReverseLedger, "read", lambda _: self.view)

    @property
    def view(self) -> LedgerView:
        view = LedgerView(Connector.of_dedicated_mode("B"))
        for topic, records in self.values.items():
            for key, value in records.items():
                (view.take_connect if topic == ledger_topics("B").offsets else view.take_ours)(key, value)
        return view

    def returns(self, found: KeptReturn) -> None:
        """As a failback leaves it."""
        doing = step(found)
        doing.apply(doing.prepare())

    def _publish(self, _: object, topic: str, records: list[tuple[bytes, bytes | None]], **__: object) -> None:
        self.values.setdefault(topic, {}).update(records)


def step(*found: KeptReturn) -> KeepReverse:
    admin = SimpleNamespace(list_known_topics=lambda names: dict.fromkeys(names, SimpleNamespace(partitions=1)))
    return KeepReverse(flow_of("preserve.offsets.enabled = true"), cast(Admin, admin), lambda: found)


def test_to_the_reverse_flow_the_old_primary_is_the_copy_that_it_would_have_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = Published(monkeypatch)
    doing = step(KeptReturn(ORDERS, 500, HOME, AWAY), KeptReturn(PARTED, 70, HOME, AWAY, "the logs part at offset 60"))
    note = json.loads(json.dumps(doing.prepare()))
    said = doing.apply(note)
    assert "goes on at the end of 1 partitions; it refuses 1: orders-1: the logs part at offset 60" in said
    record = ledger.view.records[ORDERS]
    assert (record.position, record.extent) == (Position(500, topic_id=AWAY), Extent("orders", HOME, 500))
    assert record.is_aligned and record.released
    assert ledger.view.positions == {ORDERS: Position(500, topic_id=AWAY)}

    again = step(KeptReturn(ORDERS, 450, HOME, AWAY))
    second = again.prepare()
    assert second["positions"][0]["record"] != note["positions"][0]["record"]
    again.apply(second)
    assert ledger.view.records[ORDERS].generation == record.generation + 1
    again.undo(second)
    assert ledger.view.records[ORDERS] == record
    doing.undo(note)
    assert (ledger.view.records, ledger.view.positions) == ({}, {})


def test_a_record_of_the_reverse_flow_travels_through_the_journal_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    Published(monkeypatch)
    (move,) = step(KeptReturn(ORDERS, 500, HOME, AWAY)).prepare()["positions"]
    assert isinstance(decode_value(move["record"].encode()), PositionRecord)


@pytest.mark.parametrize(
    ("cut_at", "is_vouched_for", "is_strange"),
    [(5_000, True, False), (19_500, True, False), (0, True, False), (5_000, False, False), (0, False, True)],
)
def test_a_log_that_was_cut_and_written_again_parts_where_it_was_cut(
    monkeypatch: pytest.MonkeyPatch, cut_at: int, is_vouched_for: bool, is_strange: bool
) -> None:
    """However far that is below the position, up to which the flow once had both logs the same. Without a position, and
    without one record that is the same, nothing shows that one log was ever a copy of the other."""
    ends = {"A": 20_000, "B": 30_000}

    def read(alias: str, _: object, first: int, stop: int, **__: bool) -> Iterator[OwnedBatch]:
        for at in range(first - first % 100, stop, 100):
            known = min(max(cut_at - at, 0), 100)
            if known:
                yield data(at, [b"%d" % one for one in range(at, at + known)])
            if known < 100:
                yield data(at + known, [b"%s %d" % (alias.encode(), one) for one in range(at + known, at + 100)])

    def cluster(alias: str) -> Admin:
        begins = SimpleNamespace(all=lambda: {ORDERS: 0})
        return cast(Admin, SimpleNamespace(
            alias=alias, connection=SimpleNamespace(settings=alias), earliest_offsets=lambda _: begins,
            list_topics=lambda names: {name: Topic(name, HOME if alias == "A" else AWAY, 1, 1) for name in names},
            log_ends=lambda _, *, by_newest: SimpleNamespace(all=lambda: {ORDERS: ends[alias]} if by_newest else {}),
        ))  # fmt: skip

    view = LedgerView(Connector.of_dedicated_mode("A"))
    extent = Extent("orders", AWAY, 30_000)
    record = PositionRecord(Position(30_000, topic_id=HOME), 1, 0, extent=extent, is_aligned=True)
    if is_vouched_for:
        view.records[ORDERS] = record
    monkeypatch.setattr(kept_return, "read_owners", read)
    monkeypatch.setattr(
        kept_return, "LedgerReader", lambda *_: nullcontext(SimpleNamespace(read_through=lambda _: {}, view=view))
    )
    (found,) = look_at_kept(flow_of("preserve.offsets.enabled = true"), cluster("A"), cluster("B"), [ORDERS])
    assert (found.parts_at, found.start, found.away_end, found.is_strange) == (cut_at, 20_000, 30_000, is_strange)
