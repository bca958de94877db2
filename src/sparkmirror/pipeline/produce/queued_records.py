"""What a partition buffer holds: runs as they came, ranges that are being rebuilt, and batches under way. Pure.

Owned by `pipeline.produce.buffer`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from sparkmirror.batch.header import BatchHeader, parse_header
from sparkmirror.batch.piece import Piece, Span
from sparkmirror.batch.unpacking import Unpacking, UnpackingBusy
from sparkmirror.errors import ContentTooLarge, ProtocolError, RecordTooLarge
from sparkmirror.ledger.lineage import Lineage
from sparkmirror.model import NO_EPOCH


class Making(NamedTuple):
    """One new batch out of a range that is rebuilt, and the source offset that it reaches."""

    piece: Piece
    next_offset: int


class Rewriting:
    """A range of batches that is rebuilt piece by piece (`batch.rewrite.rewrite`), each piece when it is about to go
    out.

    `make` gives the pieces from a source offset on. The last piece reaches to the range's end: offsets behind its last
    record are empty. One piece is made ahead, so that the last one is known; an error of a later record is raised when
    all pieces before it have been taken. `reached` is the source offset behind the last piece that was taken.
    """

    def __init__(self, make: Callable[[int], Iterator[Piece]], first_offset: int, next_offset: int) -> None:
        self._make = make
        self.reached = first_offset
        self._next_offset = next_offset
        self._problem: ProtocolError | RecordTooLarge | None = None
        self._pieces: Iterator[Piece] | None = None
        self._ahead: Piece | None = None
        self._is_over = False
        with suppress(UnpackingBusy):
            self._look_ahead()

    @property
    def has_more(self) -> bool:
        """Whether there may be another piece; True also while the unpacking budget is used up."""
        return not self._is_over

    def peek(self) -> Piece | None:
        """The piece that `take` gives next; None where it gives none, or raises. Raises UnpackingBusy."""
        if self._ahead is None:
            self._look_ahead()
        return self._ahead

    def park(self) -> None:
        """Free the unpacked records; they are unpacked again for the next piece."""
        self._pieces = self._ahead = None

    def take(self) -> Making | None:
        """The next piece; None if no record is left. Raises ProtocolError, RecordTooLarge and UnpackingBusy."""
        if self._ahead is None:
            self._look_ahead()
        piece = self._ahead
        if piece is None:
            if self._problem is not None:
                raise self._problem
            return None
        self._ahead, self.reached = None, piece.spans[-1].next_offset
        with suppress(UnpackingBusy):
            self._look_ahead()
        if self.has_more:
            return Making(piece, self.reached)
        return Making(piece, self._next_offset)

    def _look_ahead(self) -> None:
        """Raises UnpackingBusy; making then begins again behind the last piece."""
        if self._problem is not None:
            return
        if self._pieces is None:
            self._pieces = self._make(self.reached)
        try:
            self._ahead = next(self._pieces, None)
            self._is_over = self._ahead is None
        except (ProtocolError, RecordTooLarge) as problem:
            self._problem = problem
        except UnpackingBusy:
            self._pieces = None
            raise


class MadePieces:
    """As `Rewriting`, of pieces that are made already. Behind them comes the `problem`, if there is one. All
    that became of a source offset is in one piece."""

    __slots__ = ("_at", "_next_offset", "_pieces", "_problem", "reached")

    def __init__(self, pieces: Sequence[Piece], first_offset: int, next_offset: int, problem: str = "") -> None:
        self._pieces = pieces
        self._at = 0
        self.reached = first_offset
        self._next_offset = next_offset
        self._problem = problem

    @property
    def has_more(self) -> bool:
        return self._at < len(self._pieces) or bool(self._problem)

    def peek(self) -> Piece | None:
        return self._pieces[self._at] if self._at < len(self._pieces) else None

    def park(self) -> None:
        """There is nothing to free."""

    def take(self) -> Making | None:
        if self._at == len(self._pieces):
            if self._problem:
                raise ProtocolError(self._problem)
            return None
        piece = self._pieces[self._at]
        self._at += 1
        self.reached = piece.spans[-1].next_offset
        return Making(piece, self.reached if self.has_more else self._next_offset)


class QueuedRecords:
    """A run as it came: its bytes, and what to do when all of its batches are acknowledged or dropped.

    `at` is where its next batch begins, `header` that batch's once it is known, `rewriting` the range before `at` that
    is being rebuilt, of several batches from `whole_from` on (-1: of one), `pass_until` where merging is considered
    again, `leader_epoch` that of its batches, which have one in common, NO_EPOCH while it is not known. `turned` is set
    on a gap: the log that goes on behind it. `fetched_at_ms` is when it came from the source, 0 where that is not known
    any more.
    """

    __slots__ = (
        "at", "data", "fetched_at_ms", "first_offset", "handed_out", "header", "leader_epoch", "next_offset", "on_free",
        "open_batches", "pass_until", "rewriting", "turned", "whole_from",
    )  # fmt: skip

    def __init__(
        self,
        data: memoryview,
        first_offset: int,
        next_offset: int,
        on_free: Callable[[], None],
        fetched_at_ms: int = 0,
    ) -> None:
        self.data = data
        self.fetched_at_ms = fetched_at_ms
        self.first_offset = first_offset
        self.next_offset = next_offset
        self.on_free = on_free
        self.at = 0
        self.header: BatchHeader | None = None
        self.rewriting: Rewriting | MadePieces | None = None
        self.whole_from = -1
        self.pass_until = 0
        self.leader_epoch = NO_EPOCH
        self.turned: Lineage | None = None
        self.open_batches = 0
        self.handed_out = False

    @classmethod
    def handed_on(
        cls, data: memoryview, first_offset: int, next_offset: int, on_free: Callable[[], None], fetched_at_ms: int
    ) -> "QueuedRecords":
        """A run whose only batch is under way."""
        queued = cls(data, first_offset, next_offset, on_free, fetched_at_ms)
        queued.at, queued.open_batches, queued.handed_out = len(data), 1, True
        return queued

    @property
    def left_bytes(self) -> int:
        """The bytes that are not handed out, as they came from the source."""
        return len(self.data) - self.at

    @property
    def is_uncut(self) -> bool:
        """Whether the rest consists of whole batches, none of which is to be cut."""
        if self.rewriting is not None:
            return False
        return self.header is not None and self.header.base_offset >= self.first_offset

    def seek_batch(self) -> bool:
        """Skip batches that are not to be sent: control batches, and those below `first_offset`.

        False when none is left. Raises ProtocolError.
        """
        if self.rewriting is not None:
            if self.rewriting.has_more:
                return True
            self.rewriting = None
        while self.header is None and self.at < len(self.data):
            header = parse_header(self.data, self.at)
            if header.total_bytes > self.left_bytes:
                claimed = f"{header.total_bytes} bytes, of which {self.left_bytes} came"
                raise ProtocolError(f"record batch at offset {header.base_offset} claims {claimed}")
            if not header.is_control and header.next_offset > self.first_offset:
                self.header = header
            else:
                self.pass_by(header)
        return self.header is not None

    def can_give(self, room_bytes: int) -> bool:
        """Whether `fuse` may take the next batch; a damaged one is found again in its turn."""
        try:
            return self.seek_batch() and self.is_uncut and self.header.total_bytes <= room_bytes  # type: ignore[union-attr]
        except ProtocolError:
            return False

    @property
    def epoch_ahead(self) -> int:
        """The leader epoch of the next batch."""
        return self.leader_epoch if self.header is None else self.header.partition_leader_epoch

    def take(self, room_bytes: int) -> tuple[memoryview, int]:
        """For `fuse`: the next batches, as many as fit, which then count as one under way, and the source offset that
        they reach."""
        start, end = self.at, self.at + room_bytes
        reached, header = self.first_offset, self.header
        with suppress(ProtocolError):  # a damaged one is found again in its turn
            while header is not None and header.base_offset >= self.first_offset:
                if self.at + header.total_bytes > end:
                    break
                reached = header.next_offset
                self.pass_by(header)
                header = self.header if self.seek_batch() else None
        self.open_batches += 1
        return self.data[start : self.at], reached if self.left_bytes else self.next_offset

    def pass_by(self, header: BatchHeader) -> None:
        self.at += header.total_bytes
        self.header = None
        self.leader_epoch = header.partition_leader_epoch

    def rewrite(
        self, stop: int, next_offset: int, leader_epoch: int, make: Callable[[int], Iterator[Piece]], *, is_one: bool
    ) -> None:
        """Rebuild the batches up to byte `stop`, which reach to `next_offset`. `is_one` for a single batch."""
        self.whole_from = -1 if is_one else self.at
        self.at = stop
        self.header = None
        self.leader_epoch = leader_epoch
        self.rewriting = Rewriting(make, self.first_offset, next_offset)

    def make_anew(self, unpacking: Unpacking) -> Making | None:
        """The next piece of the range; None if none is left, or if the rest of its batches had better pass as it is.

        Raises as `Rewriting.take`, ContentTooLarge only for a batch that cannot pass.
        """
        assert self.rewriting is not None
        making: Making | None = None
        try:
            making = self.rewriting.take()
        except ContentTooLarge:
            unpacking.is_poor = True
            if self.whole_from < 0:
                raise
        if unpacking.is_poor and self.whole_from >= 0 and self.rewriting.has_more:
            self.at, self.first_offset = self.whole_from, self.rewriting.reached
            self.rewriting = self.header = None
        return making

    def hand_out(self) -> None:
        """No batch is left to hand out; frees the memory if none is under way."""
        self.handed_out = True
        if not self.open_batches:
            self.on_free()

    def settle(self) -> None:
        """One batch is done; frees the memory after the last one."""
        self.open_batches -= 1
        if self.handed_out and not self.open_batches:
            self.on_free()

    def copy_first(self) -> "QueuedRecords | None":
        """A copy of the next batch alone; None for a batch that cannot be sent, which fails in its turn."""
        if self.rewriting is not None:
            try:
                making = self.rewriting.take()
            except (ProtocolError, RecordTooLarge, UnpackingBusy):
                return None
            if making is None:
                return None
            copy = QueuedRecords(memoryview(b""), self.first_offset, making.next_offset, free_nothing)
            copy.leader_epoch = self.leader_epoch
            copy.rewriting = MadePieces((making.piece,), self.first_offset, making.next_offset)
            return copy
        header = self.header
        size = header.total_bytes if header is not None else self.left_bytes
        data = memoryview(bytearray(self.data[self.at : self.at + size]))
        next_offset = self.next_offset
        if header is not None and self.at + size < len(self.data):
            next_offset = header.next_offset
        copy = QueuedRecords(data, self.first_offset, next_offset, free_nothing)
        copy.leader_epoch = self.leader_epoch
        return copy


def fuse(runs: Iterable[QueuedRecords], bytes_max: int) -> QueuedRecords | None:
    """The next batches of runs that continue each other, as one run in memory of its own, of at most `bytes_max`.

    The last run may be taken in part. The runs' memory is freed with the new one's. None, and nothing is taken, if all
    that fits is of one run.
    """
    taken: list[QueuedRecords] = []
    pieces: list[memoryview] = []
    room_bytes = bytes_max
    for queued in runs:
        if not queued.can_give(room_bytes) or (not taken and queued.left_bytes >= room_bytes):
            break
        if taken and queued.epoch_ahead != taken[0].leader_epoch:
            break
        data, reached = queued.take(room_bytes)
        pieces.append(data)
        taken.append(queued)
        room_bytes -= len(data)
        if queued.left_bytes:
            break
        queued.handed_out = True
    if not taken:
        return None

    def free_all() -> None:
        for queued in taken:
            queued.settle()

    data, first = memoryview(bytearray().join(pieces)), taken[0]
    fused = QueuedRecords(data, first.first_offset, reached, free_all, first.fetched_at_ms)
    fused.leader_epoch = first.leader_epoch
    return fused


def free_nothing() -> None:
    return None


@dataclass(slots=True, eq=False)
class Batch:
    """One batch under way. Its acknowledgement reaches the source offset `next_offset`, of the log of `lineage`.

    `spans` says where its records come from, `base_offset` where they went to once that is known; -1 before, and where
    the broker only says that it had the batch already.
    """

    data: memoryview
    sequence: int
    spans: tuple[Span, ...]
    records: int
    next_offset: int
    lineage: Lineage
    queued: QueuedRecords
    sent_at: float = 0.0
    waiting: bool = True
    acknowledged: bool = False
    base_offset: int = -1
    in_doubt: bool = False
    """Whether the target may have written it without an acknowledgement."""
    is_old: bool = False
    """Whether its records are so old that the log may forget its producer, where offsets are kept."""
    is_held: bool = False
    """Whether it stands for a range whose records may not go out yet."""
    is_refused: bool = False
    """Whether the target refused it by its limits: it goes out again as batches within them."""
    refusals: int = 0
    id_due_at: float = 0.0
    """The topic's id must have been asked for since then before the acknowledgement can be judged; 0 while it need not.
    """

    def let_go(self) -> None:
        """The records of the range that it stands for go out: an answer is due."""
        self.is_held, self.waiting = False, True

    def take_back(self) -> None:
        """No answer is due for the range any more: it will be read again."""
        self.waiting = False


def slice_spans(spans: tuple[Span, ...], first: int, records: int) -> tuple[Span, ...]:
    """The source offsets of the records `first` … of a batch with these spans."""
    found: list[Span] = []
    at, stop = 0, first + records
    for span in spans:
        begin, end = max(first, at), min(stop, at + span.records)
        if begin < end:
            found.append(span.part(begin - at, end - at))
        at += span.records
        more = min(stop, at + span.more) - max(first, at)
        if more > 0:
            has_record = begin < end and first < at
            found.append(found.pop()._replace(more=more) if has_record else Span(span.next_offset, 0, more))
        at += span.more
    return tuple(found)
