"""Who may not see the group of processes still learns from the status topic whether the flow runs."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.flows import flow_of

from sparkmirror.errors import AuthorizationFailed, ClusterError, SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.runtime import at_rest

TARGET = cast(Admin, None)


def test_an_unknown_group_counts_as_running_and_one_that_may_not_be_seen_leaves_it_to_the_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem: list[SparkMirrorError] = [ClusterError("the coordinator does not say")]

    def list_peers(*_: Any) -> list[Any]:
        raise problem[0]

    monkeypatch.setattr(at_rest, "refuse_beside_mirrormaker", lambda *_: None)
    monkeypatch.setattr(at_rest, "list_peers", list_peers)
    monkeypatch.setattr(at_rest, "read_board", lambda *_: SimpleNamespace(processes={}))
    with pytest.raises(ClusterError, match="does not say"):
        at_rest.refuse_while_running(flow_of(), TARGET)
    problem[0] = AuthorizationFailed("GROUP_AUTHORIZATION_FAILED")
    at_rest.refuse_while_running(flow_of(), TARGET)
