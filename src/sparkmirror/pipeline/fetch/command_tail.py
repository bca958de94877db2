"""Follows the command topic inside a reader's selector loop, by a long-polling fetch of its one partition.

The topic is on the target cluster. After any error the reader tries again: a task without commands still mirrors. Its
leader is looked up again from time to time: one that is cut off from the others goes on answering, with nothing. Owned
by `pipeline.fetch.reader`.
"""

import logging
import selectors
from collections.abc import Sequence
from math import inf
from typing import NamedTuple
from uuid import UUID

from sparkmirror.batch.header import iterate_headers
from sparkmirror.batch.records import Record, decode_records
from sparkmirror.batch.unpacking import INTERNAL_BYTES_MAX
from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.control.commands import Command, decode_command
from sparkmirror.errors import ProtocolError
from sparkmirror.kafka.background import Background, Outcome
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.data_requests import FetchPosition
from sparkmirror.kafka.wire.leader_search import LeaderSearch
from sparkmirror.kafka.wire.link import Link
from sparkmirror.model import NO_EPOCH, NO_TOPIC_ID, TopicPartition
from sparkmirror.pipeline.fetch.connection import FetchConnection, FetchLimits
from sparkmirror.pipeline.fetch.fetch_session import SESSION_LOST
from sparkmirror.pipeline.relay.private_memory import PrivateMemory

log = logging.getLogger(__name__)

DIAL_KEY = "command-topic"
_RETRY_SECONDS = 1.0
_POLL_SECONDS = 5.0
_AGE_SECONDS_MIN = 1.0
_OFFSET_OUT_OF_RANGE = 1


class Dialled(NamedTuple):
    """A connection to the topic's leader, by what the look-up said, and where to go on."""

    link: Link
    topic_id: UUID
    offset: int
    epoch: int = NO_EPOCH


class CommandTail:
    """Reads commands from `offset` on."""

    def __init__(
        self,
        settings: ClientSettings,
        topic: str,
        offset: int,
        background: Background,
        selector: selectors.BaseSelector,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._settings = settings
        self._topic = topic
        self._offset = offset
        self._background = background
        self._selector = selector
        self._clock = clock
        self._search = LeaderSearch(settings)
        self._topic_id = NO_TOPIC_ID
        self._epoch = NO_EPOCH
        self._not_before = 0.0
        self._renew_at = inf
        self._is_lost = False
        self.connection: FetchConnection | None = None

    def connect(self) -> None:
        """Start to look for the topic's leader, unless that is under way or was tried a moment ago.

        A connection that has fallen silent, or is old, is given up: no other sign would come that commands go unheard.
        """
        now = self._clock.monotonic()
        if self.connection is not None and self.connection.is_silent(now, self._silence_seconds_max):
            self._give_up(self.connection)
        if self.connection is not None and now >= self._renew_at:
            self._give_up(self.connection)
        if self.connection is None and now >= self._not_before:
            self._not_before = now + _RETRY_SECONDS
            self._background.submit(DIAL_KEY, self._dial)

    @property
    def _silence_seconds_max(self) -> float:
        return _POLL_SECONDS + self._settings.request_timeout_seconds

    def _dial(self) -> Dialled:
        where = TopicPartition(self._topic, 0)
        offset = self._find_offset(where) if self._is_lost else self._offset
        link, view = self._search.dial(where)
        return Dialled(link, view.topic_ids[self._topic], offset, view.epochs.get(where, NO_EPOCH))

    def _find_offset(self, where: TopicPartition) -> int:
        """Where the log begins, unless it holds the offset: a broker that leads no more, or did not yet, refused it."""
        span = self._search.span(where)
        return self._offset if span.start <= self._offset <= span.end else span.start

    def take_link(self, outcome: Outcome) -> None:
        """Follow the topic over the new connection; after a failed dial, try again in a moment."""
        if outcome.error is None:
            try:
                connection = self._adopt(outcome.result)
            except (OSError, ProtocolError):
                self.drop()
                return
            self._selector.register(connection.link.socket, selectors.EVENT_READ, DIAL_KEY)

    def take_commands(self) -> list[Command]:
        """The commands that a readable socket brought; then the next poll is sent. A connection that breaks is opened
        again: what was read before counts, as nothing reads it once more."""
        assert self.connection is not None
        found: list[Command] = []
        try:
            if self._receive(found):
                self._ask()
        except (OSError, ProtocolError):
            self._give_up(self.connection)
        return found

    def _give_up(self, connection: FetchConnection) -> None:
        self._selector.unregister(connection.link.socket)
        self.drop()

    def _adopt(self, dialled: Dialled) -> FetchConnection:
        link, self._topic_id, self._offset, self._epoch = dialled
        self._is_lost = False
        age_seconds = max(self._settings.metadata_age_seconds_max, _AGE_SECONDS_MIN)
        self._renew_at = min(self._clock.monotonic() + age_seconds, link.reauthenticate_at)
        limits = FetchLimits(wait_ms=int(_POLL_SECONDS * 1000), bytes_max=1 << 20)
        self.connection = FetchConnection(link, PrivateMemory(), limits, self._clock)
        self._ask()
        return self.connection

    def _ask(self) -> None:
        """Send the next long poll. Raises OSError."""
        assert self.connection is not None
        key = self._topic_id.bytes if self.connection.by_id else self._topic
        self.connection.send({(key, 0): FetchPosition(key, 0, self._offset, NO_EPOCH, 1 << 20, self._epoch)})

    def _receive(self, found: list[Command]) -> bool:
        """Add the commands that a readable socket brought, in steps with the offset to go on at; whether there was a
        whole answer. Raises OSError or ProtocolError."""
        assert self.connection is not None
        frame = self.connection.receive()
        if frame is None:
            return False
        response = self.connection.decode(frame)
        if response.error and response.error not in SESSION_LOST:
            raise ConnectionError(f"the command topic's leader answered with error {response.error}")
        for fetched in response.partitions:
            if fetched.error == _OFFSET_OUT_OF_RANGE:
                self._is_lost = True  # the answer does not say where the log begins
                raise ConnectionError(f"the command topic no longer holds offset {self._offset}")
            if fetched.error:
                raise ConnectionError(f"the command topic answered with error {fetched.error}")
            self._decode(found, frame.buffer, fetched.start, fetched.stop)
        return True

    def _decode(self, found: list[Command], buffer: memoryview, start: int, stop: int) -> None:
        for at, header in iterate_headers(buffer, start, stop):
            if not header.is_control:
                for record in self._records(buffer[at : at + header.total_bytes], header.base_offset):
                    command = decode_command(record.value) if record.offset >= self._offset else None
                    if command is not None:
                        found.append(command)
            self._offset = max(self._offset, header.next_offset)

    def _records(self, batch: memoryview, offset: int) -> Sequence[Record]:
        """An unreadable batch gives no records: no SparkMirror process wrote it, and reading it again would block the
        topic."""
        try:
            return decode_records(batch, INTERNAL_BYTES_MAX)
        except ProtocolError as problem:
            log.warning("The record batch at offset %d of %s is passed over: %s", offset, self._topic, problem)
            return ()

    def drop(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None
