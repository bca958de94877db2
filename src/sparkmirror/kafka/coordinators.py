"""Which broker coordinates a group or a transactional id, asked over the control plane (FindCoordinator, KIP-699), and
questions to all brokers about what each coordinates.

`kafka.wire.coordinator` sends the same request over the data path's connections. When a broker is silent, another takes
over what it coordinates once the cluster has taken it off its list of live brokers: then all are asked again, since an
answer without it would be incomplete.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from kafka.protocol.metadata import FindCoordinatorRequest

from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.connection import waits_within

GROUP: Final = 0
TRANSACTION: Final = 1
FIND_COORDINATOR: Final = 10
_MANY_AT_ONCE = 4
"""From this version of FindCoordinator on, a request has a list of keys."""


def keys_per_search(admin: Admin, most: int) -> int:
    """How many keys one request may have: `most`, or one where the brokers know no lists."""
    return most if admin.api_versions()[FIND_COORDINATOR][1] >= _MANY_AT_ONCE else 1


def find_coordinators(admin: Admin, kind: int, keys: Sequence[str], doing: str) -> Sequence[Any]:
    """The broker's answer about each key, with its error code; `kind` is GROUP or TRANSACTION. Raises ClusterError.

    Brokers that know one key a request answer for the first alone.
    """
    answer = admin.connection.ask(partial(coordinator_request, kind, keys), doing)
    found: Sequence[Any] = answer.coordinators or [answer]
    return found


def coordinator_request(kind: int, keys: Sequence[str]) -> Any:
    """FindCoordinator for any version from 1 on."""
    # Up to version 3 the key stands alone, from 4 on in a list; each version ignores the other field.
    return FindCoordinatorRequest(key=keys[0], key_type=kind, coordinator_keys=list(keys), max_version=5)


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
