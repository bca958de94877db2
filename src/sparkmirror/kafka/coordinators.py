"""Which broker coordinates a group or a transactional id, asked over the control plane (FindCoordinator, KIP-699).

`kafka.wire.coordinator` sends the same request over the data path's connections.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from kafka.protocol.metadata import FindCoordinatorRequest

from sparkmirror.kafka.admin import Admin

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
