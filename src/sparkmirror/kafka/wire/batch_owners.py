"""Who wrote the batches of a range of a log, by their headers. Blocks; called by `planning.offset_starts`."""

import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from kafka.protocol.consumer import FetchRequest, FetchResponse

from sparkmirror.batch.empty_records import is_empty
from sparkmirror.batch.header import HEADER_BYTES, BatchHeader, iterate_headers
from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.errors import NO_ERROR, error_name
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.lookup import dial_leader, sensible_answers
from sparkmirror.model import TopicPartition

_FETCH: Final = 1
_VERSIONS: Final = (12, 12)
_BYTES_MAX: Final = 8 << 20
_WAIT_MS: Final = 500
_SILENCE_SECONDS: Final = 30.0


class OwnedBatch(NamedTuple):
    """A batch's first offset and the one behind its last, its producer, -1 without one, and whether it only takes up
    offsets: a marker, or the empty records of an aborted transaction."""

    first: int
    stop: int
    producer_id: int
    is_filler: bool


def read_owners(settings: ClientSettings, where: TopicPartition, first: int, stop: int) -> Iterator[OwnedBatch]:
    """The batches from offset `first` up to `stop`, in order. Raises ClusterError, ClusterUnreachable where nothing
    comes for 30 s: what lies above the high watermark is not sent."""
    link, _ = dial_leader(settings, where)
    silent_at = time.monotonic() + _SILENCE_SECONDS
    try:
        with sensible_answers(link):
            while first < stop:
                answer: Any = link.ask(_request(where, first), FetchResponse, link.version(_FETCH, _VERSIONS))
                found = answer.responses[0].partitions[0]
                if found.error_code != NO_ERROR:
                    raise ClusterUnreachable(f"{where} cannot be read: {error_name(found.error_code)}")
                content = memoryview(bytes(found.records or b""))
                for at, header in iterate_headers(content, 0, len(content)):
                    if header.base_offset >= stop:
                        return
                    if header.next_offset > first:
                        yield _owned(header, content[at + HEADER_BYTES : at + header.total_bytes])
                        first, silent_at = header.next_offset, time.monotonic() + _SILENCE_SECONDS
                if time.monotonic() > silent_at:
                    raise ClusterUnreachable(f"{where}: nothing comes from offset {first} on, and {stop} is its end")
    except OSError as broken:
        raise ClusterUnreachable(f"broker {link.address} broke off the connection: {broken}") from broken
    finally:
        link.close()


def _owned(header: BatchHeader, body: memoryview) -> OwnedBatch:
    is_filler = header.is_control or (header.is_transactional and is_empty(body, header.records_count))
    return OwnedBatch(header.base_offset, header.next_offset, header.producer_id, is_filler)


def _request(where: TopicPartition, offset: int) -> Any:
    topic_class = FetchRequest.FetchTopic
    partition = topic_class.FetchPartition(
        partition=where.partition,
        current_leader_epoch=-1,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=_BYTES_MAX,
    )
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=_WAIT_MS,
        min_bytes=1,
        max_bytes=_BYTES_MAX,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[topic_class(topic=where.topic, partitions=[partition])],
        forgotten_topics_data=[],
        rack_id="",
    )
