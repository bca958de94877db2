"""What the parts of a sender want done beyond their own role. They put it into one queue, and `pipeline.produce.sender`
applies it, in order, in one place.
"""

from collections import deque
from typing import NamedTuple

from sparkmirror.pipeline.produce.buffer import PartitionBuffer


class Hold(NamedTuple):
    """Pause a partition for the rest of the run, for a cause that no retry removes."""

    buffer: PartitionBuffer
    reason: str


Effect = Hold
Effects = deque[Effect]
