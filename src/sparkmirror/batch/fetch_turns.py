"""Takes turns of a reader whose brokers' answers have nothing unusual; compiled.

What `pipeline.fetch.reader` does for a mirror that has caught up, for many turns in one call: wait for answers, take
them (`batch.plain_answers`), call the writer, pause, ask again. It ends where anything unusual comes, which is then
left as it was, for Python. Called by `pipeline.fetch.plain_turns`.
"""

from typing import Final

import numpy as np

from sparkmirror.batch.compiled_numbers import big_endian
from sparkmirror.batch.machine_code import BYTES, INTEGER, INTEGERS, ROOM, TABLE, Bytes, Int64, Integers, kernel, part
from sparkmirror.batch.plain_answers import encode_one, take_one
from sparkmirror.batch.session_rows import (
    ACTIVE_NS,
    ANNOUNCED,
    ANSWER,
    ANSWERED_NS,
    ARENA_AT,
    ARENA_BYTES,
    ARENA_LEASE,
    ASKED_NS,
    ASKS_AT_NS,
    BEHIND_ROW,
    BODY_AT,
    BODY_BYTES,
    BYTES_MAX_EACH,
    CALL,
    CORRELATION,
    DESCRIPTOR,
    FILLED,
    FIRST_ROW,
    FRAME_AT,
    FRAME_BYTES,
    FULL,
    GIVEN,
    HALF_REST_BYTES,
    HEAD_BYTES,
    IS_ASKED,
    LARGE,
    LEASES,
    NEWS,
    PATIENT_NS,
    REQUEST_AT,
    REQUEST_STOP,
    REST_NS,
    ROW_BATCHES,
    SELECTOR,
    SENT_BYTES,
    SESSION_EPOCH,
    SESSION_ID,
    SHORTEST_NS,
    TIME,
    TOPICS_AT,
    UNSENT,
    USED,
)
from sparkmirror.batch.system_calls import (
    NO_DESCRIPTOR,
    call,
    is_ready,
    now_ms,
    now_ns,
    receive_plain,
    send_bytes,
    wait,
    watch,
)

_ENTRIES: Final = 1024
_ANNOUNCED_WORD, _HEARD_WORD = 0, 8
"""Of the board, `pipeline.relay.board`."""
_GO_ON: Final = -1
_LITTLE_BYTES: Final = 256 << 10
_SPARSE_RESTS: Final = 3
_UNTAKEN_MAX: Final = 1
_PATIENCE_NS: Final = 100_000_000
"""As `pipeline.fetch.connection`."""
_EPOCH_MAX: Final = 0x7FFFFFFF


@part
def _is_behind(page: Integers, board: Int64, taken: Int64, state: Integers) -> bool:
    """Whether the writer has not taken what it was given: as `FetchConnection.rests`."""
    untaken = state[GIVEN] - page[taken] if page[taken] else np.int64(0)
    return bool(untaken > _UNTAKEN_MAX or page[board + _HEARD_WORD] != state[ANNOUNCED])


@part
def _ask(session: Integers, table: Integers, frames: Bytes, room: Bytes, state: Integers, now: Int64) -> bool:
    """Ask a broker; whether all of the request went out."""
    rows = table[session[FIRST_ROW] : session[BEHIND_ROW]]
    frame = frames[session[FRAME_AT] : session[FRAME_AT] + session[FRAME_BYTES]]
    session[CORRELATION] = session[CORRELATION] + 1
    place = encode_one(
        rows, frame, room, session[TOPICS_AT], session[CORRELATION], session[SESSION_EPOCH], state[BYTES_MAX_EACH]
    )
    session[REQUEST_AT], session[REQUEST_STOP] = place >> 32, place & 0xFFFFFFFF
    size = session[REQUEST_STOP] - session[REQUEST_AT]
    session[SENT_BYTES] = send_bytes(session[DESCRIPTOR], room, session[REQUEST_AT], size)
    session[IS_ASKED], session[ASKED_NS], session[ACTIVE_NS] = 1, now, now
    return bool(session[SENT_BYTES] == size)


@part
def _read_length(words: Integers, number: Int64, session: Integers, heads: Bytes, state: Integers) -> Int64:
    """The length of an answer, and a place for it; LARGE where there is none, ANSWER at the end of the stream."""
    at = number * HEAD_BYTES
    received = receive_plain(session[DESCRIPTOR], heads, at + session[FILLED], HEAD_BYTES - session[FILLED])
    if received <= 0:
        return np.int64(ANSWER if received == 0 else _GO_ON)
    session[FILLED] += received
    if session[FILLED] < HEAD_BYTES:
        return np.int64(_GO_ON)
    size = big_endian(heads, at, HEAD_BYTES)
    if size <= HEAD_BYTES or size > state[ARENA_BYTES] - state[USED]:
        return np.int64(LARGE)
    passed = now_ns(words) - session[ASKED_NS]
    session[SHORTEST_NS] = min(session[SHORTEST_NS], passed) if session[SHORTEST_NS] else passed
    session[FILLED], session[BODY_BYTES], session[BODY_AT] = 0, size, state[USED]
    state[USED] += size
    return np.int64(_GO_ON)


@part
def _read_body(session: Integers, memory: Bytes, state: Integers) -> Int64:
    """ANSWER at the end of the stream."""
    at = state[ARENA_AT] + session[BODY_AT] + session[FILLED]
    received = receive_plain(session[DESCRIPTOR], memory, at, session[BODY_BYTES] - session[FILLED])
    if received <= 0:
        return np.int64(ANSWER if received == 0 else _GO_ON)
    session[FILLED] += received
    return np.int64(_GO_ON)


