"""Keeps the books of the turns that compiled code has taken (`pipeline.produce.turn_tables`), of many at once.

What is acknowledged is summed up by partition: it went out, and was written, in its order, and nothing else was under
way. Of the rest, what else is done when a batch goes out is done now. Owned by `pipeline.produce.plain_turns`.
"""

import struct
from collections.abc import Sequence
from math import inf
from typing import Final

from sparkmirror.batch.header import HEADER_BYTES, Codec
from sparkmirror.batch.piece import Span
from sparkmirror.batch.produce_turn_rows import (
    ANNOUNCED_RECORDS,
    ANSWERED_NS,
    BEHIND_RUN,
    CAME_MS,
    CORRELATION,
    FETCHED_AT_MS,
    FIRST_RUN,
    HIGH,
    LEASED,
    LENGTH,
    MAX_TIMESTAMP,
    NEXT_OFFSET,
    OVER,
    REQUEST,
    ROW,
    SENT_BYTES,
    SENT_NS,
    TARGET_OFFSET,
)
from sparkmirror.batch.ready_rows import AT, BASE_OFFSET, BYTES, CODEC, FIRST_OFFSET, OUTCOME, RECORDS, SIZE
from sparkmirror.pipeline.produce.connection import Part, ProduceConnection
from sparkmirror.pipeline.produce.ready_batches import ReadyBatch
from sparkmirror.pipeline.produce.task_metrics import TIMES_AT
from sparkmirror.pipeline.produce.task_parts import Parts
from sparkmirror.pipeline.produce.turn_tables import NS, Followed, Row, TurnTables
from sparkmirror.pipeline.relay.board import Announcement
from sparkmirror.pipeline.relay.ring import RingPeer

_times: Final = struct.Struct(">qq").unpack_from
"""Of a batch's header: when its first and its newest record were produced."""


class _Written:
    """What of a partition was acknowledged: its last places, and spans of it, each with its place on the target."""

    __slots__ = ("end", "next_offset", "now", "records", "seconds", "spans")

    def __init__(self) -> None:
        self.next_offset = self.end = -1
        self.records = 0
        self.now, self.seconds = 0.0, inf
        self.spans: list[tuple[int, int, int]] = []

    def add(self, base_offset: int, records: int, target: int) -> None:
        """Records that lie behind those before on both sides belong to their span."""
        self.records += records
        if self.spans:
            first, count, place = self.spans[-1]
            if first + count == base_offset and place + count == target:
                self.spans[-1] = (first, count + records, place)
                return
        self.spans.append((base_offset, records, target))


class TurnBooks:
    """Of one task."""

    def __init__(self, peer: RingPeer | None, parts: Parts) -> None:
        self._peer = peer
        self._parts = parts

    def keep(self, tables: TurnTables, followed: Sequence[Followed], connections: Sequence[ProduceConnection]) -> int:
        """All that was sent and answered is so now. Returns how many runs that were."""
        runs, requests = tables.runs, tables.requests
        written: dict[int, _Written] = {}
        for number, request in enumerate(requests):
            if request[ANSWERED_NS]:
                own = _carried(runs, number, request)
                seconds = (request[ANSWERED_NS] - request[SENT_NS]) / NS
                self._sum_up(tables, request, seconds, own, followed, written)
                size = sum([run[BYTES] for run in own])
                connections[request[OVER]].note_answered(request[CORRELATION], seconds, size)
        for row, one in written.items():
            self._note_written(followed[row], one)
        self._owe(tables, runs, requests, followed, connections)
        return len(runs)

    def _sum_up(
        self, tables: TurnTables, request: Row, seconds: float, runs: Sequence[Row], followed: Sequence[Followed],
        written: dict[int, _Written],
    ) -> None:  # fmt: skip
        """The broker has written all batches of a request, which became of these runs, within so many seconds."""
        peer, metrics = self._peer, self._parts.task_metrics
        assert peer is not None, "only a reader's memory is leased"
        now, came_ms = request[ANSWERED_NS] / NS, request[CAME_MS]
        for run in runs:
            row, memory, at = run[ROW], tables.memory(run[OUTCOME]), run[AT]
            buffer, one = followed[row].buffer, written.get(row)
            if one is None:
                one = written[row] = _Written()
            first_ms, latest_ms = _times(memory, at + TIMES_AT)
            arrived = run[FIRST_OFFSET], run[HIGH], run[MAX_TIMESTAMP], run[FETCHED_AT_MS], run[ANNOUNCED_RECORDS]
            metrics.passed(buffer, arrived, run[RECORDS], run[BYTES], first_ms, latest_ms, came_ms)
            if run[CODEC]:
                buffer.unpacking.note_passed(Codec(run[CODEC]), memory[at + HEADER_BYTES : at + run[BYTES]])
            one.add(run[BASE_OFFSET], run[RECORDS], run[TARGET_OFFSET])
            one.next_offset, one.end = run[NEXT_OFFSET], run[TARGET_OFFSET] + run[RECORDS]
            one.now, one.seconds = now, min(one.seconds, seconds)
            peer.give_back(run[LEASED])

    def _note_written(self, followed: Followed, written: _Written) -> None:
        parts, buffer = self._parts, followed.buffer
        parts.direct.note_distance(buffer)
        buffer.pass_written(written.next_offset, written.records, written.end, written.now, written.seconds)
        parts.progress.map_spans(
            buffer.source, [(target, Span(*span)) for *span, target in written.spans], buffer.lineage
        )
        parts.isolation.after_progress(buffer)

    def _owe(
        self, tables: TurnTables, runs: Sequence[Row], requests: Sequence[Row], followed: Sequence[Followed],
        connections: Sequence[ProduceConnection],
    ) -> None:  # fmt: skip
        """What is not answered is under way, and what has not gone out whole goes on."""
        rest: list[tuple[Row, list[Part]]] = []
        for number, request in enumerate(requests):
            if not request[ANSWERED_NS]:
                own = sorted(_carried(runs, number, request), key=_row)
                sent_at = request[SENT_NS] / NS
                items = [self._enter(tables, run, followed[run[ROW]], sent_at) for run in own]
                connections[request[OVER]].note_sent(request[CORRELATION], sent_at, items)
                if request[SENT_BYTES] < request[LENGTH]:
                    rest.append((request, items))
        for connection, received in zip(connections, tables.received(), strict=True):
            if received:
                connection.take_back(received)
        for request, items in rest:
            connection = connections[request[OVER]]
            self._parts.dispatch.send_rest(connection, request[CORRELATION], items, request[SENT_BYTES])

    def _enter(self, tables: TurnTables, run: Row, followed: Followed, sent_at: float) -> Part:
        """A batch has gone out."""
        data = tables.memory(run[OUTCOME])[run[AT] : run[AT] + run[BYTES]]
        ready = ReadyBatch(data, run[BASE_OFFSET], run[RECORDS], run[CODEC])
        announced = Announcement(
            followed.slot, run[ANNOUNCED_RECORDS], run[SIZE], 0, run[FIRST_OFFSET], run[NEXT_OFFSET], run[LEASED],
            run[MAX_TIMESTAMP], run[HIGH], run[FETCHED_AT_MS],
        )  # fmt: skip
        return followed.key, followed.buffer, self._parts.direct.enter(followed.buffer, announced, ready, sent_at)


def _carried(runs: Sequence[Row], number: int, request: Row) -> list[Row]:
    """The runs that a request carries."""
    return [run for run in runs[request[FIRST_RUN] : request[BEHIND_RUN]] if run[REQUEST] == number]


def _row(run: Row) -> int:
    return run[ROW]
