"""Takes turns of a sender that has nothing but announcements to send on, and answers without an error; compiled.

What `pipeline.produce.sender` does for a mirror that has caught up, for many turns in one call: wait for the reader,
take what it announces, make batches of it, send one request a connection, read the answers of those before. It ends
where anything unusual comes, which is then left as it was, for Python. `pipeline.produce.plain_turns` calls it, and
keeps the books of what it did.

Source: https://kafka.apache.org/protocol, ProduceRequest and ProduceResponse v9 to v13; `pipeline.relay.board`.
"""

from typing import Final

import numpy as np

from sparkmirror.batch.compiled_numbers import big_endian
from sparkmirror.batch.machine_code import BYTES, INTEGER, INTEGERS, ROOM, TABLE, Bytes, Int64, Integers, kernel, part
from sparkmirror.batch.merging import IN_FLIGHT_MAX
from sparkmirror.batch.produce_frames import encode_request, read_answer
from sparkmirror.batch.produce_turn_rows import (
    ANNOUNCED_RECORDS,
    ANSWER,
    ANSWERED_NS,
    BEHIND_RUN,
    CALLED,
    CAME_MS,
    CONNECTION,
    CORRELATED,
    CORRELATION,
    DESCRIPTOR,
    DUE,
    EPOCH,
    FETCHED_AT_MS,
    FILLED,
    FIRST_RUN,
    GATHERED,
    HEAD_BYTES,
    HEARD,
    HIGH,
    IDENTITY,
    IDENTITY_EPOCH,
    INBOX_BYTES,
    JOINED_LARGEST,
    LARGEST,
    LEASED,
    LENGTH,
    MAX_TIMESTAMP,
    MEMORY,
    NEWS,
    NEXT_OFFSET,
    NEXT_SEQUENCE,
    OLDEST,
    OVER,
    PENDING,
    POSITION,
    REQUEST,
    REQUEST_ROOM_BYTES,
    REQUESTS,
    REQUESTS_MAX,
    ROW,
    ROW_BATCHES,
    RUN_BYTES_MAX,
    RUNS,
    SENT_BYTES,
    SENT_NS,
    SLOT,
    TARGET_OFFSET,
    TIME,
    TOPIC,
    TOPIC_BYTES,
    TURN_RUNS,
    UNANSWERED,
    UNDER_WAY,
    UNSENT,
    UNUSUAL,
    USED,
    WAKE,
)
from sparkmirror.batch.ready_rows import BYTES as BATCH_BYTES
from sparkmirror.batch.ready_rows import (
    BYTES_MAX,
    FIRST_OFFSET,
    JOINED_BYTES_MAX,
    LEADER_EPOCH,
    LEASE,
    OUTCOME,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORDS,
    REFUSED,
    SEQUENCE,
    SIZE,
)  # fmt: skip
from sparkmirror.batch.small_runs import make_one
from sparkmirror.batch.system_calls import NO_DESCRIPTOR, drain, is_ready, now_ns, receive, send_bytes, wait, watch

_ENTRIES: Final = 1024
_ANNOUNCED_WORD, _HEARD_WORD, _ENTRIES_WORD = 0, 8, 24
_ENTRY_WORDS: Final = 8
"""Of the board, `pipeline.relay.board`."""
_SEQUENCE_MASK: Final = 0x7FFFFFFF
_AROUND_BYTES: Final = 64
"""More than a batch, its topic's end and the request's have around them; a topic's key comes on top."""
_FEW_NS: Final = 50_000_000
"""How much longer than their time the turns go on where answers are due."""
_NONE: Final = -1
_TAKEN, _SENT, _ANSWERS, _ODD = range(4)
_WAITING_MAX: Final = 64
"""With more announcements than this behind one that waits for answers, Python merges them."""


@part
def _find_slot(table: Integers, slot: Int64) -> Int64:
    for row in range(table.shape[0]):
        if table[row, SLOT] == slot:
            return np.int64(row)
    return np.int64(_NONE)


@part
def _fill_in(page: Integers, at: Int64, run: Integers, row: Integers, ring_bytes: Int64) -> None:
    """What an entry of the board says, and what its batch must be."""
    run[LEASED] = page[at + 4]
    run[LEASE] = run[LEASED] % ring_bytes
    run[SIZE] = page[at + 1] & 0xFFFFFFFF
    run[ANNOUNCED_RECORDS] = page[at] >> 32 & 0xFFFFFFFF
    run[FIRST_OFFSET], run[NEXT_OFFSET] = page[at + 2], page[at + 3]
    run[MAX_TIMESTAMP], run[HIGH], run[FETCHED_AT_MS] = page[at + 5], page[at + 6], page[at + 7]
    run[LEADER_EPOCH], run[BYTES_MAX], run[JOINED_BYTES_MAX] = row[EPOCH], row[LARGEST], row[JOINED_LARGEST]
    run[PRODUCER_ID], run[PRODUCER_EPOCH], run[SEQUENCE] = row[IDENTITY], row[IDENTITY_EPOCH], row[NEXT_SEQUENCE]
    run[REQUEST] = run[TARGET_OFFSET] = np.int64(_NONE)


