"""Transactional ids are MirrorMaker's."""

from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.kafka.fencing import rouse_coordinator, transactional_id
from sparkmirror.model import Connector


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
