"""One question to every broker of a cluster, as about what each coordinates. Used by `kafka.groups`, `kafka.fencing`.

What a silent broker coordinates is another's as soon as the cluster has taken it off its list of live ones: so then all
are asked again. An answer without it would be silence taken for nothing.
"""

import time
from collections.abc import Callable
from typing import Final, TypeVar

from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.connection import waits_within

BROKER_SECONDS_MAX: Final = 5.0
"""For one broker's answer; a silent one is asked again in the next round, if it still counts as live."""
_PAUSE_SECONDS: Final = 0.5

T = TypeVar("T")


def ask_every_broker(admin: Admin, ask: Callable[[int], T], doing: str) -> list[T]:
    """What each live broker answers; `ask` is given its node id.

    Raises ClusterUnreachable, which names the broker, when one stays silent for `request.timeout.ms`; and what `ask`
    raises otherwise.
    """
    ends_at = time.monotonic() + admin.connection.settings.request_timeout_seconds
    while True:
        answers, silent = [], ""
        for node_id, (host, port) in admin.brokers().items():
            try:
                answers.append(ask(node_id))
            except ClusterUnreachable:
                silent = f"broker {node_id} ({host}:{port})"
        if not silent:
            return answers
        if not waits_within(admin.connection, _PAUSE_SECONDS, ends_at):
            raise ClusterUnreachable(
                f"Cluster {admin.alias}: {silent} does not answer while {doing}.", "Check that all its brokers are up."
            )
