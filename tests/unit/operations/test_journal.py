"""The journal as a record: whole, small enough, and known when it is damaged."""

from random import Random

import pytest

from sparkmirror.errors import ProtocolError
from sparkmirror.kafka.group_answers import Committed
from sparkmirror.model import TopicPartition
from sparkmirror.operations.failover_run import note_move
from sparkmirror.operations.journal import decode_journal, encode_journal
from sparkmirror.operations.steps import Journal, Taken

RECORD_BYTES_MAX = 1_000_000  # `max.message.bytes` and `max.request.size` by default


def test_a_thousand_groups_of_fifty_partitions_fit_into_one_record() -> None:
    numbers = Random(7)
    groups = {
        f"a-consumer-group-{group}": [
            note_move(TopicPartition("some.topic", at), Committed(before), Committed(before + numbers.randrange(10**6)))
            for at in range(50)
            for before in [numbers.randrange(10**10)]
        ]
        for group in range(1000)
    }
    journal = Journal({"drain": Taken({"ends": []}, "done"), "groups": Taken({"groups": groups})})
    stored = encode_journal(journal)
    assert len(stored) < RECORD_BYTES_MAX
    assert decode_journal(stored) == journal


def test_the_steps_keep_their_order() -> None:
    journal = Journal({name: Taken({}) for name in ("stop", "drain", "groups", "fence")})
    assert list(decode_journal(encode_journal(journal)).steps) == ["stop", "drain", "groups", "fence"]


@pytest.mark.parametrize("stored", [b"", b"{}", encode_journal(Journal())[:-3], b"x" * 50])
def test_a_damaged_one_is_not_taken_for_an_empty_one(stored: bytes) -> None:
    with pytest.raises(ProtocolError, match="journal"):
        decode_journal(stored)
