"""Reads small internal topics from the beginning and then follows them; opened by `kafka.clients.open_tail`.

Used by the ledger, and by the readers of the command and status topics. A `KafkaConsumer` without a group: partitions
are assigned by hand, nothing is committed, only committed records are seen unless a caller asks for all.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from kafka import KafkaConsumer
from kafka import TopicPartition as ClientPartition

from sparkmirror.batch.unpacking import INTERNAL_BYTES_MAX, UNPACKED_BYTES_MAX
from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.client_records import bound_batches, use_fast_checksums
from sparkmirror.kafka.client_setup import prepare_clients
from sparkmirror.kafka.connection import BOOTSTRAP_SECONDS_MAX, fail_fast_client
from sparkmirror.kafka.errors import translate
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.model import TopicPartition

_POLL_SECONDS_MAX = 0.5
_POLL_RECORDS_MAX = 5000
_SILENCE_SECONDS_MAX = 30.0
_QUIET_SECONDS = 2.0

WAIT_SECONDS: Final = 0.5
FOLLOWING_WAIT_SECONDS: Final = 5.0
"""An answer without a record costs the client a millisecond of CPU and more (measured)."""


@dataclass(frozen=True, slots=True)
class TailRecord:
    """One record as read. A None value is a tombstone."""

    partition: TopicPartition
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def place(self) -> str:
        """The place of the record, for people."""
        return f"topic {self.partition.topic}, partition {self.partition.partition}, offset {self.offset}"


class TopicTail:
    """Records of a fixed set of partitions, each partition in order. A context manager, for one thread."""

    def __init__(
        self,
        settings: ClientSettings,
        partitions: Sequence[TopicPartition],
        wait_seconds: float = WAIT_SECONDS,
        *,
        is_internal: bool = True,
        read_committed: bool = True,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Connects. A broker without new records answers after `wait_seconds`, and a `seek` waits for that.

        Of internal topics, a batch of more than 1 MiB unpacked is skipped and reported; of other topics, one of more
        than 128 MiB raises ProtocolError when it is polled. Raises ClusterUnreachable or AuthenticationFailed within 10
        s.
        """
        prepare_clients()
        use_fast_checksums()
        self._settings = settings
        self._clock = clock
        self._partitions = [ClientPartition(one.topic, one.partition) for one in partitions]
        self._held: list[TailRecord] = []
        """What a call had read that then raised: the client is behind it, and the next call brings it."""
        self._consumer = _open_consumer(
            settings, wait_seconds, "read_committed" if read_committed else "read_uncommitted"
        )
        bytes_max = INTERNAL_BYTES_MAX if is_internal else UNPACKED_BYTES_MAX
        bound_batches(self._consumer, bytes_max, passes_over=is_internal)
        self._consumer.assign(self._partitions)
        self._consumer.seek_to_beginning(*self._partitions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._consumer.close()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from `offset` instead of the beginning."""
        self._held = [record for record in self._held if record.partition != partition]
        self._consumer.seek(ClientPartition(partition.topic, partition.partition), offset)

    @property
    def may_have_news(self) -> bool:
        """Whether a `poll` could bring anything at once; not while the brokers have yet to answer what was asked.

        They answer as soon as there is a record, else after the tail's `wait_seconds`. A caller that looks again and
        again spares a millisecond of CPU by it, which a `poll` takes even then.
        """
        if self._held:
            return True
        fetcher = self._consumer._fetcher
        asked = list(fetcher._fetch_futures)
        is_buffered = bool(fetcher._completed_fetches or fetcher._next_partition_records)
        return is_buffered or not asked or any(one.is_done for one in asked)

    def poll(self, timeout_seconds: float) -> list[TailRecord]:
        """Records that arrive within the time; returns with the first ones. Raises AuthorizationFailed."""
        return self._take_held() or self._receive(timeout_seconds)

    def _take_held(self) -> list[TailRecord]:
        held, self._held = self._held, []
        return held

    def _receive(self, timeout_seconds: float) -> list[TailRecord]:
        try:
            batches = self._consumer.poll(timeout_ms=int(timeout_seconds * 1000))
        except Exception as error:
            raise translate(error, self._settings, f"reading {self._topics}") from error
        return [_record(record) for batch in batches.values() for record in batch]

    def read_to_end(self, seconds_max: float = 60.0) -> list[TailRecord]:
        """All records up to the ends as they are now, which open transactions hold back. What a call reads that then
        raises comes with the next one.

        A long topic may take its time: raises ClusterUnreachable when nothing has come nearer for `seconds_max`.
        """
        try:
            ends = self._consumer.end_offsets(self._partitions, timeout_ms=int(seconds_max * 1000))
        except Exception as error:
            raise translate(error, self._settings, f"reading {self._topics}") from error
        return self._read_to(ends, seconds_max)

    def read_to(
        self,
        ends: Mapping[TopicPartition, int],
        seconds_max: float = 60.0,
        when_quiet: Callable[[], None] | None = None,
    ) -> list[TailRecord]:
        """All records up to given high watermarks: what was open below them is waited for. `when_quiet` is called each
        time that nothing has come nearer for two seconds. Raises as `read_to_end`."""
        wanted = {ClientPartition(at.topic, at.partition): end for at, end in ends.items()}
        return self._read_to(wanted, seconds_max, when_quiet)

    def read_between(self, partition: TopicPartition, first: int, end: int) -> Iterator[TailRecord]:
        """The records of a tail's one partition from offset `first` on and below `end`, as they come.

        Markers are none, nor with `read_committed` what transactions aborted. Raises ClusterUnreachable when the
        cluster falls silent.
        """
        self.seek(partition, first)
        ends = {ClientPartition(partition.topic, partition.partition): end}
        silent_at = self._clock.monotonic() + _SILENCE_SECONDS_MAX
        while not self._has_reached(ends):
            for record in self.poll(_POLL_SECONDS_MAX):
                silent_at = self._clock.monotonic() + _SILENCE_SECONDS_MAX
                if record.offset < end:
                    yield record
            if self._clock.monotonic() > silent_at:
                raise ClusterUnreachable(f"Cluster {self._settings.alias} sends no more of {partition}.")

    def _read_to(
        self, ends: dict[Any, int], seconds_max: float, when_quiet: Callable[[], None] | None = None
    ) -> list[TailRecord]:
        moved_at = quiet_at = self._clock.monotonic()
        left = self._left(ends)
        while left:
            self._held += self._receive(_POLL_SECONDS_MAX)
            before, left = left, self._left(ends)
            now = self._clock.monotonic()
            if left < before:
                moved_at = quiet_at = now
            elif when_quiet is not None and now > quiet_at + _QUIET_SECONDS:
                when_quiet()
                quiet_at = self._clock.monotonic()  # it may have taken long, and have helped
            elif now > moved_at + seconds_max:
                raise self._silence(left, seconds_max)
        return self._take_held()

    def _silence(self, left: int, seconds: float) -> ClusterUnreachable:
        where = f"Cluster {self._settings.alias} ({', '.join(self._settings.bootstrap_servers)})"
        problem = f"{where}: {left:,} offsets of {self._topics} could not be read: nothing came for {seconds:.0f} s."
        return ClusterUnreachable(problem, "Check that all its brokers are up.")

    def has_reached(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether all records before these offsets were read; markers there count as read."""
        return self._has_reached({ClientPartition(at.topic, at.partition): end for at, end in ends.items()})

    def _has_reached(self, ends: dict[Any, int]) -> bool:
        return not self._left(ends)

    def _left(self, ends: dict[Any, int]) -> int:
        """How many offsets are still to be read before these ends."""
        # position() first asks the broker for a partition that was never polled: only then can it be None.
        return sum(max(end - (self._consumer.position(one, timeout_ms=1000) or 0), 0) for one, end in ends.items())

    @property
    def _topics(self) -> str:
        return "topic " + ", ".join(sorted({one.topic for one in self._partitions}))


def read_range(
    settings: ClientSettings, partition: TopicPartition, first: int, end: int, seconds_max: float = 10.0
) -> list[TailRecord]:
    """The committed records of a partition of the brokers' own from `first` up to `end`. Raises as `TopicTail`."""
    with TopicTail(settings, [partition], is_internal=False) as tail:
        tail.seek(partition, first)
        return [record for record in tail.read_to_end(seconds_max) if record.offset < end]


def _open_consumer(settings: ClientSettings, wait_seconds: float, isolation_level: str) -> Any:
    arguments = settings.client_arguments() | {"bootstrap_timeout_ms": int(BOOTSTRAP_SECONDS_MAX * 1000)}
    idle_ms = arguments["request_timeout_ms"] + 1000
    arguments["connections_max_idle_ms"] = max(arguments["connections_max_idle_ms"], idle_ms)
    net_client = fail_fast_client(arguments)
    try:
        return KafkaConsumer(
            kafka_client=lambda **_: net_client,
            group_id=None,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level=isolation_level,
            allow_auto_create_topics=False,
            fetch_max_wait_ms=min(int(wait_seconds * 1000), arguments["request_timeout_ms"] // 2),
            max_poll_records=_POLL_RECORDS_MAX,
            metrics_enabled=False,
            **arguments,
        )
    except Exception as error:
        net_client.close()
        raise translate(error, settings, "connecting") from error


def _record(record: Any) -> TailRecord:
    partition = TopicPartition(record.topic, record.partition)
    return TailRecord(partition, record.offset, record.timestamp, record.key, record.value, tuple(record.headers or ()))