@part
def _rest(words: Integers, session: Integers, state: Integers) -> None:
    """As `FetchConnection._note_answer`."""
    now = now_ns(words)
    is_sparse = now - session[ANSWERED_NS] >= _SPARSE_RESTS * state[REST_NS]
    session[ANSWERED_NS], session[PATIENT_NS], session[IS_ASKED] = now, 0, 0
    if session[BODY_BYTES] < _LITTLE_BYTES and not is_sparse:
        half_bytes = state[HALF_REST_BYTES]
        pause_ns = np.int64(state[REST_NS] * (half_bytes / (half_bytes + session[BODY_BYTES])))
        session[ASKS_AT_NS], session[PATIENT_NS] = now + pause_ns, now + _PATIENCE_NS
    session[FILLED], session[BODY_BYTES] = 0, 0


@part
def _serve(
    words: Integers, number: Int64, page: Integers, memory: Bytes, entries: Bytes, table: Integers, found: Integers,
    sessions: Integers, heads: Bytes, leases: Integers, state: Integers, board: Int64, calls: Int64,
) -> Int64:  # fmt: skip
    """Take what has come over a connection."""
    session = sessions[number]
    session[ACTIVE_NS] = now_ns(words)
    if not session[BODY_BYTES]:
        outcome = _read_length(words, number, session, heads, state)
        if outcome != _GO_ON or not session[BODY_BYTES]:
            return outcome
    outcome = _read_body(session, memory, state)
    if outcome != _GO_ON or session[FILLED] < session[BODY_BYTES]:
        return outcome
    rows = table[session[FIRST_ROW] : session[BEHIND_ROW]]
    free = _ENTRIES - (state[ANNOUNCED] - page[board + _HEARD_WORD])
    announced = take_one(
        memory, rows, found, entries, leases[state[LEASES] :], state[ARENA_AT] + session[BODY_AT], session[BODY_BYTES],
        state[ARENA_LEASE] + session[BODY_AT], session[SESSION_ID], state[ANNOUNCED], free, state[ROW_BATCHES],
        now_ms(words),
    )  # fmt: skip
    if announced < 0:
        return np.int64(ANSWER)
    session[SESSION_EPOCH] = session[SESSION_EPOCH] % _EPOCH_MAX + 1
    _rest(words, session, state)  # which calls what LLVM does not know: entries are written before they count
    if announced:
        state[ANNOUNCED] += announced
        state[LEASES] += announced
        page[board + _ANNOUNCED_WORD] = state[ANNOUNCED]
        page[calls] += 1
        call(words, state[CALL])
    return np.int64(_GO_ON)


@part
def _ask_all(
    page: Integers, table: Integers, sessions: Integers, frames: Bytes, room: Bytes, state: Integers,
    board: Int64, taken: Int64, now: Int64, until_ns: Int64,
) -> Int64:  # fmt: skip
    """Ask the brokers that may be asked. When the next one may be, until then at most; -1 after a request that has not
    gone out whole."""
    wake_at = until_ns
    for number in range(sessions.shape[0]):
        session = sessions[number]
        if session[IS_ASKED]:
            continue
        if now >= session[ASKS_AT_NS]:
            if now < session[PATIENT_NS] and _is_behind(page, board, taken, state):
                session[ASKS_AT_NS] = now + state[REST_NS]
            elif not _ask(session, table, frames, room, state, now):
                return np.int64(-1)
        if not session[IS_ASKED]:
            wake_at = min(wake_at, session[ASKS_AT_NS])
    return wake_at


@kernel(
    INTEGERS, ROOM, ROOM, TABLE, TABLE, TABLE, ROOM, BYTES, ROOM, INTEGERS, INTEGERS, INTEGERS,
    INTEGER, INTEGER, INTEGER, INTEGER,
)  # fmt: skip
def take_turns(
    page: Integers, memory: Bytes, entries: Bytes, table: Integers, found: Integers, sessions: Integers, heads: Bytes,
    frames: Bytes, room: Bytes, leases: Integers, state: Integers, words: Integers,
    board: int, taken: int, calls: int, until_ns: int,
) -> int:  # fmt: skip
    """Take turns until that time of the monotonic clock. `page` is the control page of the ring `memory`: its board
    begins at one word and has the `entries`, others count the batches of rows that the writer has taken, and the calls.
    The other arrays are of `batch.session_rows`. Returns why the turns end."""
    while True:
        now = now_ns(words)
        wake_at = _ask_all(page, table, sessions, frames, room, state, board, taken, now, until_ns)
        if wake_at < 0:
            return UNSENT
        if now >= until_ns:
            return TIME
        if state[LEASES] + found.shape[0] > leases.shape[0]:
            return FULL
        watch(words, 0, state[SELECTOR])
        for number in range(sessions.shape[0]):
            is_due = sessions[number, IS_ASKED] != 0
            watch(words, number + 1, sessions[number, DESCRIPTOR] if is_due else np.int64(NO_DESCRIPTOR))
        if not wait(words, sessions.shape[0] + 1, wake_at - now):
            continue
        if is_ready(words, 0):
            return NEWS
        for number in range(sessions.shape[0]):
            if is_ready(words, number + 1):
                outcome = _serve(
                    words, number, page, memory, entries, table, found, sessions, heads, leases, state, board, calls
                )
                if outcome != _GO_ON:
                    return outcome  # type: ignore[no-any-return]
