"""The batches of a range of a log, with who wrote each. Blocks; called by `planning.log_proof`, `kafka.offset_fillers`
and `operations.hole_samples`."""

import struct
import time
from collections import deque
from collections.abc import Callable, Container, Iterator
from contextlib import closing
from typing import Any, Final, NamedTuple

from kafka.protocol.consumer import FetchRequest, FetchResponse

from sparkmirror.batch.empty_records import is_empty
from sparkmirror.batch.header import CODEC_MASK, HEADER_BYTES, MAGIC, BatchHeader, iterate_headers
from sparkmirror.batch.records import decode_records
from sparkmirror.errors import ClusterUnreachable, ProtocolError, SparkMirrorError
from sparkmirror.kafka.errors import NO_ERROR, error_name
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.leader_search import LeaderSearch
from sparkmirror.kafka.wire.link import Link
from sparkmirror.kafka.wire.lookup import sensible_answers
from sparkmirror.model import NO_EPOCH, TopicPartition

_FETCH: Final = 1
_OFFSET_OUT_OF_RANGE: Final = 1
_VERSIONS: Final = (12, 12)
_BYTES_MAX: Final = 8 << 20
_WAIT_MS: Final = 500
_SILENCE_SECONDS: Final = 30.0
_MARKER: Final = struct.Struct(">hi")
"""Version and coordinator epoch, of all versions."""


class LogParted(SparkMirrorError):
    """The log has no records of the epoch that was named up to the offset that was asked for: it was cut. Its last
    epoch that is not later is `epoch`, and goes to `end`."""

    def __init__(self, message: str, epoch: int = NO_EPOCH, end: int = 0) -> None:
        super().__init__(message)
        self.epoch = epoch
        self.end = end


class UnknownEpoch(ClusterUnreachable):
    """The offset is not in the log, or the log knows no epoch so early as the one that was named."""


class OwnedBatch(NamedTuple):
    """A batch of a log, with all its bytes. `is_aborted` is known of read_committed reading only."""

    header: BatchHeader
    data: memoryview
    is_aborted: bool = False

    @property
    def first(self) -> int:
        return self.header.base_offset

    @property
    def stop(self) -> int:
        """The offset behind its last one."""
        return self.header.next_offset

    @property
    def producer_id(self) -> int:
        """-1 without one."""
        return self.header.producer_id

    @property
    def body(self) -> memoryview:
        return self.data[HEADER_BYTES:]

    def has_same_bytes(self, other: "OwnedBatch") -> bool:
        """Whether it holds the same records at the same offsets, without a look into them: the bodies are equal."""
        mine, theirs = self.header, other.header
        return (
            (self.first, self.stop, mine.records_count) == (other.first, other.stop, theirs.records_count)
            and mine.magic == theirs.magic == MAGIC
            and not (mine.attributes ^ theirs.attributes) & CODEC_MASK
            and self.body == other.body
        )

    @property
    def is_filler(self) -> bool:
        """Whether it only takes up offsets: a marker, or the empty records of a transaction. That was aborted, if it is
        a filler's; anybody's may have been committed."""
        return self.header.is_control or (self.header.is_transactional and (self._is_encoded_empty or self._is_empty))

    def takes_up(self, filler_ids: Container[int], is_aborted: "Callable[[OwnedBatch], bool]") -> bool:
        """Whether it is a filler that no committed reader sees; `is_aborted` is asked of strangers' records."""
        is_known = self.header.is_control or self.is_aborted or self.producer_id in filler_ids
        return self.is_filler and (is_known or is_aborted(self))

    @property
    def coordinator_epoch(self) -> int:
        """Of a transaction marker (`org.apache.kafka.common.record.EndTransactionMarker`)."""
        (marker,) = decode_records(self.data)
        return _MARKER.unpack_from(marker.value or b"")[1]  # type: ignore[no-any-return]

    @property
    def fills_start(self) -> bool:
        """Whether its bytes are those of `kafka.start_filler`."""
        return not (self.header.is_control or self.header.is_transactional) and self._is_encoded_empty

    @property
    def may_fill_start(self) -> bool:
        """As `fills_start`, also where the broker has compressed them otherwise."""
        return not (self.header.is_control or self.header.is_transactional) and (
            self._is_encoded_empty or self._is_empty
        )

    @property
    def _is_encoded_empty(self) -> bool:
        return is_empty(self.body, self.header.records_count)

    @property
    def _is_empty(self) -> bool:
        """Also where the broker has compressed it otherwise."""
        try:
            return all(not (one.key or one.value or one.headers) for one in decode_records(self.data))
        except ProtocolError:
            return False


