"""The thread that holds a process in the group of those that share its flows outlives what it did not expect."""

from typing import Any

import pytest
from tests.flows import flow_of

from sparkmirror.errors import AuthorizationFailed, SparkMirrorError
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


def test_a_heartbeat_that_failed_is_due_again_at_once() -> None:
    class Member:
        asked = 0

        def heartbeat(self) -> bool:
            self.asked += 1
            return True

    process_group, member = ProcessGroup([FlowShare(flow_of(), "same", 0)], "mm2"), Member()
    beat: Any = process_group._heartbeat
    assert beat(member) and beat(member)
    assert member.asked == 1, "its time has not come again"
    process_group._recover(SparkMirrorError("the coordinator is silent"))
    assert beat(member)
    assert member.asked == 2
