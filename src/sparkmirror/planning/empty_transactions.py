"""Ends by an empty transaction what an earlier one of the same transactional id has left open. Called by
`planning.left_behind` and `planning.left_in_ledger`, once that id was taken over.

The marker of a transaction ends all that its producer has open in a partition, and comes to each partition that was
added to the transaction, whether or not anything was written there.
"""

import logging
from collections.abc import Collection
from contextlib import closing
from typing import Final

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import ClusterError, ClusterUnreachable
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.fencing import ProducerIdentity, transactional_id
from sparkmirror.kafka.wire.transaction import Transaction
from sparkmirror.model import TopicPartition

log = logging.getLogger(__name__)

_NAMED_MAX: Final = 5
_SECONDS_MAX: Final = 45.0
"""For the end of an empty transaction its coordinator is asked so long, since to begin again would abort it."""


def end_left_open(
    flow: FlowConfig,
    target: Admin,
    number: int,
    identity: ProducerIdentity,
    lot: Collection[TopicPartition],
    *,
    commits: bool,
) -> str:
    """Ends what the id of this number has open in the partitions of `lot`; returns why it was refused, as a clause.
    Raises ClusterError where nobody says whether it has begun, or has ended."""
    name, timeout_ms = transactional_id(flow.connector, number), flow.producer.transaction_timeout_ms
    seconds = min(timeout_ms / 1000, _SECONDS_MAX)
    with closing(Transaction(target.connection.settings, name, timeout_ms, seconds)) as transaction:
        transaction.know_brokers(target.brokers().values())
        transaction.identity = identity
        try:
            transaction.end_left_open(lot, commits=commits)
        except ClusterError as problem:
            if transaction.is_begun or isinstance(problem, ClusterUnreachable):
                raise
            return str(problem.args[0]).rstrip(".")
    log.warning(
        "%s: a transaction of %s lay open in %s, for want of a leader when it ended: it is %s now.",
        flow.name, name, ", ".join(map(str, sorted(lot)[:_NAMED_MAX])), "committed" if commits else "aborted",
        extra={"event": "left-open"},
    )  # fmt: skip
    return ""