@part
def _take_one(
    page: Integers, at: Int64, memory: Bytes, table: Integers, runs: Integers, requests: Integers,
    connections: Integers, topics: Integers, room: Bytes, state: Integers,
) -> Int64:  # fmt: skip
    """Make the batch of an announced run. If it is not _TAKEN, nothing is done: it has to go in another request, when
    this turn's is _SENT, or when there are _ANSWERS, or it is _ODD."""
    number = _find_slot(table, page[at] & 0xFFFFFFFF)
    if number < 0 or state[RUNS] >= runs.shape[0] or state[REQUESTS] + connections.shape[0] > requests.shape[0]:
        return np.int64(_ODD)
    row, run = table[number], runs[state[RUNS]]
    over = connections[row[CONNECTION]]
    if page[at + 2] != row[POSITION]:
        return np.int64(_ODD)
    if row[PENDING] >= 0:
        return np.int64(_SENT)
    if row[UNDER_WAY] >= IN_FLIGHT_MAX or over[UNANSWERED] >= over[REQUESTS_MAX]:
        return np.int64(_ANSWERS)
    _fill_in(page, at, run, row, memory.shape[0])
    around = _AROUND_BYTES + topics[row[TOPIC], TOPIC_BYTES]
    left = REQUEST_ROOM_BYTES - over[HEAD_BYTES] - over[GATHERED] - around
    if run[SIZE] > RUN_BYTES_MAX:
        return np.int64(_ODD)
    if run[SIZE] > left:
        return np.int64(_SENT if over[GATHERED] else _ODD)
    used = make_one(memory, run, room, state[USED])
    if run[OUTCOME] == REFUSED:
        return np.int64(_ODD)
    if run[BATCH_BYTES] > left:  # joined, of records that have grown; the run is as it was
        return np.int64(_SENT if over[GATHERED] else _ODD)
    state[USED] = used
    run[ROW] = number
    row[POSITION] = run[NEXT_OFFSET]
    row[NEXT_SEQUENCE] = row[NEXT_SEQUENCE] + run[RECORDS] & _SEQUENCE_MASK
    row[UNDER_WAY] += 1
    row[PENDING] = state[RUNS]
    over[GATHERED] += run[BATCH_BYTES] + around
    state[RUNS] += 1
    return np.int64(_TAKEN)


@part
def _send_all(
    words: Integers, frame: Bytes, connections: Integers, table: Integers, topics: Integers, heads: Bytes,
    runs: Integers, requests: Integers, memory: Bytes, room: Bytes, state: Integers,
) -> bool:  # fmt: skip
    """One request for each connection that has batches of this turn; whether all of them went out. After one that did
    not go out whole none does: Python sends what is left."""
    is_sent = True
    for number in range(connections.shape[0]):
        over = connections[number]
        if not over[GATHERED]:
            continue
        over[GATHERED] = 0
        over[CORRELATED] = over[CORRELATED] + 1
        request = requests[state[REQUESTS]]
        size = encode_request(frame, number, connections, table, topics, heads, runs, memory, room, state[REQUESTS])
        request[OVER], request[CORRELATION], request[SENT_NS] = number, over[CORRELATED], now_ns(words)
        request[FIRST_RUN], request[BEHIND_RUN] = state[TURN_RUNS], state[RUNS]
        sent = send_bytes(over[DESCRIPTOR], frame, 0, size) if is_sent else np.int64(0)
        request[LENGTH], request[SENT_BYTES], request[ANSWERED_NS] = size, sent, 0
        if not over[UNANSWERED]:
            over[OLDEST] = state[REQUESTS]
        over[UNANSWERED] += 1
        state[REQUESTS] += 1
        state[DUE] += 1
        is_sent = is_sent and sent == size
    state[TURN_RUNS] = state[RUNS]
    return is_sent


@part
def _take_answers(
    words: Integers, number: Int64, inbox: Bytes, connections: Integers, table: Integers, topics: Integers,
    heads: Bytes, runs: Integers, requests: Integers, state: Integers,
) -> bool:  # fmt: skip
    """Take what has come over a connection. False where an answer is not usual: it stays there, with what is behind."""
    over, begin = connections[number], number * INBOX_BYTES
    room_bytes = np.int64(1)
    received = room_bytes
    while received == room_bytes:
        room_bytes = INBOX_BYTES - over[FILLED]
        received, came_ms = receive(words, over[DESCRIPTOR], inbox, begin + over[FILLED], room_bytes)
        if received < 0:
            return True
        if received == 0 or not came_ms:
            over[FILLED] += received
            return False
        over[FILLED] += received
        while over[FILLED] >= 4:
            size = big_endian(inbox, begin, 4)
            if size < 4 or size > INBOX_BYTES - 4:
                return False
            if over[FILLED] < 4 + size:
                break
            index, stop = over[OLDEST], begin + 4 + size
            if not over[UNANSWERED] or big_endian(inbox, begin + 4, 4) != requests[index, CORRELATION]:
                return False
            for takes in (False, True):
                if not read_answer(inbox, begin + 8, stop, index, runs, requests, table, topics, heads, takes):
                    return False
            request = requests[index]
            request[ANSWERED_NS], request[CAME_MS] = now_ns(words), came_ms
            state[DUE] -= 1
            over[UNANSWERED] -= 1
            index += 1
            while index < state[REQUESTS] and requests[index, OVER] != number:
                index += 1
            over[OLDEST] = index
            over[FILLED] -= 4 + size
            for place in range(over[FILLED]):
                inbox[begin + place] = inbox[stop + place]
    return True


