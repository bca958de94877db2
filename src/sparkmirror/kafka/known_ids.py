"""Lists the transactional ids of a flow that the coordinators know (KIP-664). Called before ids are taken over."""

import time
from functools import partial
from typing import Any, Final

from kafka.protocol.admin.transactions import ListTransactionsRequest

from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.connection import waits_within
from sparkmirror.kafka.coordinators import BROKER_SECONDS_MAX, ask_every_broker
from sparkmirror.kafka.errors import NO_ERROR, TRANSACTION_PASSING, refusal
from sparkmirror.kafka.fencing import transactional_id
from sparkmirror.model import Connector

_PAUSE_SECONDS: Final = 0.05
_LISTING: Final = "listing transactional ids"


def used_tasks(admin: Admin, connector: Connector) -> set[int]:
    """The tasks whose transactional ids the coordinators know: MirrorMaker's, and our own of earlier runs (KIP-664).

    The coordinators name only ids that our principal may describe. A coordinator that has just started loads them
    first, and this waits for it, because an id that it does not name would not be fenced. Raises ClusterUnreachable
    when a broker does not answer, RequestRefused when a broker has not loaded them within `request.timeout.ms`.
    """
    return {number for number, _ in _used(admin, connector)}


def used_producers(admin: Admin, connector: Connector) -> dict[int, int]:
    """The tasks of `used_tasks`, by the producer ids of their transactional ids."""
    return {producer_id: number for number, producer_id in _used(admin, connector)}


def _used(admin: Admin, connector: Connector) -> list[tuple[int, int]]:
    prefix = transactional_id(connector, 0)[:-1]
    found = ((name.removeprefix(prefix), producer_id) for name, producer_id in _known(admin, prefix))
    return [(int(number), producer_id) for number, producer_id in found if number.isdecimal()]


def known_ids(admin: Admin, prefix: str) -> set[str]:
    """The transactional ids that begin so and that the coordinators know, as `used_tasks`."""
    return {name for name, _ in _known(admin, prefix)}


def _known(admin: Admin, prefix: str) -> list[tuple[str, int]]:
    listed = ask_every_broker(admin, partial(_transactional_ids, admin), _LISTING)
    return [found for some in listed for found in some if found[0].startswith(prefix)]


def _transactional_ids(admin: Admin, node_id: int) -> list[tuple[str, int]]:
    ends_at = time.monotonic() + admin.connection.settings.request_timeout_seconds
    while True:
        answer = admin.connection.ask(_list_request, _LISTING, node_id, BROKER_SECONDS_MAX)
        if answer.error_code == NO_ERROR:
            return [(state.transactional_id, state.producer_id) for state in answer.transaction_states]
        if answer.error_code not in TRANSACTION_PASSING or not waits_within(admin.connection, _PAUSE_SECONDS, ends_at):
            raise refusal(answer.error_code, admin.alias, _LISTING)


def _list_request() -> Any:
    return ListTransactionsRequest(state_filters=[], producer_id_filters=[], duration_filter=-1, max_version=1)
