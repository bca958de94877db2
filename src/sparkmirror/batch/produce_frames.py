"""Encodes produce requests of small batches, and reads the answers that say nothing unusual of them; compiled.

Parts of the kernel of `batch.produce_turns`, whose tables they use.

Source: https://kafka.apache.org/protocol, ProduceRequest and ProduceResponse v9 to v13.
"""

from typing import Final

import numpy as np

from sparkmirror.batch.compiled_numbers import big_endian, put_big_endian, write_uvarint
from sparkmirror.batch.kernels import copy_bytes
from sparkmirror.batch.machine_code import Bytes, Int64, Integers, part
from sparkmirror.batch.produce_turn_rows import (
    BEHIND_RUN,
    CONNECTION,
    CORRELATED,
    END,
    FIRST_RUN,
    HEAD_AT,
    HEAD_BYTES,
    PARTITION,
    PENDING,
    REQUEST,
    ROW,
    TARGET_OFFSET,
    TOPIC,
    TOPIC_AT,
    TOPIC_BYTES,
    UNDER_WAY,
)
from sparkmirror.batch.ready_rows import AT, JOINED, OUTCOME, RECORDS
from sparkmirror.batch.ready_rows import BYTES as BATCH_BYTES

_CORRELATION_AT: Final = 8
_PRODUCED_BYTES: Final = 33
_ANSWER_TAIL_BYTES: Final = 6
_OFFSET_MAX: Final = 1 << 62
_NONE: Final = -1


@part
def encode_request(
    frame: Bytes, number: Int64, connections: Integers, table: Integers, topics: Integers, heads: Bytes,
    runs: Integers, memory: Bytes, room: Bytes, request: Int64,
) -> Int64:  # fmt: skip
    """The request of the turn's batches over a connection. Returns its size in bytes."""
    over, named, topic = connections[number], np.int64(0), np.int64(_NONE)
    for row in range(table.shape[0]):
        if table[row, CONNECTION] == number and table[row, PENDING] >= 0 and table[row, TOPIC] != topic:
            topic = table[row, TOPIC]
            named += 1
    at = copy_bytes(frame, 0, heads, over[HEAD_AT], over[HEAD_BYTES])
    put_big_endian(frame, _CORRELATION_AT, over[CORRELATED], 4)
    at = write_uvarint(frame, at, np.uint64(named + 1))
    topic = np.int64(_NONE)
    for index in range(table.shape[0]):
        row = table[index]
        if row[CONNECTION] != number or row[PENDING] < 0:
            continue
        if row[TOPIC] != topic:
            if topic >= 0:
                frame[at] = 0
                at += 1
            topic, members = row[TOPIC], np.int64(0)
            for other in range(index, table.shape[0]):
                members += table[other, TOPIC] == topic and table[other, PENDING] >= 0
            at = copy_bytes(frame, at, heads, topics[topic, TOPIC_AT], topics[topic, TOPIC_BYTES])
            at = write_uvarint(frame, at, np.uint64(members + 1))
        run = runs[row[PENDING]]
        run[REQUEST] = request
        row[PENDING] = _NONE
        put_big_endian(frame, at, row[PARTITION], 4)
        at = write_uvarint(frame, at + 4, np.uint64(run[BATCH_BYTES] + 1))
        if run[OUTCOME] == JOINED:
            at = copy_bytes(frame, at, room, run[AT], run[BATCH_BYTES])
        else:
            at = copy_bytes(frame, at, memory, run[AT], run[BATCH_BYTES])
        frame[at] = 0
        at += 1
    frame[at], frame[at + 1] = 0, 0
    put_big_endian(frame, 0, at - 2, 4)
    return at + 2


@part
def _find_topic(
    runs: Integers, request: Integers, number: Int64, table: Integers, topics: Integers, heads: Bytes, inbox: Bytes,
    at: Int64, stop: Int64,
) -> Int64:  # fmt: skip
    """The topic of the request's whose key stands there: none begins as another."""
    for index in range(request[FIRST_RUN], request[BEHIND_RUN]):
        if runs[index, REQUEST] != number:
            continue
        found = table[runs[index, ROW], TOPIC]
        topic = topics[found]
        is_same = topic[TOPIC_BYTES] <= stop - at
        for byte in range(topic[TOPIC_BYTES] if is_same else np.int64(0)):
            is_same = is_same and inbox[at + byte] == heads[topic[TOPIC_AT] + byte]
        if is_same:
            return found
    return np.int64(_NONE)


@part
def _find_run(
    runs: Integers, request: Integers, number: Int64, table: Integers, topic: Int64, partition: Int64
) -> Int64:
    """The run of a request which went to that partition."""
    for index in range(request[FIRST_RUN], request[BEHIND_RUN]):
        if runs[index, REQUEST] == number:
            row = table[runs[index, ROW]]
            if row[TOPIC] == topic and row[PARTITION] == partition:
                return np.int64(index)
    return np.int64(_NONE)


@part
def _carries(runs: Integers, request: Integers, number: Int64) -> Int64:
    """How many batches a request carries."""
    carried = np.int64(0)
    for index in range(request[FIRST_RUN], request[BEHIND_RUN]):
        carried += runs[index, REQUEST] == number
    return carried


@part
def read_answer(
    inbox: Bytes, at: Int64, stop: Int64, number: Int64, runs: Integers, requests: Integers, table: Integers,
    topics: Integers, heads: Bytes, takes: bool,
) -> bool:  # fmt: skip
    """Whether the answer says of each batch of the request, and of no other, that it was written behind those before.
    If `takes`, which must be so then, their places are noted."""
    request, found = requests[number], np.int64(0)
    if stop - at < _ANSWER_TAIL_BYTES or inbox[at] or not 1 < inbox[at + 1] < 0x80:
        return False
    named = np.int64(inbox[at + 1]) - 1
    at += 2
    for _ in range(named):
        topic = _find_topic(runs, request, number, table, topics, heads, inbox, at, stop)
        if topic < 0:
            return False
        at += topics[topic, TOPIC_BYTES]
        if stop - at < _ANSWER_TAIL_BYTES or not 1 < inbox[at] < 0x80:
            return False
        members = np.int64(inbox[at]) - 1
        at += 1
        for _ in range(members):
            if stop - at < _PRODUCED_BYTES + _ANSWER_TAIL_BYTES:
                return False
            partition = big_endian(inbox, at, 4)
            index = _find_run(runs, request, number, table, topic, partition)
            if index < 0 or big_endian(inbox, at + 4, 2) or inbox[at + 30] != 1 or inbox[at + 31] or inbox[at + 32]:
                return False
            run = runs[index]
            row, base = table[run[ROW]], big_endian(inbox, at + 6, 8)
            if run[TARGET_OFFSET] >= 0 or base < row[END] or base > _OFFSET_MAX:
                return False
            if takes:
                run[TARGET_OFFSET] = base
                row[END] = base + run[RECORDS]
                row[UNDER_WAY] -= 1
            found += 1
            at += _PRODUCED_BYTES
        if inbox[at]:
            return False
        at += 1
    return bool(
        found == _carries(runs, request, number)
        and stop - at == 5
        and big_endian(inbox, at, 4) == 0
        and not inbox[at + 4]
    )
