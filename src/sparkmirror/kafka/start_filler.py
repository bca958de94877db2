"""Takes up the offsets before the first mirrored record of a flow that keeps offsets, by empty records that are deleted
afterwards; blocks. Called by `planning.offset_starts`."""

import time
from collections.abc import Callable
from contextlib import closing
from typing import Final

from sparkmirror.kafka.errors import RequestRefused
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.kafka.filler_batches import empty_batch, halve
from sparkmirror.kafka.offset_fillers import EndMoved
from sparkmirror.kafka.settings import client_settings
from sparkmirror.kafka.wire.appending import Appender
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.policy.fillers import RECORDS_MAX, SEQUENCES, Hole, plan_batches

_SECONDS_MAX: Final = 60.0


def fill_start(
    cluster: Cluster,
    producer_id: int,
    where: TopicPartition,
    hole: Hole,
    seconds_max: float,
    note: Callable[[int], None] = lambda _: None,
) -> int:
    """Appends empty records from the log's end `hole.first` on, for so long at most; returns the log's end then.
    It is noted after each batch.

    Sequence numbers equal offsets, so that a log has none but these records where the last one of the producer stands
    right before its end. Raises ClusterError, EndMoved where a batch came to stand elsewhere.
    """
    ends_at, largest, at = time.monotonic() + seconds_max, RECORDS_MAX, hole.first
    with closing(Appender(client_settings(cluster, "fillers"))) as appender:
        while at < hole.stop:
            records = next(plan_batches(Hole(at, hole.stop), largest))
            batch = empty_batch(records, ProducerIdentity(producer_id, 0), at % SEQUENCES)
            try:
                found = appender.append_batch(where, batch, time.monotonic() + _SECONDS_MAX)
            except RequestRefused as refused:
                largest = halve(records, refused)
                continue
            if found != at:
                raise EndMoved(f"empty records for offset {at} came to stand at offset {found}")
            at += records
            note(at)
            if time.monotonic() >= ends_at:
                break
    return at
