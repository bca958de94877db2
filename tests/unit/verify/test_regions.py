"""What lies between the stretches of an offset map, compared with what surrounds it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tests.unit.verify.test_matching import RECORDS, log, parts, span

from sparkmirror.batch.headers import BASE_OFFSET, NEXT_OFFSET
from sparkmirror.batch.part import Part
from sparkmirror.batch.records import Record
from sparkmirror.verify.matching import Findings, match
from sparkmirror.verify.regions import match_regions
from sparkmirror.verify.span import Span, Stretch

STRETCHES = (Stretch(0, 90, 0), Stretch(90, 110, 95))
"""The target has five offsets of its own in between."""


def compare(between: Sequence[Record], about: Span, source: Sequence[Record] = RECORDS) -> Findings:
    ours = log(source, 20)
    theirs = [*log(RECORDS[:90], 30), *log(between, 5, first=90), *log(RECORDS[90:], 30, first=95)]

    def read(is_target: bool, first: int, end: int) -> Iterator[Part]:
        for part in parts(theirs if is_target else ours):
            table = part.table
            yield part._replace(table=table[(table[:, NEXT_OFFSET] > first) & (table[:, BASE_OFFSET] < end)])

    found = match(about, read(False, 0, 200), read(True, 0, 205))
    match_regions(about, found, read)
    return found


def about(**fields: object) -> Span:
    return replace(span(stretches=STRETCHES, target_end=205), **fields)  # type: ignore[arg-type]


def test_records_that_came_again_after_a_crash_are_repeated() -> None:
    for again in (RECORDS[85:90], RECORDS[90:95]):
        found = compare(again, about())
        assert (found.repeated + found.equal, found.surplus, found.missing, found.first) == (205, 0, 0, None)


def test_a_record_that_nobody_mirrored_is_named() -> None:
    foreign = replace(RECORDS[91], value=b"foreign")
    found = compare([RECORDS[90], foreign, *RECORDS[92:95]], about())
    assert found.surplus == 1
    assert found.first is not None and (found.first.kind, found.first.downstream) == ("surplus", 91)
    assert found.first.target is not None and found.first.target["value"] == "foreign"
    assert compare([RECORDS[90], foreign, *RECORDS[92:95]], about(source_compacted=True)).holes >= 1


def test_what_is_missing_between_is_a_difference_unless_the_ledger_tells_of_it() -> None:
    """The source has five records that the map passes over."""
    stretches = (Stretch(0, 90, 0), Stretch(95, 105, 90))
    whole = replace(span(stretches=stretches, target_end=195))
    ours, theirs = log(RECORDS, 20), log([*RECORDS[:90], *RECORDS[95:]], 30)

    def read(is_target: bool, first: int, end: int) -> Iterator[Part]:
        for part in parts(theirs if is_target else ours):
            table = part.table
            yield part._replace(table=table[(table[:, NEXT_OFFSET] > first) & (table[:, BASE_OFFSET] < end)])

    def compared(about: Span) -> Findings:
        found = match(about, read(False, 0, 200), read(True, 0, 195))
        match_regions(about, found, read)
        return found

    found = compared(whole)
    assert (found.equal, found.missing) == (195, 5)
    assert found.first is not None and (found.first.kind, found.first.upstream) == ("missing", 90)
    found = compared(replace(whole, lost=((90, 95),)))
    assert (found.equal, found.missing, found.lost, found.first) == (195, 0, 5, None)
