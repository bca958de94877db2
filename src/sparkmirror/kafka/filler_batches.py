"""Batches of empty records as fillers send them. Called by `kafka.offset_fillers` and `kafka.start_filler`."""

import time
from typing import Final

from sparkmirror.batch.empty_records import encode_empty
from sparkmirror.batch.header import parse_header, stamp
from sparkmirror.kafka.errors import RequestRefused
from sparkmirror.kafka.fencing import ProducerIdentity

_MESSAGE_TOO_LARGE: Final = 10


def empty_batch(
    records: int, identity: ProducerIdentity, sequence: int, *, is_transactional: bool = False
) -> bytearray:
    """So many empty records of now, with the producer's identity and the first one's sequence number."""
    batch = encode_empty(records, time.time_ns() // 1_000_000)
    stamp(memoryview(batch), 0, parse_header(batch, 0), *identity, sequence, is_transactional)
    return batch


def halve(records: int, refused: RequestRefused) -> int:
    """Half as many records where a batch was too large; else raises the refusal."""
    if refused.code != _MESSAGE_TOO_LARGE or records <= 1:
        raise refused
    return records // 2
