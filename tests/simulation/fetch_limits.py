"""What brokers send where a Fetch limits the bytes: a part of the script of `conversation.py`.

They cut records off where the limit is, within a batch, as they send a piece of the file (LogSegment.read and
ReplicaManager.readFromLog of Apache Kafka 4.3). One batch comes whole whatever its size: the first one of the first
partition that has records (KIP-74). Partitions of a session that had records are last in its next answer.
"""

import time
from dataclasses import dataclass
from typing import Any

from tests.simulation.conversation import Conversation

from sparkmirror.batch.header import LOG_OVERHEAD_BYTES, iterate_headers
from sparkmirror.kafka.wire import data_requests as wire
from sparkmirror.kafka.wire.data_requests import FetchPosition

_MUCH = 1 << 20
_NO_SESSION = (0, -1)


@dataclass(slots=True)
class _Limited:
    """Fetches of two topics, of which either may be left out."""

    talk: Conversation
    keys: list[bytes | str]
    version: int

    def note(
        self, label: str, offsets: list[int], *, partition: int = _MUCH, all_in_all: int = _MUCH,
        session: tuple[int, int] = _NO_SESSION, committed: bool = False,
    ) -> int:  # fmt: skip
        """Of each topic in the answer's order: which one, bytes of records, whole batches, and what is aborted."""
        body = wire.encode_fetch(
            self.version, session_id=session[0], session_epoch=session[1],
            positions=[FetchPosition(key, 0, at, -1, partition) for key, at in zip(self.keys, offsets, strict=False)],
            wait_ms=50, bytes_min=1, bytes_max=all_in_all, read_committed=committed,
        )  # fmt: skip
        buffer = self.talk.send(wire.FETCH, self.version, body)
        found = wire.decode_fetch(self.version, buffer)
        shown: list[Any] = []
        for one in found.partitions:
            whole = [header.base_offset for _, header in iterate_headers(buffer, one.start, one.stop)]
            aborted = sorted(mark.first_offset for mark in one.aborted)
            shown.append((self.keys.index(one.topic_key), one.error, one.stop - one.start, whole, aborted))
        self.talk.note(label, found.error, shown)
        return found.session_id

    def sizes(self) -> list[int]:
        """Of the first topic's batches."""
        position = FetchPosition(self.keys[0], 0, 0, -1, _MUCH)
        body = wire.encode_fetch(
            self.version, session_id=0, session_epoch=-1, positions=[position], wait_ms=50, bytes_min=1,
            bytes_max=_MUCH, read_committed=False,
        )  # fmt: skip
        buffer = self.talk.send(wire.FETCH, self.version, body)
        (one,) = wire.decode_fetch(self.version, buffer).partitions
        found = [header.batch_length + LOG_OVERHEAD_BYTES for _, header in iterate_headers(buffer, one.start, one.stop)]
        self.talk.note("sizes", found)
        return found


def converse_of_limits(talk: Conversation, topic: str) -> None:
    """Two topics of its own: the first has five batches, of which a transaction aborts the fourth, and the fifth is
    its marker."""
    names = [f"{topic}-limits-{number}" for number in range(2)]
    keys: list[bytes | str] = []
    plain, name, version = talk.initialize("an id for limits", None), "script-7", min(11, talk.produce_version)
    for one in names:
        talk.create("for limits", one, 1)
        talk.nap(0.5)
        keys.append(talk.topic_id(one).bytes if talk.fetch_version >= wire.TOPIC_ID_FETCH else one)
    filler = talk.initialize("an id that aborts", name)
    now_ms = time.time_ns() // 1_000_000  # no answer has records of two segments, and old records are followed by one
    for one in names:
        put = talk.topic_id(one).bytes if talk.produce_version >= wire.TOPIC_ID_PRODUCE else one
        for sequence, records in ((0, 1), (1, 20), (21, 1)):
            talk.produce("for limits", put, plain, sequence, records=records, time_ms=now_ms)
    talk.add("to be aborted, behind limits", name, filler, names[0])
    talk.produce(
        "to be aborted, behind limits", names[0], filler, 0, transactional_id=name, version=version, time_ms=now_ms
    )
    talk.end("abort behind limits", name, filler, commits=False)
    asked = _Limited(talk, keys, talk.fetch_version)
    first, second, *_ = asked.sizes()
    for limit in (0, 1, 30, first - 1, first, first + 1, first + 17, first + 61, first + second - 1, first + second):
        asked.note(f"{limit} bytes of a partition", [0], partition=limit)
        asked.note(f"{limit} bytes in all", [0], all_in_all=limit)
    asked.note("the middle of a batch", [5], partition=first)
    asked.note("two topics, a limit each within the first batch", [0, 0], partition=first - 1)
    asked.note("two topics, a limit each within the second batch", [0, 0], partition=first + 5)
    asked.note("two topics, and one batch in all", [0, 0], all_in_all=first)
    asked.note("two topics, and a bit more in all", [0, 0], all_in_all=first + 5)
    asked.note("two topics, and two batches in all", [0, 0], all_in_all=2 * first + 5)
    for limit in (first + 5, first + second):
        asked.note(f"{limit} bytes before what is aborted", [0], partition=limit, committed=True)
    asked.note("the end of what is aborted", [22], partition=first, committed=True)
    session = asked.note("a session", [0, 0], partition=first, session=(0, 0))
    asked.note("who had records is last", [1, 1], partition=first, session=(session, 1))
    asked.note("nothing of the first", [24], partition=first, session=(session, 2))
    asked.note("the first again", [0], partition=first, session=(session, 3))
