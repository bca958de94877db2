"""The columns of the table in which compiled code keeps the partitions of a fetch session; without kernels.

Used by `batch.plain_answers` and `pipeline.fetch.plain_answers`.
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
