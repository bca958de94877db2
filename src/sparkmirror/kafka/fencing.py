"""Takes over MirrorMaker's transactional ids, which fences its tasks and our own zombies (design: the ledger).

Called by the planner before partitions are handed out, and by the writer for its own identity. Requests are
FindCoordinator and InitProducerId (KIP-98, KIP-360).

Brokers create `__transaction_state` at the first request for a coordinator, with
`transaction.state.log.replication.factor` replicas. With fewer registered brokers they cannot, and answer every request
with COORDINATOR_NOT_AVAILABLE; `why_no_coordinator` recognises this.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

from kafka.protocol.admin.transactions import DescribeTransactionsRequest
from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest

from sparkmirror.errors import ClusterError, ClusterUnreachable
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.kafka.broker_settings import broker_setting
from sparkmirror.kafka.connection import waits_within
from sparkmirror.kafka.coordinators import (
    BROKER_SECONDS_MAX,
    TRANSACTION,
    find_coordinators,
    keys_per_search,
)
from sparkmirror.kafka.errors import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_MOVED,
    COORDINATOR_NOT_AVAILABLE,
    INVALID_REPLICATION_FACTOR,
    NO_ERROR,
    TRANSACTION_PASSING,
    UNKNOWN_SERVER_ERROR,
    RequestRefused,
    refusal,
)
from sparkmirror.kafka.former_controller import look_for_controller
from sparkmirror.model import Connector, TopicPartition

REPLICATION_SETTING: Final = "transaction.state.log.replication.factor"
_TOPIC: Final = "__transaction_state"
_KEYS_MAX: Final = 1000
_FEW: Final = 3
"""Of fewer ids the coordinators are looked up one by one."""
_SEARCHING: Final = "looking for the coordinators of transactional ids"


def why_no_coordinator(admin: Admin) -> str:
    """The reason why no coordinator of transactions can exist, as a clause; empty where one can, or where the cluster
    does not tell.

    The controller is asked whether it could make the topic: it knows which brokers are registered, also those that are
    down. Raises ClusterUnreachable.
    """
    node_id = min(admin.brokers())
    factor = broker_setting(admin, node_id, REPLICATION_SETTING)
    if factor is None:
        return ""
    refused = admin.rehearse_topics([NewTopic(_TOPIC, 1, factor)])[_TOPIC]
    if not (isinstance(refused, RequestRefused) and refused.code == INVALID_REPLICATION_FACTOR):
        return ""
    return f"cluster {admin.alias} has fewer brokers than its {REPLICATION_SETTING} = {factor} asks for"


COORDINATOR_HINT = f"Add brokers, or set {REPLICATION_SETTING} to at most their number."

_PAUSE_SECONDS = 0.05
_UNKNOWN_PAUSE_SECONDS = 0.5
UNFINISHED_SECONDS: Final = 4.0
"""An aborted transaction ends at once, unless a partition is away."""
_HOLDERS = "asking who holds transactional ids"


class NoTransactionCoordinator(ClusterError):
    """The brokers say that no coordinator of transactions can exist on their cluster: nothing can be fenced there."""


class ProducerIdentity(NamedTuple):
    """Producer id and epoch, as the header of an idempotent or transactional batch has them (KIP-98)."""

    producer_id: int
    epoch: int


_NOBODY: Final = ProducerIdentity(-1, -1)


def transactional_id(connector: Connector, task: int | str) -> str:
    """MirrorMaker's id for task `task`, `<group.id>-<connector>-<task>` (`Worker.taskTransactionalId`); a word instead
    of a number makes an id that no task has."""
    return f"{connector.group}-{connector.name}-{task}"


def rouse_coordinator(admin: Admin, connector: Connector) -> str:
    """Asks for the coordinator of transactions and does not wait for it: a cluster that was never asked creates a topic
    then, which would wait behind all other new topics later.

    Returns the reason why no coordinator can exist, as `why_no_coordinator`; empty otherwise. Raises
    ClusterUnreachable.
    """
    code, _, _ = _find_coordinator(admin, transactional_id(connector, 0), "looking for the coordinator of transactions")
    return why_no_coordinator(admin) if code == COORDINATOR_NOT_AVAILABLE else ""


class TransactionUnfinished(ClusterError):
    """The last transaction of a transactional id was aborted and cannot end, because a partition of it is away.

    The earlier holder of the id is fenced, because an abort raises its epoch. No process can use the id until then.
    """


def init_producer_ids(
    admin: Admin,
    transactional_ids: Sequence[str | None],
    timeout_ms: int = 60_000,
    *,
    wait_seconds_max: float = 60.0,
    unfinished_seconds: float = UNFINISHED_SECONDS,
) -> dict[str | None, ProducerIdentity]:
    """A fresh identity per transactional id; older holders of the id are fenced and their transactions aborted.

    An id of None asks for a plain idempotent identity. `timeout_ms` is the transaction time-out that the brokers
    enforce. Raises AuthorizationFailed without TransactionalId access, NoTransactionCoordinator where the brokers say
    that none can exist (in both cases fall back to None), FencedError if another instance did the same at this moment,
    TransactionUnfinished where an aborted transaction does not end in `unfinished_seconds`, and RequestRefused with the
    last reason when `wait_seconds_max` is over, because a transaction that is committed and does not end is waited for.
    """
    ends_at = time.monotonic() + wait_seconds_max
    wanted = dict.fromkeys(transactional_ids)
    found = _find_coordinators(admin, [one for one in wanted if one is not None])
    patience = ends_at, unfinished_seconds
    return {one: _init(admin, one, timeout_ms, patience, found.get(one or "")) for one in wanted}


def holders(
    admin: Admin, transactional_ids: Collection[str], *, wait_seconds_max: float = 60.0
) -> dict[str, ProducerIdentity]:
    """Who holds each id now, as its coordinator says (KIP-664). Raises ClusterUnreachable, and RequestRefused with the
    last reason when `wait_seconds_max` is over."""
    ends_at, held = time.monotonic() + wait_seconds_max, dict[str, ProducerIdentity]()
    while left := [one for one in transactional_ids if one not in held]:
        code, detail = COORDINATOR_NOT_AVAILABLE, ""
        nodes, asked = _find_coordinators(admin, left), defaultdict[int, list[str]](list)
        for one in left:
            if (node_id := nodes.get(one)) is None:
                code, detail, node_id = _find_coordinator(admin, one, _HOLDERS)
            if node_id is not None:
                asked[node_id].append(one)
        for node_id, names in asked.items():
            for found in _described(admin, names, node_id, _HOLDERS):
                if found.error_code == NO_ERROR:
                    held[found.transactional_id] = ProducerIdentity(found.producer_id, found.producer_epoch)
                else:
                    code, detail = found.error_code, ""
        is_over = len(held) < len(transactional_ids) and not waits_within(admin.connection, _PAUSE_SECONDS, ends_at)
        if is_over or code not in {NO_ERROR, *TRANSACTION_PASSING}:
            raise refusal(code, admin.alias, _HOLDERS, detail)
    return held


def renew_producer_id(
    admin: Admin, transactional_id: str, held: ProducerIdentity, *, wait_seconds_max: float = 60.0
) -> ProducerIdentity:
    """The next epoch of an identity that is still `held` (KIP-360). Raises FencedError where somebody has taken the id
    over since, and as `init_producer_ids`."""
    patience = time.monotonic() + wait_seconds_max, UNFINISHED_SECONDS
    return _init(admin, transactional_id, 60_000, patience, None, held)


def bar_from(
    admin: Admin, transactional_id: str, partitions: Sequence[TopicPartition], timeout_ms: int = 60_000
) -> None:
    """Takes a transactional id over and makes the leaders of `partitions` know it: from here on they refuse older
    holders of the id, also batches outside transactions.

    The leaders append only the marker of an abort. Raises as `init_producer_ids`, and RequestRefused.
    """
    identity = init_producer_ids(admin, [transactional_id], timeout_ms)[transactional_id]
    make_known(admin, transactional_id, identity, partitions)


def make_known(
    admin: Admin, transactional_id: str, identity: ProducerIdentity, partitions: Sequence[TopicPartition]
) -> None:
    """As `bar_from`, for an `identity` that was taken over already. Raises FencedError where it is not the id's any
    more, and RequestRefused."""
    ends_at = time.monotonic() + admin.connection.settings.request_timeout_seconds
    asked = partial(_add_request, transactional_id, identity, partitions)
    _ask_coordinator(admin, transactional_id, asked, ends_at, f"barring older holders of {transactional_id}")
    ended = partial(_abort_request, transactional_id, identity)
    _ask_coordinator(admin, transactional_id, ended, ends_at, f"ending the transaction of {transactional_id}")


def _ask_coordinator(
    admin: Admin, transactional_id: str, make_request: Callable[[], Any], ends_at: float, doing: str
) -> None:
    """Repeats a request until the coordinator has carried it out. Raises FencedError, AuthorizationFailed,
    RequestRefused."""
    while True:
        code, detail, coordinator = _find_coordinator(admin, transactional_id, doing)
        if code == NO_ERROR:
            code = _worst(admin.connection.ask(make_request, doing, coordinator))
            if code == NO_ERROR:
                return
        if code not in TRANSACTION_PASSING or not waits_within(admin.connection, _PAUSE_SECONDS, ends_at):
            raise refusal(code, admin.alias, doing, detail)


def _worst(answer: Any) -> int:
    """The error of an answer, or that of one of its partitions."""
    if hasattr(answer, "results_by_topic_v3_and_below"):
        of_topics = answer.results_by_topic_v3_and_below
        codes = [one.partition_error_code for topic in of_topics for one in topic.results_by_partition]
        return next((int(code) for code in codes if code != NO_ERROR), NO_ERROR)
    return int(answer.error_code)


def _add_request(transactional_id: str, identity: ProducerIdentity, partitions: Sequence[TopicPartition]) -> Any:
    topics: dict[str, list[int]] = {}
    for where in partitions:
        topics.setdefault(where.topic, []).append(where.partition)
    one = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=[one(name=name, partitions=numbers) for name, numbers in topics.items()],
        max_version=3,
    )


def _abort_request(transactional_id: str, identity: ProducerIdentity) -> Any:
    return EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        committed=False,
        max_version=4,
    )


def _init(
    admin: Admin,
    transactional_id: str | None,
    timeout_ms: int,
    patience: tuple[float, float],
    coordinator: int | None,
    held: ProducerIdentity = _NOBODY,
) -> ProducerIdentity:
    """`patience` is until when the id is asked for, and for how many seconds an aborted transaction may take to end."""
    ends_at, unfinished_seconds = patience
    doing = f"taking over the transactional id {transactional_id}" if transactional_id else "asking for a producer id"
    is_examined = False
    look_at = time.monotonic() + unfinished_seconds
    unended = ""
    while True:
        code, detail = NO_ERROR, ""
        if transactional_id is not None and coordinator is None:
            code, detail, coordinator = _find_coordinator(admin, transactional_id, doing)
            if code == COORDINATOR_NOT_AVAILABLE and not is_examined:
                is_examined = True
                if why := why_no_coordinator(admin):
                    raise NoTransactionCoordinator(f"No transactions: {why}.", COORDINATOR_HINT)
        if code == NO_ERROR:
            answer = admin.connection.ask(lambda: _request(transactional_id, timeout_ms, held), doing, coordinator)
            code = answer.error_code
            if code == NO_ERROR:
                return ProducerIdentity(answer.producer_id, answer.producer_epoch)
            coordinator = None if code in COORDINATOR_MOVED else coordinator
        if code == UNKNOWN_SERVER_ERROR and waits_within(admin.connection, _UNKNOWN_PAUSE_SECONDS, ends_at):
            _make_look_for_controller(admin, coordinator)
            continue
        is_stuck = code == CONCURRENT_TRANSACTIONS and time.monotonic() >= look_at
        if is_stuck and transactional_id and coordinator is not None:
            unended = _look_at_unended(admin, transactional_id, coordinator)
            look_at = time.monotonic() + unfinished_seconds
        detail = detail or unended
        if code not in TRANSACTION_PASSING or not waits_within(admin.connection, _PAUSE_SECONDS, ends_at):
            raise refusal(code, admin.alias, doing, detail)


def _make_look_for_controller(admin: Admin, node_id: int | None) -> None:
    """The broker that gives no producer id, or all where any may give one. One that does not answer is of no interest:
    what is asked again says so."""
    for one in admin.brokers() if node_id is None else [node_id]:
        with suppress(ClusterUnreachable):
            admin.connection.ask(look_for_controller, "looking for the controller", one, BROKER_SECONDS_MAX)


def _look_at_unended(admin: Admin, transactional_id: str, coordinator: int) -> str:
    """The partitions that a committed transaction waits for, "" where it has ended; raises TransactionUnfinished if it
    is aborted."""
    doing = f"describing the transaction of {transactional_id}"
    (found,) = _described(admin, [transactional_id], coordinator, doing)
    away = ", ".join(f"{one.topic}-{number}" for one in found.topics for number in one.partitions)
    if found.error_code != NO_ERROR or not found.transaction_state.startswith("Prepare"):
        return ""
    if found.transaction_state == "PrepareCommit":
        return f"its committed transaction waits for {away}"
    raise TransactionUnfinished(
        f"Cluster {admin.alias}: the aborted transaction of {transactional_id} does not end: {away} is away.",
        "See that the partition has a leader, and as many replicas in sync as min.insync.replicas says.",
    )


def _described(admin: Admin, transactional_ids: list[str], coordinator: int | None, doing: str) -> Sequence[Any]:
    """What the coordinator says of the transactions of these ids."""
    request = partial(DescribeTransactionsRequest, transactional_ids=transactional_ids)
    found: Sequence[Any] = admin.connection.ask(request, doing, coordinator).transaction_states
    return found


def may_still_end(admin: Admin, transactional_id: str, where: TopicPartition) -> bool:
    """Whether the id's coordinator may still write a marker there: its transaction is open with this partition, or was
    decided and has not ended in all of its partitions; also where it does not say."""
    doing = f"describing the transaction of {transactional_id}"
    code, _, coordinator = _find_coordinator(admin, transactional_id, doing)
    if code != NO_ERROR:
        return True
    (found,) = _described(admin, [transactional_id], coordinator, doing)
    if found.error_code != NO_ERROR or found.transaction_state.startswith("Prepare"):
        return True
    members = {TopicPartition(one.topic, number) for one in found.topics for number in one.partitions}
    return found.transaction_state == "Ongoing" and where in members


def _request(transactional_id: str | None, timeout_ms: int, held: ProducerIdentity) -> Any:
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=held.producer_id,
        producer_epoch=held.epoch,
        max_version=5,
    )


def _find_coordinators(admin: Admin, transactional_ids: Sequence[str]) -> dict[str, int]:
    """The nodes of those that are known at once, looked up many by a request: a flow has thousands of ids."""
    size = keys_per_search(admin, _KEYS_MAX)
    if size == 1 or len(transactional_ids) < _FEW:
        return {}
    found: dict[str, int] = {}
    for at in range(0, len(transactional_ids), size):
        answers = find_coordinators(admin, TRANSACTION, transactional_ids[at : at + size], _SEARCHING)
        found |= {one.key: one.node_id for one in answers if one.error_code == NO_ERROR}
    return found


def _find_coordinator(admin: Admin, transactional_id: str, doing: str) -> tuple[int, str, int | None]:
    """Error code, the broker's words for it, and the node id of the transaction coordinator."""
    found = find_coordinators(admin, TRANSACTION, [transactional_id], doing)[0]
    node_id = found.node_id if found.error_code == NO_ERROR else None
    return found.error_code, found.error_message or "", node_id
