"""How often a process that runs all tasks sends its group a heartbeat."""

import pytest

from sparkmirror.sharing.heartbeats import lone_heartbeat_seconds


@pytest.mark.parametrize(("session_ms", "seconds"), [(1000, 0.2), (6000, 1.2), (10_000, 2.0), (45_000, 3.0)])
def test_heartbeats_leave_time_for_others_within_the_session(session_ms: int, seconds: float) -> None:
    assert lone_heartbeat_seconds(session_ms) == seconds
