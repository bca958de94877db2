"""The columns of the table in which compiled code keeps the partitions of a fetch session; without kernels.

Used by `batch.plain_answers` and `pipeline.fetch.plain_answers`, and with those of the sessions by `batch.fetch_turns`
and `pipeline.fetch.plain_turns`.
"""

from typing import Final

ID_HIGH, ID_LOW, PARTITION, SLOT, EPOCH, CURRENT_EPOCH, BYTES_MAX, OFFSET, ASKED = range(9)
"""A row is a partition: the two halves of its topic's id, its number, its slot on the control page, the leader epoch of
its last record, that of its leader, how many bytes are asked of it, up to which offset its records have come, and from
which they were asked for last. Rows of a topic lie together."""
READABLE, HIGH_WATERMARK, BATCHES, RECORDS, SIZE, OLDEST_MS, FETCHED_MS = range(9, 16)
"""What came since the row was made: ends, counts, bytes, and of the run that was oldest when it came its latest
timestamp and when that was, in ms."""
COLUMNS: Final = 16
FOUND_COLUMNS: Final = 8
"""Of the table that the kernel takes notes in."""

DESCRIPTOR, SESSION_ID, SESSION_EPOCH, CORRELATION, FIRST_ROW, BEHIND_ROW, FRAME_AT, FRAME_BYTES, TOPICS_AT = range(9)
IS_ASKED, ASKED_NS, ASKS_AT_NS, ANSWERED_NS, PATIENT_NS, ACTIVE_NS, SHORTEST_NS = range(9, 16)
FILLED, BODY_BYTES, BODY_AT, REQUEST_AT, REQUEST_STOP, SENT_BYTES = range(16, 22)
"""A session: its socket, its id, epoch and last correlation, its rows, where its request without topics lies, and where
the number of topics stands in that. Whether an answer is due, since when, when the broker may be asked again, when its
last answer came, until when it waits for the writer, when something last happened, all by the monotonic clock, and its
quickest answer, 0 for none. How much of an answer's length, or of its body, is there, how long that is, 0 while that is
not known, and where it lies in the arena. The last request, and how much of it went out."""
SESSION_COLUMNS: Final = 22
HEAD_BYTES: Final = 4
"""Of an answer: its length."""

(
    ARENA_AT,
    ARENA_LEASE,
    ARENA_BYTES,
    USED,
    LEASES,
    ANNOUNCED,
    ROW_BATCHES,
    GIVEN,
    SELECTOR,
    CALL,
    BYTES_MAX_EACH,
    REST_NS,
    HALF_REST_BYTES,
) = range(13)
"""What holds for all: where the arena that answers are put into lies in the memory, its position in the ring, its size,
how much of it is used, how many leases there are, how many announcements, how many batches of rows come before them,
and were given to Spark, what watches all but the sockets, the pipe that calls the writer, the most bytes of an answer,
the pause after a small one, and after how many bytes it is half of that."""
STATE_WORDS: Final = 13

TIME, NEWS, UNSENT, ANSWER, LARGE, FULL = range(6)
"""Why the turns end: their time is over, something else than an answer has come, a request has not gone out whole, an
answer is not usual or the connection is at its end, one is too large for what is left of the arena, there is no room to
note more leases."""
