"""Every error code that Kafka may put in a produce answer has an outcome and a sentence."""

import pytest

from sparkmirror.kafka.wire.data_requests import ProducedPartition
from sparkmirror.pipeline.produce.answers import BatchOutcome, describe, judge, leaves_doubt


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (0, BatchOutcome.DONE),
        (46, BatchOutcome.DONE),  # DUPLICATE_SEQUENCE_NUMBER
        (7, BatchOutcome.RETRY),  # REQUEST_TIMED_OUT
        (19, BatchOutcome.RETRY),  # NOT_ENOUGH_REPLICAS
        (20, BatchOutcome.RETRY),  # NOT_ENOUGH_REPLICAS_AFTER_APPEND
        (56, BatchOutcome.RETRY),  # KAFKA_STORAGE_ERROR
        (89, BatchOutcome.RETRY),  # THROTTLING_QUOTA_EXCEEDED
        (3, BatchOutcome.MOVED),  # UNKNOWN_TOPIC_OR_PARTITION
        (6, BatchOutcome.MOVED),  # NOT_LEADER_OR_FOLLOWER
        (74, BatchOutcome.MOVED),  # FENCED_LEADER_EPOCH
        (100, BatchOutcome.MOVED),  # UNKNOWN_TOPIC_ID
        (103, BatchOutcome.MOVED),  # INCONSISTENT_TOPIC_ID
        (47, BatchOutcome.FENCED),  # INVALID_PRODUCER_EPOCH
        (90, BatchOutcome.FENCED),  # PRODUCER_FENCED
        (49, BatchOutcome.RESTART),  # INVALID_PRODUCER_ID_MAPPING
        (59, BatchOutcome.RESTART),  # UNKNOWN_PRODUCER_ID
        (48, BatchOutcome.RESTART),  # INVALID_TXN_STATE
        (120, BatchOutcome.RESTART),  # TRANSACTION_ABORTABLE
        (51, BatchOutcome.RETRY),  # CONCURRENT_TRANSACTIONS
    ],
)
def test_a_code_means_the_same_for_every_batch(error: int, outcome: BatchOutcome) -> None:
    assert judge(error, is_head=True) is outcome
    assert judge(error, is_head=False) is outcome


@pytest.mark.parametrize(
    "error",
    [
        2,  # CORRUPT_MESSAGE
        10,  # MESSAGE_TOO_LARGE
        18,  # RECORD_LIST_TOO_LARGE
        29,  # TOPIC_AUTHORIZATION_FAILED
        32,  # INVALID_TIMESTAMP
        76,  # UNSUPPORTED_COMPRESSION_TYPE: no look-up mends it
        87,  # INVALID_RECORD
        -1,  # UNKNOWN_SERVER_ERROR
        32_000,
    ],
)
def test_a_batch_is_refused_for_good_only_when_all_before_it_are_acknowledged(error: int) -> None:
    assert judge(error, is_head=True) is BatchOutcome.FAILED
    assert judge(error, is_head=False) is BatchOutcome.RETRY


def test_some_errors_leave_it_open_whether_the_target_has_the_batch() -> None:
    """NOT_ENOUGH_REPLICAS_AFTER_APPEND and time-outs do, what is acknowledged but sent again to learn more, and what a
    leader says that is none any more; what is refused before it is written does not."""
    assert all(leaves_doubt(error) for error in (-1, 0, 3, 6, 7, 13, 20, 56))
    assert not any(leaves_doubt(error) for error in (10, 19, 29, 45, 51))


def test_out_of_order_follows_from_an_earlier_batch_unless_there_is_none() -> None:
    assert judge(45, is_head=False) is BatchOutcome.RETRY
    assert judge(45, is_head=True) is BatchOutcome.RESTART


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (10, ["MessageSizeTooLarge (10)", "raise max.message.bytes"]),
        (18, ["RecordListTooLarge (18)", "segment.bytes"]),
        (21, ["InvalidRequiredAcks (21)", "acks"]),
        (29, ["TopicAuthorizationFailed (29)", "grant WRITE"]),
        (32_000, ["(32000)"]),
    ],
)
def test_a_refusal_is_reported_with_the_brokers_words_and_what_to_do(error: int, words: list[str]) -> None:
    sentence = describe(ProducedPartition("orders", 0, error, -1, "the broker's words"))
    assert all(word in sentence for word in [*words, "the broker's words"]), sentence
