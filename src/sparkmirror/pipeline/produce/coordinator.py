"""The sender's connection to its transaction coordinator. It finds the coordinator, asks one question at a time, and
finds the coordinator again when it has moved.

Nothing here blocks: finding and dialling run in `kafka.background`. After a passing error (a coordinator that moves or
loads, a transaction that is still being completed) the question is asked again; only definite answers come out. Owned
by `pipeline.produce.transaction`.
"""

import selectors
import ssl
import struct
import time
from contextlib import suppress
from typing import Final

from sparkmirror.errors import ProtocolError
from sparkmirror.kafka.background import Background, Outcome
from sparkmirror.kafka.errors import CONCURRENT_TRANSACTIONS, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_MOVED
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.coordinator import Answer, Question, find, speaks_second_protocol
from sparkmirror.kafka.wire.link import Link
from sparkmirror.kafka.wire.lookup import with_servers_from

KEY: Final = "transaction-coordinator"
_PASSING = frozenset({COORDINATOR_LOAD_IN_PROGRESS, CONCURRENT_TRANSACTIONS})
_PAUSE_SECONDS: Final = 0.005
_PAUSE_SECONDS_MAX: Final = 0.5
_DIAL_PAUSE_SECONDS: Final = 0.2
_ANSWER_BYTES_MAX: Final = 16 << 20
_LENGTH = struct.Struct(">i")
_NEVER: Final = float("inf")


class Coordinator:
    """Call `ask`, then `serve` when the socket is readable and `poll` now and then, until `serve` returns an answer."""

    def __init__(
        self,
        settings: ClientSettings,
        transactional_id: str,
        background: Background,
        selector: selectors.BaseSelector,
        answer_seconds_max: float,
    ) -> None:
        self._settings = settings
        self._transactional_id = transactional_id
        self.key = f"{KEY} {transactional_id}"
        self._background = background
        self._selector = selector
        self._answer_seconds_max = answer_seconds_max
        self._link: Link | None = None
        self._question: Question | None = None
        self._asked_at = 0.0
        self._ask_at = _NEVER
        self._pause = _PAUSE_SECONDS
        self._dial_at = 0.0
        self._turn = 0
        self._in = bytearray()
        self.second_protocol: bool | None = None
        self.problem = ""

    @property
    def busy(self) -> bool:
        """Whether a question has no answer yet."""
        return self._question is not None

    @property
    def wake_at(self) -> float:
        """Monotonic time at which `poll` is due, if nothing happens before."""
        return self._dial_at if self._link is None else self._ask_at

    def ask(self, question: Question) -> None:
        """Ask a question. It replaces one that has no answer yet, whose answer is then ignored."""
        if self.busy and self._asked_at:
            self._drop()
        self._question = question
        self._asked_at = 0.0
        self._ask_at = 0.0
        self._pause = _PAUSE_SECONDS
        self.poll(time.monotonic())

    def poll(self, now: float) -> None:
        """Find the coordinator, ask when the question is due, and drop a connection that is silent for too long."""
        if self._link is None:
            if now >= self._dial_at:
                self._dial_at = now + _DIAL_PAUSE_SECONDS
                self._background.submit(self.key, self._find)
        elif self._question is not None and now >= self._ask_at:
            self._send(self._link, self._question, now)
        elif self._is_silent(now) or (self._question is None and now >= self._link.reauthenticate_at):
            self._drop()

    def _find(self) -> Link:
        """Another server is asked first each time: one that is cut off from the others names a former coordinator."""
        turn, self._turn = self._turn, self._turn + 1
        return find(with_servers_from(self._settings, turn), self._transactional_id)

    def _is_silent(self, now: float) -> bool:
        return self._asked_at > 0 and now - self._asked_at > self._answer_seconds_max

    def take(self, outcome: Outcome) -> None:
        """Take the connection that `find` opened."""
        if outcome.error is not None:
            self.problem = str(outcome.error)
            return
        link: Link = outcome.result
        if self._link is not None:
            link.close()
            return
        self.problem = ""
        self._link = link
        self.second_protocol = speaks_second_protocol(link)
        link.socket.setblocking(False)
        self._selector.register(link.socket, selectors.EVENT_READ, self)
        self._in.clear()
        self._ask_at = 0.0 if self._question is not None else _NEVER
        self.poll(time.monotonic())

    def _send(self, link: Link, question: Question, now: float) -> None:
        """A question is small and the only one under way: the socket's buffer takes it whole."""
        self._ask_at = _NEVER
        self._asked_at = now
        try:
            link.socket.settimeout(5.0)
            link.socket.sendall(question.encode(link))
            link.socket.setblocking(False)
        except (OSError, ProtocolError) as problem:
            self.problem = str(problem)
            self._drop()

    def serve(self) -> Answer | None:
        """Read from the socket; the answer once it is complete and definite, else None."""
        link = self._link
        if link is None:
            return None
        try:
            frame = self._receive(link)
            if frame is None:
                return None
            if self._question is None or not self._asked_at:
                raise ProtocolError(f"broker {link.address} answered what it was not asked")
            answer = self._question.decode(link, frame)
        except (OSError, ProtocolError, ValueError, LookupError, struct.error) as problem:
            self.problem = str(problem)
            self._drop()
            return None
        return self._judge(answer)

    def _receive(self, link: Link) -> bytes | None:
        with suppress(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            while received := link.socket.recv(1 << 16):
                self._in += received
            raise ConnectionResetError(f"broker {link.address} closed the connection")
        if len(self._in) < 4:
            return None
        (size,) = _LENGTH.unpack_from(self._in)
        if not 4 <= size <= _ANSWER_BYTES_MAX:
            raise ProtocolError(f"broker {link.address} announced an answer of {size} bytes")
        if len(self._in) < 4 + size:
            return None
        frame = bytes(self._in[4 : 4 + size])
        del self._in[: 4 + size]
        return frame

    def _judge(self, answer: Answer) -> Answer | None:
        self._asked_at = 0.0
        if answer.error in COORDINATOR_MOVED:
            self._drop()
            return None
        if answer.error in _PASSING:
            self._ask_at = time.monotonic() + self._pause
            self._pause = min(self._pause * 1.5, _PAUSE_SECONDS_MAX)
            return None
        self._question = None
        return answer

    def _drop(self) -> None:
        """Close the connection, which broke or leads to a former coordinator. An open question is asked again of the
        next."""
        if self._link is not None:
            self._selector.unregister(self._link.socket)
            self._link.close()
            self._link = None
        self._asked_at = 0.0
        self._ask_at = _NEVER
        self._dial_at = time.monotonic() + _DIAL_PAUSE_SECONDS / 4

    def close(self) -> None:
        if self._link is not None:
            with suppress(KeyError, ValueError):  # the selector may be closed already
                self._selector.unregister(self._link.socket)
            self._link.close()
            self._link = None
