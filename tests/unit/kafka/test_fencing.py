"""Transactional ids are MirrorMaker's."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.kafka import fencing
from sparkmirror.kafka.fencing import TransactionUnfinished, may_still_end, rouse_coordinator, transactional_id
from sparkmirror.model import Connector, TopicPartition


def test_ids_are_those_a_live_mirrormaker_lists() -> None:
    assert [transactional_id(Connector.of_dedicated_mode("A"), task) for task in (0, 12)] == [
        "A-mm2-MirrorSourceConnector-0",
        "A-mm2-MirrorSourceConnector-12",
    ]


@pytest.mark.parametrize("why", ["", "cluster A has fewer brokers than that"])
def test_a_cluster_is_asked_once_for_its_coordinator_and_not_waited_for(
    why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where none is there yet, whether one can be is asked too (`kafka.fencing`)."""
    monkeypatch.setattr("sparkmirror.kafka.fencing.why_no_coordinator", lambda _admin: why)
    asked: list[tuple[str, int]] = []

    def ask(make_request: Any, _doing: str) -> Any:
        request = make_request()
        asked.append((request.key, request.key_type))
        not_there_yet = SimpleNamespace(node_id=-1, error_code=15, error_message=None)
        return SimpleNamespace(coordinators=[not_there_yet])

    admin: Any = SimpleNamespace(connection=SimpleNamespace(ask=ask))
    assert rouse_coordinator(admin, Connector.of_dedicated_mode("A")) == why
    assert asked == [("A-mm2-MirrorSourceConnector-0", 1)]


@pytest.mark.parametrize("node_id", [0, 3])
def test_a_transaction_that_does_not_end_is_looked_at_whatever_number_its_coordinator_has(
    node_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers may be numbered from 0, as Strimzi numbers them."""
    looked: list[int] = []

    def look(_admin: Any, name: str, coordinator: int) -> str:
        looked.append(coordinator)
        raise TransactionUnfinished(name, "its partition is away")

    monkeypatch.setattr(fencing, "_look_at_unended", look)
    concurrent = SimpleNamespace(error_code=51, error_message=None)
    admin: Any = SimpleNamespace(alias="B", connection=SimpleNamespace(ask=lambda *_: concurrent))
    with pytest.raises(TransactionUnfinished):
        fencing._init(admin, "A-mm2-MirrorSourceConnector-0", 60_000, (time.monotonic() + 5.0, 0.0), node_id)
    assert looked == [node_id]


@pytest.mark.parametrize(
    ("state", "topic", "may"),
    [
        ("Ongoing", "here", True),
        ("Ongoing", "elsewhere", False),
        ("PrepareCommit", "elsewhere", True),
        ("CompleteCommit", "here", False),
        ("Empty", "here", False),
    ],
)
def test_a_marker_may_come_where_its_transaction_is_open_or_is_being_ended(state: str, topic: str, may: bool) -> None:
    answers = Answers(state, topic)
    assert may_still_end(answers.admin, "a", TopicPartition("here", 0)) is may


@pytest.mark.parametrize("codes", [(15, 0), (0, 16)])
def test_a_coordinator_that_does_not_say_may_still_write_a_marker(codes: tuple[int, int]) -> None:
    assert may_still_end(Answers("Empty", "here", *codes).admin, "a", TopicPartition("here", 0))


class Answers:
    """A cluster's, of one transactional id; the codes are those of its coordinator's search and of its description."""

    def __init__(self, state: str, topic: str, search: int = 0, described: int = 0) -> None:
        self._home = SimpleNamespace(key="a", node_id=1, error_code=search, error_message="")
        topics = [SimpleNamespace(topic=topic, partitions=[0])]
        self._state = SimpleNamespace(error_code=described, transaction_state=state, topics=topics)
        self.admin: Any = SimpleNamespace(connection=self)

    def ask(self, make_request: Any, _doing: str, *_: Any) -> Any:
        make_request()
        return SimpleNamespace(coordinators=[self._home], transaction_states=[self._state])
