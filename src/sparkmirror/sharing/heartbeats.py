"""How often a process sends its group a heartbeat; pure. Called by `sharing.group`.

One costs 2 ms of CPU over two threads.
"""

from typing import Final

SHARED_HEARTBEAT_SECONDS: Final = 0.2
"""The interval while other processes run some of the tasks: when one leaves, its tasks stand still until the next
heartbeat of this process."""
RECOVER_SECONDS: Final = 1.0
"""The longest pause after a heartbeat that failed."""
_LONE_SECONDS_MAX: Final = 3.0
_SESSION_PART: Final = 5
"""One that is lost, or refused, leaves time for others."""


def lone_heartbeat_seconds(session_timeout_ms: int) -> float:
    """The interval of a process that runs all tasks: only one that joins waits for its next heartbeat, and what is to
    be known of a fence."""
    return min(_LONE_SECONDS_MAX, session_timeout_ms / 1000 / _SESSION_PART)
