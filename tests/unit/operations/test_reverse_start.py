"""Where the reverse flow starts, by its ledger: what an earlier way back left there, and what another program did."""

import json
from collections.abc import Collection
from contextlib import nullcontext
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest
from tests.flows import flow_of
from tests.unit.operations.test_kept_return import Published

from sparkmirror.kafka.admin import Admin
from sparkmirror.ledger import connect
from sparkmirror.ledger.positions import PositionRecord, encode_key, encode_value
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import Connector, Position, TopicPartition
from sparkmirror.operations import reverse_ledger
from sparkmirror.operations.failback import WayBack
from sparkmirror.operations.reverse_ledger import ReverseLedger
from sparkmirror.operations.reverse_start import StartReverse
from sparkmirror.operations.steps import Note

ORDERS = TopicPartition("orders", 0)
FORMER, NOW = UUID(int=1), UUID(int=2)


def step(at: int) -> StartReverse:
    admin = SimpleNamespace(list_known_topics=lambda names: dict.fromkeys(names, SimpleNamespace(partitions=1)))
    found = WayBack((), (), {}, {ORDERS: at}, {}, names_stay=True, away_ids={"orders": NOW})
    return StartReverse(flow_of(), cast(Admin, admin), lambda: found)


def noted(doing: StartReverse) -> Note:
    return cast(Note, json.loads(json.dumps(doing.prepare())))


def stand(ledger: Published, offset: int, topic_id: UUID) -> None:
    """The reverse flow ran up to there, after an earlier failover."""
    record = PositionRecord(Position(offset, topic_id=topic_id), 7, 0, run="earlier")
    topics, key = ledger_topics("B"), connect.encode_key(Connector.of_dedicated_mode("B"), ORDERS)
    ledger.values[topics.positions] = {encode_key("B", ORDERS): encode_value(record)}
    ledger.values[topics.offsets] = {key: connect.encode_value(offset)}
    assert ledger.view.positions == {ORDERS: Position(offset, topic_id=topic_id)}


def test_it_starts_behind_what_came_and_is_led_back_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Published(monkeypatch)
    note = noted(step(500))
    step(500).apply(note)
    assert ledger.view.positions == {ORDERS: Position(500, topic_id=NOW)}, "a topic that is made again is another one"
    assert noted(step(500))["positions"] == noted(step(450))["positions"] == [], "it stands further already"
    step(500).undo(note)
    assert ledger.view.positions == {}


@pytest.mark.parametrize("at", [500, 800, 900])
def test_a_position_in_a_topic_that_was_made_again_since_holds_up_no_start(
    at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reverse flow would take the topic for a new one, and copy all of it to where it came from."""
    ledger = Published(monkeypatch)
    stand(ledger, 800, FORMER)
    note = noted(step(at))
    step(at).apply(note)
    assert ledger.view.positions == {ORDERS: Position(at, topic_id=NOW)}
    step(at).undo(note)
    assert ledger.view.positions == {ORDERS: Position(800, topic_id=FORMER)}


def test_one_in_the_topic_that_is_there_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Published(monkeypatch)
    stand(ledger, 800, NOW)
    assert noted(step(500)) == noted(step(800)) == {"positions": []}


def test_a_former_leader_of_the_ledger_does_not_say_how_far_the_reverse_flow_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker that slept, and is asked first, knows neither what was written since nor topics that were made since."""
    topics, connector = ledger_topics("B"), Connector.of_dedicated_mode("B")

    class Reader:
        def __init__(self, *_: object, **__: object) -> None:
            self.view = LedgerView(connector)

        def read_to_end(self) -> None:
            self._take(500)

        def read_through(self, admin: Admin) -> None:
            assert admin is source
            self._take(800)

        def _take(self, offset: int) -> None:
            self.view.take_connect(connect.encode_key(connector, ORDERS), connect.encode_value(offset))

    def known(names: Collection[str]) -> dict[str, object]:
        return dict.fromkeys(names, SimpleNamespace(partitions=1))

    source = cast(Admin, SimpleNamespace(list_topics=lambda _: {}, list_known_topics=known))
    monkeypatch.setattr(reverse_ledger, "LedgerReader", lambda *given, **named: nullcontext(Reader(*given, **named)))
    found = WayBack((), (), {}, {ORDERS: 600}, {}, names_stay=True)
    assert noted(StartReverse(flow_of(), source, lambda: found)) == {"positions": []}, "it stands further already"
    assert ReverseLedger(flow_of(), source).topics == topics


def test_positions_of_a_mirrormaker_that_ran_the_reverse_flow_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no topic of our own records then. Unread, they would be led back, and gone after `--undo`."""
    topics, connector = ledger_topics("B"), Connector.of_dedicated_mode("B")

    class Reader:
        def __init__(self, *_: object, is_ours_needed: bool = True) -> None:
            assert not is_ours_needed, "there is none"
            self.view = LedgerView(connector)

        def read_through(self, _: Admin) -> None:
            self.view.take_connect(connect.encode_key(connector, ORDERS), connect.encode_value(800))

    def there(names: Collection[str]) -> dict[str, object]:
        return {name: SimpleNamespace(partitions=1) for name in names if name == topics.offsets}

    monkeypatch.setattr(reverse_ledger, "LedgerReader", lambda *given, **named: nullcontext(Reader(*given, **named)))
    ledger = ReverseLedger(flow_of(), cast(Admin, SimpleNamespace(list_known_topics=there)))
    assert ledger.read().positions == {ORDERS: Position(800)}
