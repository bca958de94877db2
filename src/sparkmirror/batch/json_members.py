"""Takes out of JSON objects the members that are asked for, so that no more of a value passes Spark. Pure.

What is left of an object gives `get_json_object` what the whole one gives, for a path that begins with a member asked
for. So a value is only shortened where each parser takes it for well-formed: whatever is in doubt stays whole, and
members whose names are in doubt stay. Called by `batch.arrow_content`. Importing it links the kernels.

Source: RFC 8259, of which Jackson takes more, and with limits: 1,000 characters of a number, 50,000 of a name, and
20,000,000 of a string (5,000,000 in its first version with limits).
"""

from collections.abc import Collection

import numpy as np
import pyarrow as pa

from sparkmirror.batch.columns import VALUE_BYTES, VALUE_START, Columns
from sparkmirror.batch.kernels import copy_bytes
from sparkmirror.batch.machine_code import BYTES, PLACE, PLACES, ROOM, Bytes, Int64, Places, kernel, part

_DEPTH_MAX = 60
_NAME_BYTES_MAX = _NUMBER_BYTES_MAX = 100
_VALUE_BYTES_MAX = 1_000_000
"""A parser refuses a string beyond its limit; one that lies in what is left out it would not see."""
_QUOTE, _BACKSLASH, _COMMA, _COLON, _MINUS, _PLUS, _DOT = b'"\\,:-+.'
_OPENED, _CLOSED, _OPENED_LIST, _CLOSED_LIST = b"{}[]"
_ZERO, _NINE = b"09"
_LETTER_U, _LETTER_E = b"ue"
_SPACE_BYTE = 0x20
_BLOCK_BYTES = 32
_LOWER = 0x20
"""What makes a letter a small one."""


_ESCAPED = np.isin(np.arange(256), list(b'"\\/bfnrt'))
_HEX = np.isin(np.arange(256), list(b"0123456789abcdefABCDEF"))
_WORDS = np.frombuffer(b"truefalsenull", np.uint8).copy()


def member_arrays(columns: Columns, members: Collection[str]) -> pa.Array:
    """The records' values as a binary array: of JSON objects the members of these names, of others all."""
    count = len(columns)
    lengths = columns.value_lengths
    room = np.empty(int(np.maximum(lengths, 0).sum(dtype=np.int64)), np.uint8)
    edges = np.empty(count + 1, np.int32)
    spelled = [name.encode() for name in sorted(members)]
    ends = np.cumsum([len(name) for name in spelled], dtype=np.int32)
    names = np.frombuffer(b"".join(spelled), np.uint8)
    size = _pick_members(columns.content, columns.places, names, ends, room, edges)
    are_there = lengths >= 0
    validity = None if are_there.all() else pa.array(are_there).buffers()[1]
    data = pa.py_buffer(room).slice(0, size)
    return pa.Array.from_buffers(pa.binary(), count, [validity, pa.py_buffer(edges), data])


@part
def _is_space(byte: Int64) -> bool:
    return bool(byte == 0x20 or byte == 0x0A or byte == 0x0D or byte == 0x09)


@part
def _skip_space(content: Bytes, at: Int64, stop: Int64) -> Int64:
    while at < stop and _is_space(content[np.uint64(at)]):
        at += 1
    return at


