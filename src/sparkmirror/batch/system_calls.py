"""Calls of the system that compiled loops make: waiting, reading and writing without the interpreter. Linux.

Parts of the kernels that take whole turns of a loop. Each gets `words`, room for what the kernel of the system reads
and writes: by its address, which is why it must be an array of the caller's.

Source: the manual pages ppoll(2), recvmsg(2), cmsg(3), socket(7), send(2), clock_gettime(2).
"""

from typing import Final

import numpy as np

from sparkmirror.batch.machine_code import Bytes, Instructions, Int64, Integers, part

WORDS: Final = 128
"""The size of `words`."""
WATCHED_MAX: Final = 32
NO_DESCRIPTOR: Final = -1
NS: Final = 1_000_000_000
_REALTIME: Final = 0
_MONOTONIC: Final = 1
_POLLIN: Final = 1
_DONTWAIT: Final = 0x40
_NOSIGNAL: Final = 0x4000
_SOL_SOCKET: Final = 1
_SO_TIMESTAMPNS: Final = 35
_STAMP_BYTES: Final = 32
_TIME_AT, _MESSAGE_AT, _VECTOR_AT, _CONTROL_AT, _POLLED_AT, _DRAIN_AT = 0, 2, 10, 12, 24, 64
"""Places among the words."""
_DRAIN_BYTES: Final = 512

ppoll = Instructions("ppoll")
read = Instructions("read")
recv = Instructions("recv")
recvmsg = Instructions("recvmsg")
send = Instructions("send")
write = Instructions("write")
clock_gettime = Instructions("clock_gettime")


@part
def now_ns(words: Integers) -> Int64:
    """The monotonic clock, as `time.monotonic_ns`."""
    clock_gettime(np.int32(_MONOTONIC), words.ctypes.data + 8 * _TIME_AT)
    return words[_TIME_AT] * NS + words[_TIME_AT + 1]


@part
def now_ms(words: Integers) -> Int64:
    """Milliseconds since 1970."""
    clock_gettime(np.int32(_REALTIME), words.ctypes.data + 8 * _TIME_AT)
    return words[_TIME_AT] * 1000 + words[_TIME_AT + 1] // 1_000_000


@part
def watch(words: Integers, place: Int64, descriptor: Int64) -> None:
    """`wait` is to wait for that one, too, at one of `WATCHED_MAX` places; for none if it is negative."""
    words[_POLLED_AT + place] = (descriptor & 0xFFFFFFFF) | np.int64(_POLLIN) << 32


@part
def wait(words: Integers, places: Int64, ns: Int64) -> bool:
    """Wait until one of the descriptors at the first places has something to read, at most so long; whether that is
    so. False also after a signal."""
    left, start = max(ns, np.int64(0)), words.ctypes.data
    words[_TIME_AT], words[_TIME_AT + 1] = left // NS, left % NS
    return bool(ppoll(start + 8 * _POLLED_AT, np.uint64(places), start + 8 * _TIME_AT, 0) > 0)


@part
def is_ready(words: Integers, place: Int64) -> bool:
    """Whether the descriptor there has something to read, or is at its end, after `wait` had found some."""
    return bool(words[_POLLED_AT + place] >> 48 != 0)


@part
def call(words: Integers, descriptor: Int64) -> None:
    """Write a byte into a pipe; one that is full is read soon."""
    write(np.int32(descriptor), words.ctypes.data + 8 * _DRAIN_AT, np.uint64(1))


@part
def drain(words: Integers, descriptor: Int64) -> None:
    """Take what a pipe has, whose reading end does not block; what is left makes `wait` return again."""
    read(np.int32(descriptor), words.ctypes.data + 8 * _DRAIN_AT, np.uint64(_DRAIN_BYTES))


@part
def receive(words: Integers, descriptor: Int64, room: Bytes, at: Int64, size: Int64) -> tuple[Int64, Int64]:
    """What a socket has, at most so many bytes, and when the last of it came, in ms since 1970, 0 where the system does
    not say. -1 where there is nothing now, or an error, which the next call tells again, as the end of the stream."""
    start, message = words.ctypes.data, _MESSAGE_AT
    words[_VECTOR_AT], words[_VECTOR_AT + 1] = room.ctypes.data + at, size
    words[message], words[message + 1] = 0, 0
    words[message + 2], words[message + 3] = start + 8 * _VECTOR_AT, 1
    words[message + 4], words[message + 5] = start + 8 * _CONTROL_AT, _STAMP_BYTES
    words[message + 6] = 0
    received = np.int64(recvmsg(np.int32(descriptor), start + 8 * message, np.int32(_DONTWAIT)))
    control, came_ms = _CONTROL_AT, np.int64(0)
    is_stamp = words[control + 1] == (np.int64(_SO_TIMESTAMPNS) << 32 | _SOL_SOCKET)
    if received > 0 and words[message + 5] >= _STAMP_BYTES and is_stamp:
        came_ms = words[control + 2] * 1000 + words[control + 3] // 1_000_000
    return received, came_ms


@part
def receive_plain(descriptor: Int64, room: Bytes, at: Int64, size: Int64) -> Int64:
    """As `receive`, without the time."""
    return np.int64(recv(np.int32(descriptor), room.ctypes.data + at, np.uint64(size), np.int32(_DONTWAIT)))


@part
def send_bytes(descriptor: Int64, room: Bytes, at: Int64, size: Int64) -> Int64:
    """How many of so many bytes a socket took at once; 0 also for an error, which the next call tells again."""
    flags = np.int32(_DONTWAIT | _NOSIGNAL)
    return max(np.int64(send(np.int32(descriptor), room.ctypes.data + at, np.uint64(size), flags)), np.int64(0))
