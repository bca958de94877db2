"""The thread that holds a process in the group of those that share its flows outlives what it did not expect."""

from typing import Any

import pytest
from tests.flows import flow_of

from sparkmirror.errors import AuthorizationFailed
from sparkmirror.sharing import group
from sparkmirror.sharing.flow_share import FlowShare
from sparkmirror.sharing.group import ProcessGroup

SECONDS_MAX = 30.0


def test_an_unexpected_problem_is_tried_again_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    problems: list[Exception] = [KeyError("members"), AuthorizationFailed("no READ on the group")]

    def fails(*_: Any) -> Any:
        raise problems.pop(0)

    monkeypatch.setattr(group, "open_admin", fails)
    process_group = ProcessGroup([FlowShare(flow_of(), "same", 0)], "mm2")
    process_group.start()
    process_group.wait_until_joined(SECONDS_MAX)
    assert process_group.is_alone and not problems