@part
def _skip_string(content: Bytes, at: Int64, stop: Int64) -> tuple[Int64, bool]:
    """Where the string ends whose first byte behind the quote is at `at`, -1 where that is in doubt; whether it has
    ASCII alone, and no escapes."""
    # Unsigned, or numba looks out for indices that count from the end, one byte at a time.
    place, end, one, block = np.uint64(at), np.uint64(stop), np.uint64(1), np.uint64(_BLOCK_BYTES)
    seen, is_plain, run = np.uint8(0), True, np.uint64(0)
    while place < end:
        byte = content[place]
        if byte >= _SPACE_BYTE and byte != _QUOTE and byte != _BACKSLASH:
            seen |= byte
            place += one
            run += one
            while run >= block and end - place >= block:
                ends, high = np.uint8(0), np.uint8(0)
                for index in range(block):
                    byte = content[place + index]
                    ends |= np.uint8(byte < _SPACE_BYTE) | np.uint8(byte == _QUOTE) | np.uint8(byte == _BACKSLASH)
                    high |= byte
                if ends != 0:
                    run = np.uint64(0)
                    break
                seen |= high
                place += block
            continue
        if byte == _QUOTE:
            return np.int64(place + one), is_plain and bool(seen < 0x80)
        if byte != _BACKSLASH or end - place < np.uint64(2):
            return np.int64(-1), False
        is_plain = False
        byte = content[place + one]
        place += np.uint64(2)
        if byte == _LETTER_U:
            if end - place < np.uint64(4):
                return np.int64(-1), False
            for index in range(np.uint64(4)):
                if not _HEX[content[place + index]]:
                    return np.int64(-1), False
            place += np.uint64(4)
        elif not _ESCAPED[byte]:
            return np.int64(-1), False
    return np.int64(-1), False


@part
def _skip_digits(content: Bytes, at: Int64, stop: Int64) -> Int64:
    """Where they end; -1 where there is none."""
    start = at
    while at < stop and _ZERO <= content[np.uint64(at)] <= _NINE:
        at += 1
    return at if at > start else np.int64(-1)


@part
def _skip_number(content: Bytes, at: Int64, stop: Int64) -> Int64:
    start = at
    if content[np.uint64(at)] == _MINUS:
        at += 1
    first = at
    at = _skip_digits(content, at, stop)
    if at < 0 or (content[np.uint64(first)] == _ZERO and at > first + 1):
        return np.int64(-1)
    if at < stop and content[np.uint64(at)] == _DOT:
        at = _skip_digits(content, at + 1, stop)
    if 0 <= at < stop and content[np.uint64(at)] | _LOWER == _LETTER_E:
        at += 1
        if at < stop and (content[np.uint64(at)] == _PLUS or content[np.uint64(at)] == _MINUS):
            at += 1
        at = _skip_digits(content, at, stop)
    return at if at - start <= _NUMBER_BYTES_MAX else np.int64(-1)


@part
def _skip_word(content: Bytes, at: Int64, stop: Int64) -> Int64:
    """True, false and null."""
    first, size = 0, 0
    if content[np.uint64(at)] == _WORDS[0]:
        first, size = 0, 4
    elif content[np.uint64(at)] == _WORDS[4]:
        first, size = 4, 5
    elif content[np.uint64(at)] == _WORDS[9]:
        first, size = 9, 4
    if size == 0 or size > stop - at:
        return np.int64(-1)
    for index in range(size):
        if content[at + index] != _WORDS[first + index]:
            return np.int64(-1)
    return at + size


@part
def _skip_name(content: Bytes, at: Int64, stop: Int64) -> tuple[Int64, Int64, bool]:
    """Of a member's name that begins at `at`: where it ends, where the value behind it begins (-1 where that is in
    doubt), and whether it is plain."""
    if at >= stop or content[np.uint64(at)] != _QUOTE:
        return at, np.int64(-1), False
    end, is_plain = _skip_string(content, at + 1, stop)
    if end < 0 or end - at > _NAME_BYTES_MAX:
        return at, np.int64(-1), False
    behind = _skip_space(content, end, stop)
    if behind >= stop or content[np.uint64(behind)] != _COLON:
        return at, np.int64(-1), False
    behind = _skip_space(content, behind + 1, stop)
    return end, behind if behind < stop else np.int64(-1), is_plain


