"""What a reader needs beside its plan. Made by `spark.run_reader`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.pipeline.fetch.connection import FetchLimits
from sparkmirror.pipeline.relay.schema import Row, to_arrow

AtLease = Callable[[int, int], memoryview]
"""`at_lease(lease, size)`: the bytes of a run that the reader lent to the writer."""
Decode = Callable[[Iterator[Sequence[Row]], AtLease], Iterator[pa.RecordBatch]]


def _as_they_come(rows: Iterator[Sequence[Row]], _: AtLease) -> Iterator[pa.RecordBatch]:
    return map(to_arrow, rows)


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """`ring_bytes` 0 asks for inline payload; `commands` is the command topic.

    `wants` says whether the flow mirrors a topic; `propose` gives its target topic where classes of the user's do;
    `decode` makes other rows of the task's (`pipeline.fetch.record_rows`). `stages` counts the Python processes that a
    row passes behind the reader.
    """

    source: ClientSettings
    limits: FetchLimits
    ring_bytes: int
    wants: Callable[[str], bool]
    commands: tuple[ClientSettings, str] | None = None
    receive_bytes: int = 0
    decode: Decode = _as_they_come
    propose: Callable[[str], str | None] | None = None
    stages: int = 1