class OwnerReader:
    """Reads batches of one partition over one connection, which is opened when it is first needed."""

    def __init__(self, settings: ClientSettings, where: TopicPartition) -> None:
        self._search = LeaderSearch(settings)
        self._where = where
        self._link: Link | None = None

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def read(self, first: int, stop: int, *, is_committed: bool = False, epoch: int = NO_EPOCH) -> Iterator[OwnedBatch]:
        """The batches from offset `first` up to `stop`, in order, once all in-sync replicas have them; `epoch` is that
        of the record before `first`.

        Raises ClusterError, ClusterUnreachable where nothing comes for 30 s, since what lies above the high watermark,
        or with `is_committed` the last stable offset, is not sent; LogParted where the log was cut below `first`. After
        an error the next reading opens another connection.
        """
        silent_at = time.monotonic() + _SILENCE_SECONDS
        while first < stop:
            for batch in self._fetch(first, is_committed, epoch):
                if batch.first >= stop:
                    return
                if batch.stop > first:
                    yield batch
                    first, silent_at = batch.stop, time.monotonic() + _SILENCE_SECONDS
                    epoch = NO_EPOCH
            if first < stop and time.monotonic() > silent_at:
                raise ClusterUnreachable(f"{self._where}: nothing comes from offset {first} on, and {stop} is its end")

    def look(self, first: int, *, is_committed: bool = False, bytes_max: int = _BYTES_MAX) -> list[OwnedBatch]:
        """The batches of one answer from offset `first` on, at least one where there is one that may be read. Raises as
        `read`."""
        return [batch for batch in self._fetch(first, is_committed, NO_EPOCH, bytes_max) if batch.stop > first]

    def is_aborted(self, batch: OwnedBatch) -> bool:
        """Whether its transaction was aborted, as the leader tells who reads committed records. Raises as `read`, also
        where it is open for 30 s more."""
        again = self.read(batch.first, batch.stop, is_committed=True)
        return any(one.is_aborted for one in again if one.first == batch.first)

    def parted(self, offset: int, epoch: int) -> tuple[int, int] | None:
        """None where the log has the record of that epoch before `offset`, else its last epoch that is not later, and
        where that ends. The log must reach over `offset`. Raises as `read`."""
        try:
            self._fetch(offset, is_committed=False, epoch=epoch, bytes_max=1, wait_ms=0)
        except LogParted as found:
            return found.epoch, found.end
        except UnknownEpoch:
            return epoch - 1, offset
        return None

    def _fetch(
        self, first: int, is_committed: bool, epoch: int, bytes_max: int = _BYTES_MAX, wait_ms: int = _WAIT_MS
    ) -> list[OwnedBatch]:
        try:
            link = self._connect()
            with sensible_answers(link):
                request = _request(self._where, first, is_committed, epoch, bytes_max, wait_ms)
                answer: Any = link.ask(request, FetchResponse, link.version(_FETCH, _VERSIONS))
                found = answer.responses[0].partitions[0]
                batches = list(_batches(found))
        except ProtocolError:
            self.close()
            raise
        except OSError as broken:
            self.close()
            raise ClusterUnreachable(f"the leader of {self._where} broke off the connection: {broken}") from broken
        if found.error_code != NO_ERROR:
            self.close()
            is_unknown = found.error_code == _OFFSET_OUT_OF_RANGE and epoch != NO_EPOCH
            kind = UnknownEpoch if is_unknown else ClusterUnreachable
            raise kind(f"{self._where} cannot be read: {error_name(found.error_code)}")
        if found.diverging_epoch is not None and found.diverging_epoch.end_offset >= 0:
            ended = found.diverging_epoch.epoch, found.diverging_epoch.end_offset
            raise LogParted(f"{self._where} ends at offset {ended[1]} in epoch {epoch}", *ended)
        return batches

    def _connect(self) -> Link:
        if self._link is None or time.monotonic() >= self._link.reauthenticate_at:
            self.close()
            self._link, _ = self._search.dial(self._where)
        return self._link


def read_owners(
    settings: ClientSettings,
    where: TopicPartition,
    first: int,
    stop: int,
    *,
    is_committed: bool = False,
    epoch: int = NO_EPOCH,
) -> Iterator[OwnedBatch]:
    """As `OwnerReader.read`, over a connection of its own."""
    with closing(OwnerReader(settings, where)) as reader:
        yield from reader.read(first, stop, is_committed=is_committed, epoch=epoch)


def parted_from(settings: ClientSettings, where: TopicPartition, offset: int, epoch: int) -> tuple[int, int] | None:
    """As `OwnerReader.parted`, over a connection of its own."""
    with closing(OwnerReader(settings, where)) as reader:
        return reader.parted(offset, epoch)


def _batches(found: Any) -> Iterator[OwnedBatch]:
    """Those of one answer. An aborted transaction ends at its producer's next marker (KIP-98)."""
    content = memoryview(bytes(found.records or b""))
    waiting = deque(sorted((one.first_offset, one.producer_id) for one in found.aborted_transactions or ()))
    aborting: set[int] = set()
    for at, header in iterate_headers(content, 0, len(content)):
        while waiting and waiting[0][0] < header.next_offset:
            aborting.add(waiting.popleft()[1])
        is_aborted = header.is_transactional and header.producer_id in aborting
        if header.is_control:
            aborting.discard(header.producer_id)
        yield OwnedBatch(header, content[at : at + header.total_bytes], is_aborted)


def _request(where: TopicPartition, offset: int, is_committed: bool, epoch: int, bytes_max: int, wait_ms: int) -> Any:
    topic_class = FetchRequest.FetchTopic
    partition = topic_class.FetchPartition(
        partition=where.partition,
        current_leader_epoch=-1,
        fetch_offset=offset,
        last_fetched_epoch=epoch,
        log_start_offset=-1,
        partition_max_bytes=bytes_max,
    )
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=bytes_max,
        isolation_level=int(is_committed),
        session_id=0,
        session_epoch=-1,
        topics=[topic_class(topic=where.topic, partitions=[partition])],
        forgotten_topics_data=[],
        rack_id="",
    )
