"""The columns of the table by which compiled code is asked for batches of small runs, and answers; without kernels.

Used by `batch.small_runs` and `pipeline.produce.ready_batches`.
"""

from typing import Final

LEASE, SIZE, FIRST_OFFSET, LEADER_EPOCH, BYTES_MAX, JOINED_BYTES_MAX, PRODUCER_ID, PRODUCER_EPOCH, SEQUENCE = range(9)
"""What a row asks: where the run lies, its size in bytes, the first offset and the leader epoch that it must have, the
most bytes of its batch, the most of a run that may be joined (0 for none), and the stamp."""
ASKED_COLUMNS: Final = 9
OUTCOME, AT, BYTES, BASE_OFFSET, RECORDS, CODEC = range(9, 15)
"""What it answers: one of the outcomes, where the batch lies, its size in bytes, the first record's source offset, how
many records it has, and its codec."""
COLUMNS: Final = 15
REFUSED, PASSES, JOINED = range(3)
"""Outcomes. What passes lies in the memory where it was, what is joined in the room."""
