"""The offset map of one partition: where each source offset lies on the target; exact, compact, bounded; pure.

A map is a list of segments of constant distance between source and target offset; a new one begins only where the
distance changes (a transaction marker, a hole, a restart). Where holes are close to each other, as behind a filter, a
segment has a bit for each source offset instead. Built by `pipeline.produce.mapping` from acknowledgements,
folded by `ledger.map_records` from what is stored, asked by `ledger.translate`. Offsets are always the next to read: a
source offset translates to the place from which a consumer of the target sees every record that it has not read
(invariant 7).
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import takewhile
from operator import attrgetter
from typing import Final, NamedTuple
from uuid import UUID

from sparkmirror.batch.offset_bits import BITS_MAX, RANGE_BITS, newest_starts
from sparkmirror.ledger.map_segments import Chunk, Segment, join
from sparkmirror.model import NO_TOPIC_ID, is_another_topic

WEIGHT_MAX: Final = 8192
"""The most that the segments of one partition weigh. Beyond it pairs of segments in the older half are joined."""
_FLAT: Final = -(1 << 62)
"""The distance of a segment without exact places: all its offsets translate to its beginning."""
_FIRST = attrgetter("first")
_TARGET = attrgetter("target")


class Translation(NamedTuple):
    """An offset on the other side. If not `exact` it lies before the true one, never beyond."""

    offset: int
    exact: bool


class OffsetMap:
    """One partition's map from the offset `begin` on, `begin` being where its first writer started.

    `topic_id` is the id of the target's topic whose offsets these are, `source_id` of the source's; NO_TOPIC_ID if
    unknown. `is_renewed` is as in `Chunk`.
    """

    def __init__(self, begin: int, topic_id: UUID = NO_TOPIC_ID, source_id: UUID = NO_TOPIC_ID) -> None:
        self.segments: list[Segment] = []
        self.end_source = begin
        self.end_target = -1
        self.topic_id = topic_id
        self.source_id = source_id
        self.is_renewed = False
        self.weight = 0

    # Building.

    def append(self, first: int, records: int, target: int, bits: int = 0) -> None:
        """`records` records from source offset `first` on were written from `target` on: consecutive ones, or those
        whose `bits` are set.

        Records that come again, after a restart, count where they lie last. A target that goes back was truncated or
        made again: what lay there is forgotten.
        """
        end = first + (bits.bit_length() or records)
        if first >= self.end_source and target == self.end_target and self.segments:
            last = self.segments[-1]
            if last.exact and (
                (not (bits or last.bits) and last.delta == target - first) or self._widen(first, end, bits)
            ):
                self._reach(end, target + records)
                return
        self._cut_back(first, target)
        self._add(Segment(self.end_source, target, target - first, bits=bits))
        self._reach(end, target + records)

    def _widen(self, first: int, end: int, bits: int) -> bool:
        """Add the records from `first` up to `end` to the last segment's bits, if that takes no more than a segment of
        their own."""
        last = self.segments[-1]
        records, known = self.end_target - last.target, last.bits.bit_length()
        width = known or records
        is_whole = records > 0 and last.base + width <= first and (not known or last.bits.bit_count() == records)
        new_bits = end - last.base - known
        if last.splits or not is_whole or new_bits + known > BITS_MAX:
            return False
        if new_bits > RANGE_BITS + bits.bit_length():
            return False
        mine, added = last.bits or (1 << records) - 1, bits or (1 << (end - first)) - 1
        self.segments[-1] = widened = last._replace(bits=mine | added << (first - last.base))
        self.weight += widened.weight - last.weight
        return True

    def begin_at(self, target: int) -> None:
        """An empty map says where its first record will lie."""
        self._add(Segment(self.end_source, target, target - self.end_source))
        self.end_target = target

    def append_unknown(self, first: int, records: int) -> None:
        """The records are on the target, behind all earlier ones, at an unknown place (DUPLICATE_SEQUENCE)."""
        if self.end_target < 0:
            self.end_source = first + records
            return
        self._cut_back(first, self.end_target)
        self._add(Segment(self.end_source, self.end_target, self.end_target - first, exact=False))
        self._reach(first + records, self.end_target + records)

    def append_apart(self, first: int, end: int) -> None:
        """The records from source offset `first` up to `end` are on the target, and others may be among them that are
        not this partition's: a group that is led behind one of them would pass over those. All translate to where they
        begin, and on the way back, too."""
        if self.end_target < 0:
            self.end_source = end
            return
        self._cut_back(first, self.end_target)
        self._add(Segment(self.end_source, self.end_target, _FLAT, exact=False))
        self._reach(end, self.end_target)

    def append_more(self, records: int, *, exact: bool) -> None:
        """`records` more became of the last record, behind it; `exact` where their place is known. They begin with the
        record's first: a group before it reads all of them, and one behind it none."""
        self._drop_empty()
        if not self.segments:
            return
        last = self.segments[-1]
        self.segments[-1] = last._replace(splits=last.exact)
        self._reach(self.end_source, self.end_target + records)
        self._add(Segment(self.end_source, self.end_target, self.end_target - self.end_source, exact))

    def advance(self, offset: int) -> None:
        """No record up to `offset` is mirrored: transaction markers, a gap, filtered records."""
        self.end_source = max(self.end_source, offset)

    def extend(self, chunk: Chunk) -> None:
        """A later chunk follows. If something is missing in between, that translates to its beginning.

        One of another topic, on either side, is the beginning of another log: what is known of the former one is
        forgotten.
        """
        head = chunk.segments[0]
        if is_another_topic(self.source_id, chunk.source_id):
            self._forget(head.first)
        if chunk.source_id != NO_TOPIC_ID:
            self.source_id = chunk.source_id
        self.is_renewed |= chunk.is_renewed
        if chunk.topic_id != NO_TOPIC_ID:
            if self.topic_id not in (NO_TOPIC_ID, chunk.topic_id):
                self._forget(head.first)
                self.is_renewed = True
            self.topic_id = chunk.topic_id
        begin, missing, is_known = self.begin, max(head.first - self.end_source, 0), bool(self.segments)
        if is_known and missing:
            self._add_missing(head)
        self._cut_back(head.first, head.target)
        if is_known and not self.segments and begin < head.first:  # the log was cut below all that is known of it
            self._add(Segment(begin, max(head.target - 2 * missing, 0), _FLAT, exact=False))
        self._add(head)
        self.segments += chunk.segments[1:]
        self.weight += sum(segment.weight for segment in chunk.segments[1:])
        self._reach(chunk.end_source, chunk.end_target)

    def _add_missing(self, head: Segment) -> None:
        """What lies between here and `head` is not known. Where the log was cut since, it begins below `head`: by a
        record and a transaction's marker for each offset, at most."""
        begins = self.end_target
        if head.target < begins:
            begins = max(head.target - 2 * (head.first - self.end_source), self.segments[0].target + 1)
            self._cut_back(head.first, begins)
        self._add(Segment(self.end_source, begins, _FLAT, exact=False))

    def as_chunk(self) -> Chunk:
        segments = tuple(self.segments)
        return Chunk(segments, self.end_source, self.end_target, self.topic_id, self.is_renewed, self.source_id)

    def _forget(self, begin: int) -> None:
        self.segments.clear()
        self.weight = 0
        self.end_source = begin
        self.end_target = -1

    def _add(self, segment: Segment) -> None:
        """Uncertain segments in a row are one: where the second begins on the target is not known."""
        if self.segments and self.segments[-1].first == segment.first:
            self._drop_empty()
        last = self.segments[-1] if self.segments else None
        if last is not None and _is_continued(last, segment):
            self.segments[-1] = last._replace(splits=segment.splits)
            return
        if last is not None and not last.exact and not segment.exact:
            segment = join([self._pop(), segment])
        self.segments.append(segment)
        self.weight += segment.weight

    def _drop_empty(self) -> None:
        """Behind a record that became several stands a segment in which no offset lies yet."""
        if self.segments and self.segments[-1].first == self.end_source:
            self._pop()

    def _pop(self) -> Segment:
        last = self.segments.pop()
        self.weight -= last.weight
        return last

    def _weigh(self) -> None:
        self.weight = sum(segment.weight for segment in self.segments)

    def _reach(self, source: int, target: int) -> None:
        self.end_source = source
        self.end_target = target

    def _cut_back(self, first: int, target: int) -> None:
        """Forget what begins at or after `first`, or lies at or after `target`."""
        if first < self.end_source:
            self._cut(bisect_left_by(self.segments, first, _FIRST))
            self.end_source = first
        if target < self.end_target:
            self._cut(bisect_left_by(self.segments, target, _TARGET))
            if not self.segments:
                self.end_source = first

    def _cut(self, at: int) -> None:
        if at < len(self.segments):
            del self.segments[at:]
            self._weigh()

    # Keeping it small.

    def shrink(self, weight_max: int = WEIGHT_MAX) -> None:
        """Join the older half in pairs until the segments weigh no more than `weight_max`, or one is left."""
        while self.weight > weight_max and len(self.segments) > 1:
            half = max(len(self.segments) // 2, 2)
            older = self.segments[:half]
            pairs = [older[at : at + 2] for at in range(0, half, 2)]
            self.segments[:half] = [join(pair) for pair in pairs]
            self._weigh()

    def prune(self, source_start: int) -> None:
        """Join all segments below the source's log start, which no group asks for any more."""
        below = bisect_right(self.segments, source_start, key=_FIRST) - 1
        if below > 1:
            self.segments[:below] = [join(self.segments[:below])]
            self._weigh()

    # Translation.

    @property
    def begin(self) -> int:
        """The lowest source offset that can be translated."""
        return self.segments[0].first if self.segments else self.end_source

    def translate(self, source_offset: int) -> Translation | None:
        """To the target; None below `begin`, unless the target's log begins with this map.

        Where it follows another log the answer is its beginning: what other sources say of lower offsets, as offset
        syncs do, is of the former one.
        """
        if not self.segments:
            return None
        if source_offset >= self.end_source:
            return Translation(self.end_target, source_offset == self.end_source and self.segments[-1].exact)
        at = bisect_right(self.segments, source_offset, key=_FIRST) - 1
        if at < 0:
            begins_log = self.segments[0].target == 0
            return Translation(0, begins_log) if begins_log or self.is_renewed else None
        segment = self.segments[at]
        reached = max(segment.target, segment.place(source_offset))
        following = self.segments[at + 1] if at + 1 < len(self.segments) else None
        cap = self.end_target if following is None else following.target
        is_sure = reached <= cap or following is None or following.exact
        return Translation(min(reached, cap), segment.exact and is_sure)

    def at_most(self, source_offset: int) -> int | None:
        """Where the first record at or after `source_offset` lies at the latest; None if unknown.

        Where the place is not certain the next exact segment tells: a group there has not read its first record.
        """
        if not self.segments or source_offset >= self.end_source:
            return None
        translated = self.translate(source_offset)
        if translated is not None and translated.exact:
            return translated.offset
        at = bisect_right(self.segments, source_offset, key=_FIRST)
        return next((segment.target for segment in self.segments[at : at + 2] if segment.exact), None)

    def records_end(self, source_offset: int) -> int | None:
        """The target offset behind the last record before `source_offset`, where its translation lies beyond that.

        Between the two is no record (a transaction's marker, say): a consumer at either has read the same.
        """
        at = bisect_right(self.segments, source_offset, key=_FIRST) - 1
        if at < 1 or self.segments[at].first != source_offset:
            return None
        if not self.segments[at - 1].exact or self.segments[at - 1].splits:
            return None
        return self.segments[at - 1].place(source_offset)

    def translate_back(self, target_offset: int) -> Translation | None:
        """To the source: everything before it has been written to the target below `target_offset`."""
        if not self.segments:
            return None
        at = bisect_right(self.segments, target_offset, key=_TARGET) - 1
        if at < 0:
            return None
        segment = self.segments[at]
        if not segment.exact:
            return Translation(segment.first, False)
        cap = self.segments[at + 1].first if at + 1 < len(self.segments) else self.end_source
        if target_offset >= self.end_target:
            return Translation(self.end_source, target_offset == self.end_target)
        source_offset = segment.source_of(target_offset)
        if segment.splits and source_offset >= cap:
            return Translation(cap - 1, False)
        return Translation(min(max(source_offset, segment.first), cap), True)

    def stretches(self, seen: int = 0) -> Iterator[tuple[int, int, int]]:
        """(first source offset, records, first target offset) of each exact segment, from the source offset `seen` on.

        Segments without exact places are left out.
        """
        for segment, (next_first, next_target) in zip(self.segments, self._bounds(), strict=True):
            if not segment.exact or next_first <= seen:
                continue
            whole = segment.base, next_first - segment.base, segment.target
            for base, records, target in segment.ranges() if segment.bits else (whole,):
                first = max(segment.first, base, seen)
                end = min(next_first, base + records, base + next_target - target)
                if first < end:
                    yield first, end - first, first - base + target

    def newest_ranges(self, wanted: int) -> int:
        """A source offset from which on the map has `wanted` ranges of records, each behind a hole; its beginning where
        they are not looked for, as where there are no bits."""
        following = self.end_source, self.end_target
        for segment in reversed(self.segments):
            is_whole = segment.base + segment.bits.bit_length() <= following[0]
            if is_whole and segment.target + segment.bits.bit_count() <= following[1]:
                found, at = newest_starts(segment.bits, wanted)
                wanted -= found
                if wanted <= 0:
                    return segment.base + at
            following = segment.first, segment.target
        return self.begin

    def records_between(self, first: int, end: int) -> int:
        """Records that were mirrored of source offsets from `first` up to `end`; at most, where that is not certain."""
        inside = takewhile(lambda stretch: stretch[0] < end, self.stretches(first))
        certain = sum(min(at + records, end) - at for at, records, _ in inside)
        uncertain = sum(
            max(min(next_first, end) - max(segment.first, first), 0)
            for segment, (next_first, _) in zip(self.segments, self._bounds(), strict=True)
            if not segment.exact
        )
        return certain + uncertain

    def _bounds(self) -> list[tuple[int, int]]:
        """For each segment the source offset and the target offset before which it ends."""
        return [*((segment.first, segment.target) for segment in self.segments[1:]), (self.end_source, self.end_target)]


def _is_continued(last: Segment, segment: Segment) -> bool:
    is_plain = last.exact and segment.exact and not (last.splits or last.bits or segment.bits)
    return is_plain and last.delta == segment.delta


def bisect_left_by(segments: Sequence[Segment], bound: int, key: "attrgetter[int]") -> int:
    """The index of the first segment whose `key` is at least `bound`."""
    return bisect_right(segments, bound - 1, key=key)
