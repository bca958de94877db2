"""A partition that keeps offsets begins where it was to begin when it was looked at first."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from tests.flows import flow_of

from sparkmirror.kafka.admin import Admin
from sparkmirror.ledger.chosen_starts import ChosenStart, encode_start, start_key
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import Connector, Position, Topic, TopicPartition
from sparkmirror.planning import chosen_starts
from sparkmirror.planning.chosen_starts import keep_chosen

WHERE, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
HERE, THERE, OTHER = UUID(int=1), UUID(int=2), UUID(int=3)


class Ledger:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.view = LedgerView(Connector.of_dedicated_mode("A"))
        self.written: list[bytes] = []
        monkeypatch.setattr(chosen_starts, "publish", self._publish)

    def _publish(self, _: object, __: str, records: Sequence[tuple[bytes, bytes]]) -> None:
        for key, value in records:
            self.written.append(key)
            self.view.take_ours(key, value)

    def choose(
        self,
        found: Mapping[TopicPartition, int],
        start: str = "latest",
        source: UUID = HERE,
        target: UUID = THERE,
        epoch: int = 3,
    ) -> dict[TopicPartition, int]:
        places = self.places(found, start, source, target, epoch)
        return {where: place.offset for where, place in places.items()}

    def places(
        self, found: Mapping[TopicPartition, int], start: str, source: UUID, target: UUID, epoch: int
    ) -> dict[TopicPartition, Position]:
        """Where the source's logs end where they are `found` to begin."""
        flow = flow_of(
            "preserve.offsets.enabled = true", "A.consumer.isolation.level = read_committed",
            f"preserve.offsets.start = {start}",
        )  # fmt: skip
        remote = flow.remote_topic("orders")
        reader: Any = SimpleNamespace(view=self.view, read_through=lambda _: None)
        there = {remote: Topic(remote, target, 2, 1)}
        places = {where: Position(offset, ((epoch, offset),)) for where, offset in found.items()}
        return keep_chosen(
            flow, cast(LedgerReader, reader), cast(Admin, None), places, dict.fromkeys(found, source), there, found
        )


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Ledger:
    return Ledger(monkeypatch)


def test_what_comes_behind_the_first_look_is_not_passed_over(ledger: Ledger) -> None:
    assert ledger.choose({WHERE: 60}) == {WHERE: 60}
    assert ledger.choose({WHERE: 110, SECOND: 7}) == {WHERE: 60, SECOND: 7}
    assert ledger.written == [start_key("A", WHERE), start_key("A", SECOND)], "each once"


def test_it_is_chosen_again_for_another_topic_or_setting(ledger: Ledger) -> None:
    ledger.choose({WHERE: 60})
    assert ledger.choose({WHERE: 5}, source=OTHER) == {WHERE: 5}
    assert ledger.choose({WHERE: 110}, source=OTHER, target=OTHER) == {WHERE: 110}
    assert ledger.choose({WHERE: 40}, "by_duration:P1D", OTHER, OTHER) == {WHERE: 40}


def test_it_has_the_epoch_of_the_source_s_log_as_it_was_then(ledger: Ledger) -> None:
    ledger.choose({WHERE: 60}, epoch=3)
    assert ledger.places({WHERE: 110}, "latest", HERE, THERE, 5) == {WHERE: Position(60, ((3, 60),), HERE)}
    assert ledger.places({WHERE: 0}, "earliest", HERE, THERE, 5) == {WHERE: Position(0)}


def test_it_is_chosen_again_where_the_source_was_cut_before_it(ledger: Ledger) -> None:
    ledger.choose({WHERE: 60})
    assert ledger.places({WHERE: 40}, "latest", HERE, THERE, 5) == {WHERE: Position(40, ((5, 40),), HERE)}
    assert ledger.choose({WHERE: 110}) == {WHERE: 40}, "what has come since is mirrored"


def test_the_beginning_of_a_log_is_looked_at_each_time(ledger: Ledger) -> None:
    assert ledger.choose({WHERE: 0}, "earliest") == {WHERE: 0}
    assert ledger.choose({WHERE: 9}, "earliest") == {WHERE: 9}
    assert not ledger.written


def test_of_two_processes_that_choose_at_once_the_earlier_place_counts(ledger: Ledger) -> None:
    ledger.choose({WHERE: 60})
    later = ChosenStart(80, "latest", HERE, THERE)
    ledger.view.take_ours(start_key("A", WHERE), encode_start(later))
    ledger.written.clear()
    assert ledger.choose({WHERE: 110}) == {WHERE: 60}
    assert ledger.written == [start_key("A", WHERE)], "compaction leaves the last one"
    assert ledger.choose({WHERE: 110}) == {WHERE: 60}
    assert len(ledger.written) == 1
    ledger.view.take_ours(start_key("A", WHERE), None)
    assert ledger.choose({WHERE: 110}) == {WHERE: 110}, "a person has removed it"
    ledger.view.take_ours(start_key("B", WHERE), encode_start(later))
    ledger.view.take_ours(start_key("A", WHERE), b"{")
    assert not ledger.view.starts, "what cannot be read is none"