@part
def _take_board(
    words: Integers, page: Integers, board: Int64, memory: Bytes, table: Integers, runs: Integers, requests: Integers,
    connections: Integers, topics: Integers, room: Bytes, state: Integers,
) -> Int64:  # fmt: skip
    """Take what is announced, in order, and say what hinders the next one: as `_take_one`. What waits for rows is not
    looked at."""
    announced = page[board + _ANNOUNCED_WORD]
    now_ns(words)  # LLVM moves no load of an entry across a call that it does not know
    while state[HEARD] != announced:
        at = board + _ENTRIES_WORD + state[HEARD] % _ENTRIES * _ENTRY_WORDS
        if page[at + 1] >> 32 & 0xFFFFFFFF > state[ROW_BATCHES]:
            return np.int64(_TAKEN)
        outcome = _take_one(page, at, memory, table, runs, requests, connections, topics, room, state)
        if outcome == _ANSWERS and announced - state[HEARD] > _WAITING_MAX:
            return np.int64(_ODD)
        if outcome != _TAKEN:
            return outcome
        state[HEARD] += 1
    return np.int64(_TAKEN)


@part
def _is_nearly_full(runs: Integers, requests: Integers, room: Bytes, state: Integers) -> bool:
    """Whether the turns had better end while all is usual, when no answer is due."""
    has_room = state[RUNS] * 2 < runs.shape[0] and state[REQUESTS] * 2 < requests.shape[0]
    return not has_room or state[USED] * 2 > room.shape[0]


@part
def _watch(words: Integers, connections: Integers, state: Integers, awaits_answers: bool) -> None:
    """`wait` is to wait for calls, and for answers, if these are awaited."""
    watch(words, 0, state[CALLED])
    watch(words, 1, state[WAKE])
    for number in range(connections.shape[0]):
        is_due = awaits_answers and connections[number, UNANSWERED] > 0
        watch(words, number + 2, connections[number, DESCRIPTOR] if is_due else np.int64(NO_DESCRIPTOR))


@kernel(
    INTEGERS, ROOM, TABLE, TABLE, TABLE, TABLE, TABLE, BYTES, ROOM, ROOM, ROOM, INTEGERS, INTEGERS,
    INTEGER, INTEGER, INTEGER, INTEGER,
)  # fmt: skip
def take_turns(
    page: Integers, memory: Bytes, table: Integers, runs: Integers, requests: Integers, connections: Integers,
    topics: Integers, heads: Bytes, room: Bytes, frame: Bytes, inbox: Bytes, state: Integers, words: Integers,
    board: int, waiting: int, until_ns: int, leave_ns: int,
) -> int:  # fmt: skip
    """Take turns, until that time of the monotonic clock or a moment later. `page` is the control page of the reader
    whose ring is `memory`: its board begins at one word, another says whether the reader waits for memory. Answers lie
    unread for `leave_ns` at most. The other arrays are of `batch.produce_turn_rows`. Returns why the turns end."""
    while True:
        hindered = _take_board(words, page, board, memory, table, runs, requests, connections, topics, room, state)
        is_sent = _send_all(words, frame, connections, table, topics, heads, runs, requests, memory, room, state)
        page[board + _HEARD_WORD] = state[HEARD]
        if not is_sent:
            return UNSENT
        for number in range(connections.shape[0]):
            if connections[number, UNANSWERED] and not _take_answers(
                words, number, inbox, connections, table, topics, heads, runs, requests, state
            ):
                return ANSWER
        if hindered == _ODD:
            return UNUSUAL
        if page[waiting]:
            return MEMORY
        if hindered == _SENT:
            continue
        now, limit, awaits_answers = now_ns(words), np.int64(until_ns), hindered == _ANSWERS
        if now >= limit or _is_nearly_full(runs, requests, room, state):
            if not state[DUE] or now >= limit + _FEW_NS:
                return TIME
            limit, awaits_answers = limit + _FEW_NS, True
        if state[DUE]:
            limit = min(limit, now + leave_ns)
        _watch(words, connections, state, awaits_answers)
        if wait(words, connections.shape[0] + 2, limit - now):
            if is_ready(words, 1):
                return NEWS
            if is_ready(words, 0):
                drain(words, state[CALLED])
