"""What an error code in a produce answer means for the batch: a table, pure. Called by `pipeline.produce.answer_taker`.

Source: org.apache.kafka.common.protocol.Errors of Apache Kafka 4.3, and KIP-98, KIP-360 for the sequence errors.
"""

from enum import Enum

from kafka.errors import for_code

from sparkmirror.kafka.errors import CONCURRENT_TRANSACTIONS, LEADER_MOVED
from sparkmirror.kafka.wire.data_requests import ProducedPartition


class BatchOutcome(Enum):
    """What the sender does with the batch."""

    DONE = "done"
    RETRY = "retry"
    MOVED = "retry after a metadata look-up"
    RESTART = "the sequence state is lost: new producer epoch"
    FENCED = "a newer instance has taken over"
    FAILED = "the partition is isolated"


OUT_OF_ORDER_SEQUENCE = 45
DUPLICATE_SEQUENCE = 46
_DONE = frozenset({0, DUPLICATE_SEQUENCE})  # written before, base offset unknown
_RETRY = frozenset({7, 13, 14, 19, 20, CONCURRENT_TRANSACTIONS, 56, 89})
_RETRY_SECONDS = 0.1
_IN_DOUBT = frozenset({-1, 0, 3, 6, 7, 13, 20, 56})
"""0: it has, and the batch is sent again to learn more. 3, 6 and 56: a leader that has the batch, and is no leader any
more before its replicas acknowledge it, answers so too (DelayedProduce), and the next one may have it."""
MESSAGE_TOO_LARGE = 10
LIMITED = frozenset({MESSAGE_TOO_LARGE, 32})
"""With INVALID_TIMESTAMP: refusals by limits of the target topic, which can be asked for."""
_FENCED = frozenset({47, 90})  # INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
# INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING, UNKNOWN_PRODUCER_ID, TRANSACTION_ABORTABLE
_RESTART = frozenset({48, 49, 59, 120})
_ADVICE = {
    2: "the source's copy is damaged (checksum)",
    10: "raise max.message.bytes of the target topic",
    18: "raise segment.bytes of the target topic",
    21: "the target topic demands another acks setting",
    29: "grant WRITE on the target topic to SparkMirror's principal",
    31: "grant IDEMPOTENT_WRITE or WRITE to SparkMirror's principal",
    32: "its timestamp lies outside what the target topic's message.timestamp.*.max.ms allow",
    76: "raise the target's inter.broker.protocol.version, or leave the topic out",
    87: "the target topic does not take such records, for example without key where it is compacted",
}


def judge(error: int, *, is_head: bool) -> BatchOutcome:
    """`is_head` says that every earlier batch of the partition is acknowledged.

    OUT_OF_ORDER_SEQUENCE of a later batch only follows an earlier one's failure; of the head it means that the broker
    no longer knows our sequence. A later batch that is refused is sent again when it has become the head: nothing is
    given up while the outcome of an earlier one is unknown.
    """
    if error in _DONE:
        return BatchOutcome.DONE
    if error == OUT_OF_ORDER_SEQUENCE:
        return BatchOutcome.RESTART if is_head else BatchOutcome.RETRY
    if error in _RETRY:
        return BatchOutcome.RETRY
    if error in LEADER_MOVED:
        return BatchOutcome.MOVED
    if error in _FENCED:
        return BatchOutcome.FENCED
    if error in _RESTART:
        return BatchOutcome.RESTART
    return BatchOutcome.FAILED if is_head else BatchOutcome.RETRY


def leaves_doubt(error: int) -> bool:
    """Whether the target may have written the batch despite the error."""
    return error in _IN_DOUBT


def rest_seconds(error: int) -> float:
    """How long a partition waits before it sends a refused batch again: not at all while a commit completes."""
    return 0.0 if error == CONCURRENT_TRANSACTIONS else _RETRY_SECONDS


def describe(produced: ProducedPartition) -> str:
    """A sentence for people: the error's name, the broker's words, what to do."""
    name = for_code(produced.error).__name__.removesuffix("Error")
    parts = [
        f"the target refused a batch: {name} ({produced.error})",
        produced.message,
        _ADVICE.get(produced.error, ""),
    ]
    return "; ".join(part for part in parts if part)