@part
def _skip_value(content: Bytes, at: Int64, stop: Int64) -> Int64:
    """Where the value ends that begins at `at`; -1 where that is in doubt."""
    depth, kinds, is_named = 0, np.uint64(0), False  # the lowest bit is set within an object
    while at < stop:
        if is_named:
            _, at, _ = _skip_name(content, at, stop)
            if at < 0:
                return at
        byte = content[np.uint64(at)]
        is_open = byte in (_OPENED, _OPENED_LIST)
        if is_open:
            is_object = byte == _OPENED
            depth += 1
            if depth > _DEPTH_MAX:
                return np.int64(-1)
            kinds = kinds << np.uint64(1) | np.uint64(is_object)
            at = _skip_space(content, at + 1, stop)
            if at >= stop:
                return np.int64(-1)
            if content[np.uint64(at)] != (_CLOSED if is_object else _CLOSED_LIST):
                is_named = is_object
                continue
        elif byte == _QUOTE:
            at, _ = _skip_string(content, at + 1, stop)
        elif byte == _MINUS or _ZERO <= byte <= _NINE:
            at = _skip_number(content, at, stop)
        else:
            at = _skip_word(content, at, stop)
        while at >= 0:
            if depth == 0:
                return at
            if not is_open:
                at = _skip_space(content, at, stop)
            if at >= stop:
                return np.int64(-1)
            is_object = kinds & np.uint64(1) == np.uint64(1)
            if content[np.uint64(at)] == (_CLOSED if is_object else _CLOSED_LIST):
                at += 1
                depth -= 1
                kinds >>= np.uint64(1)
                is_open = False
                continue
            if content[np.uint64(at)] != _COMMA:
                return np.int64(-1)
            at = _skip_space(content, at + 1, stop)
            is_named = is_object
            break
        if at < 0:
            return at
    return np.int64(-1)


@part
def _is_asked(content: Bytes, at: Int64, stop: Int64, names: Bytes, ends: Places) -> bool:
    first = np.int64(0)
    for name in range(ends.shape[0]):
        if ends[name] - first == stop - at:
            index = np.int64(0)
            while index < stop - at and content[at + index] == names[first + index]:
                index += 1
            if index == stop - at:
                return True
        first = np.int64(ends[name])
    return False


@part
def _pick(content: Bytes, at: Int64, stop: Int64, names: Bytes, ends: Places, room: Bytes, start: Int64) -> Int64:
    """Write an object of the members that are asked for to `room`. Returns where it ends there, -1 where this is to
    stay as it is."""
    if stop - at > _VALUE_BYTES_MAX:
        return np.int64(-1)
    at = _skip_space(content, at, stop)
    if at >= stop or content[np.uint64(at)] != _OPENED:
        return np.int64(-1)
    size = start
    room[size] = _OPENED
    size += 1
    at = _skip_space(content, at + 1, stop)
    is_over = at < stop and content[np.uint64(at)] == _CLOSED
    while not is_over:
        name = at
        name_end, value, is_plain = _skip_name(content, at, stop)
        if value < 0:
            return np.int64(-1)
        at = _skip_value(content, value, stop)
        if at < 0:
            return np.int64(-1)
        if not is_plain or _is_asked(content, name + 1, name_end - 1, names, ends):
            if size > start + 1:
                room[size] = _COMMA
                size += 1
            size = copy_bytes(room, size, content, name, at - name)
        at = _skip_space(content, at, stop)
        if at >= stop or (content[np.uint64(at)] != _COMMA and content[np.uint64(at)] != _CLOSED):
            return np.int64(-1)
        is_over = content[np.uint64(at)] == _CLOSED
        if not is_over:
            at = _skip_space(content, at + 1, stop)
    if _skip_space(content, at + 1, stop) < stop:
        return np.int64(-1)
    room[size] = _CLOSED
    return size + 1


@kernel(BYTES, PLACES, BYTES, PLACE, ROOM, PLACE)
def _pick_members(content: Bytes, places: Places, names: Bytes, ends: Places, room: Bytes, edges: Places) -> int:
    """Write what is left of the values one behind the other into `room`, and where each begins, and the last ends, into
    `edges`. `ends` says where each of the names ends. Returns the bytes written."""
    size = 0
    for record in range(places.shape[0]):
        edges[record] = size
        at, length = np.int64(places[record, VALUE_START]), np.int64(places[record, VALUE_BYTES])
        if length > 0:
            end = _pick(content, at, at + length, names, ends, room, np.int64(size))
            size = end if end >= 0 else copy_bytes(room, size, content, at, length)
    edges[places.shape[0]] = size
    return size
