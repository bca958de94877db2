"""The columns of the tables by which compiled code takes turns of a sender, and accounts for them; without kernels.

Used by `batch.produce_turns` and `pipeline.produce.plain_turns`.
"""

from typing import Final

from sparkmirror.batch.ready_rows import COLUMNS as READY_COLUMNS

SLOT, POSITION, CONNECTION, TOPIC, PARTITION, EPOCH, LARGEST, JOINED_LARGEST = range(8)
IDENTITY, IDENTITY_EPOCH, NEXT_SEQUENCE, END, UNDER_WAY, PENDING = range(8, 14)
"""A row is a partition: its slot on the control page, the offset that comes next, the rows of its connection and of its
topic, its number, its leader epoch, the most bytes of a batch and of a joined run, the producer and the sequence that
come next, where the target's log ends at least, how many of its batches are not answered, and the run that goes out
with the turn's request, -1 for none. Rows of a connection and of a topic lie together."""
PARTITION_COLUMNS: Final = 14

(ROW, LEASED, NEXT_OFFSET, ANNOUNCED_RECORDS, MAX_TIMESTAMP, HIGH, FETCHED_AT_MS, REQUEST, TARGET_OFFSET) = range(
    READY_COLUMNS, READY_COLUMNS + 9
)
"""A run, behind the columns of `batch.ready_rows`: its partition's row, what the announcement said, the request that
carried it, and the offset that its batch has on the target, -1 without an answer."""
RUN_COLUMNS: Final = READY_COLUMNS + 9

OVER, CORRELATION, FIRST_RUN, BEHIND_RUN, SENT_NS, SENT_BYTES, LENGTH, ANSWERED_NS, CAME_MS = range(9)
"""A request: the row of its connection, its correlation, the turn's runs, of which it carries some, when it went out by
the monotonic clock, how many of its bytes did, and how many it has, and when it was answered, 0 for not yet, by that
clock and in ms since 1970."""
REQUEST_COLUMNS: Final = 9

DESCRIPTOR, CORRELATED, HEAD_AT, HEAD_BYTES, REQUESTS_MAX, UNANSWERED, OLDEST, FILLED, GATHERED = range(9)
"""A connection: its socket, its last correlation, where the beginning of its requests lies among the heads, how many
requests may be under way, how many are, which is the oldest, the bytes of an answer that is not whole, and those of
this turn's batches."""
CONNECTION_COLUMNS: Final = 9

TOPIC_AT, TOPIC_BYTES = range(2)
"""A topic: where its key lies among the heads. Of two connections each has its own."""
TOPIC_COLUMNS: Final = 2

HEARD, ROW_BATCHES, USED, RUNS, TURN_RUNS, REQUESTS, DUE, CALLED, WAKE = range(9)
"""What holds for all: how many announcements were taken, how many batches of rows were, the bytes of the room that are
used, how many runs there are, and were before this turn, how many requests, how many of these are not answered, and the
two pipes."""
STATE_WORDS: Final = 9

INBOX_BYTES: Final = 8192
"""Of each connection."""
RUN_BYTES_MAX: Final = 64 << 10
REQUEST_ROOM_BYTES: Final = 256 << 10

TIME, NEWS, UNUSUAL, UNSENT, ANSWER, MEMORY = range(6)
"""Why the turns end: their time is over, something else than an announcement has come, an announcement is not usual, a
request has not gone out whole, an answer is not usual, the reader waits for memory."""
