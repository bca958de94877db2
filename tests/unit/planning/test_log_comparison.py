"""That records which stand elsewhere on the target are found, and that compaction and other batches are not."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.batch import crc
from sparkmirror.batch.empty_records import encode_empty
from sparkmirror.batch.header import (
    ATTRIBUTES_AT,
    CONTROL,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    TRANSACTIONAL,
    Codec,
    parse_header,
    stamp,
)
from sparkmirror.batch.records import Record, encode_batch
from sparkmirror.kafka.wire.batch_owners import OwnedBatch
from sparkmirror.planning.log_comparison import first_difference, first_parting
from sparkmirror.planning.log_proof import (
    Expected,
    Foreign,
    NotIdentical,
    are_start_fillers,
    require_own,
    require_placed,
)
from sparkmirror.policy.fillers import SEQUENCES, Hole

RECORD, VOID, GONE = "record", "void", "gone"
OURS = 7


def data(
    first: int,
    values: Sequence[bytes],
    codec: Codec = Codec.NONE,
    producer_id: int = OURS,
    *,
    is_transactional: bool = False,
    key: bytes = b"k",
) -> OwnedBatch:
    records = [Record(first + at, 1, key, value) for at, value in enumerate(values)]
    batch = bytearray(encode_batch(records, codec, first))
    return stamped(batch, first, producer_id, is_transactional=is_transactional)


def stamped(batch: bytearray, first: int, producer_id: int, *, is_transactional: bool) -> OwnedBatch:
    stamp(memoryview(batch), 0, parse_header(batch, 0), producer_id, 0, first % (1 << 31), is_transactional)
    batch[:8] = first.to_bytes(8)  # as a broker does
    return OwnedBatch(parse_header(batch, 0), memoryview(batch))


def marker(at: int, producer_id: int = 99) -> OwnedBatch:
    header = data(at, [b""], producer_id=producer_id).header
    return OwnedBatch(header._replace(attributes=CONTROL | TRANSACTIONAL), memoryview(b""))


class Cell(NamedTuple):
    """What one offset has, and whether a batch ends behind it."""

    kind: str
    value: bytes
    ends_batch: bool = False


def log_of(cells: Sequence[Cell], first: int, codec: Codec = Codec.NONE) -> Iterator[OwnedBatch]:
    ended = 0
    numbered = []
    for at, cell in enumerate(cells, first):
        numbered.append((at, cell, ended))
        ended += cell.ends_batch
    for (kind, _), some in groupby(numbered, lambda one: (one[1].kind, one[2])):
        run = list(some)
        if kind == RECORD:
            yield data(run[0][0], [cell.value for _, cell, _ in run], codec)
        elif kind == VOID:
            yield from (marker(at) for at, _, _ in run)


kinds = st.sampled_from([RECORD, RECORD, RECORD, VOID])
logs = st.lists(st.tuples(kinds, st.booleans(), st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=30)


def sides(drawn: Sequence[tuple[str, bool, bool, bool, bool]]) -> tuple[list[Cell], list[Cell]]:
    """The same content, each side with batches and compaction of its own."""
    source, target = [], []
    for at, (kind, here, there, gone_here, gone_there) in enumerate(drawn):
        value = b"value %d" % at
        source.append(Cell(GONE if gone_here else kind, value, here))
        target.append(Cell(GONE if gone_there else kind, value, there))
    return source, target


@given(logs, st.integers(0, 1 << 40), st.sampled_from([Codec.NONE, Codec.ZSTD]))
def test_a_copy_agrees_however_its_batches_are_cut_and_whatever_compaction_took(
    drawn: list[tuple[str, bool, bool, bool, bool]], first: int, codec: Codec
) -> None:
    source, target = sides(drawn)
    assert first_difference(log_of(source, first), log_of(target, first, codec)) is None


@given(logs, st.integers(0, 1 << 40), st.data())
def test_a_stray_marker_that_moved_what_follows_is_found_where_it_stands(
    drawn: list[tuple[str, bool, bool, bool, bool]], first: int, draws: st.DataObject
) -> None:
    source, target = sides([(kind, here, there, False, False) for kind, here, there, _, _ in drawn])
    places = [at for at, cell in enumerate(source) if cell.kind == RECORD]
    if not places:
        return
    at = draws.draw(st.sampled_from(places))
    moved = [*target[:at], Cell(VOID, b""), *target[at:]]
    assert first_difference(log_of(source, first), log_of(moved, first)) == first + at


@given(logs, st.data())
def test_a_record_where_the_source_has_another_or_a_marker_is_found(
    drawn: list[tuple[str, bool, bool, bool, bool]], draws: st.DataObject
) -> None:
    source, target = sides([(kind, here, there, False, False) for kind, here, there, _, _ in drawn])
    at = draws.draw(st.integers(0, len(target) - 1))
    target[at] = target[at]._replace(kind=RECORD, value=b"another")
    assert first_difference(log_of(source, 0), log_of(target, 0)) == at


def test_what_a_log_that_begins_within_a_batch_has_deleted_is_no_difference() -> None:
    source, target = [data(364, [b"gone", b"first"])], [marker(364), data(365, [b"first"])]
    assert first_difference(source, target, begins=365) is None
    assert first_difference(source, target, begins=364) == 364
    assert first_difference(source, [marker(364), data(365, [b"other"])], begins=365) == 365


@pytest.mark.parametrize("is_committed", [False, True])
def test_what_a_cleaner_left_of_a_producers_last_batch_is_nothing(is_committed: bool) -> None:
    whole = data(12, [b"a", b"b"], is_transactional=True)
    left = bytearray(whole.data[:HEADER_BYTES])
    left[8:12], left[57:61] = (HEADER_BYTES - LOG_OVERHEAD_BYTES).to_bytes(4), bytes(4)
    left[17:21] = crc.value(bytes(left[ATTRIBUTES_AT:])).to_bytes(4)
    cleaned = OwnedBatch(parse_header(left, 0), memoryview(left))
    assert (cleaned.first, cleaned.stop) == (12, 14)
    assert first_parting([cleaned], [whole], is_committed=is_committed) is None
    assert first_parting([whole], [cleaned], is_committed=is_committed) is None


def test_records_of_an_aborted_transaction_are_none() -> None:
    aborted = data(3, [b"a", b"b"])._replace(is_aborted=True)
    assert first_difference([aborted], [marker(3), marker(4)]) is None
    assert first_difference([aborted], [data(3, [b"a", b"b"])]) == 3


def test_empty_records_of_a_transaction_are_records_of_the_source_and_fill_the_target_however_they_are_packed() -> None:
    filled = data(0, [b"", b""], Codec.GZIP, is_transactional=True, key=b"")
    assert filled.is_filler
    assert not filled.fills_start
    assert first_difference([filled], [filled]) == 0
    assert first_difference([filled], [data(0, [b"", b""], key=b"")]) is None
    assert first_difference([marker(0), marker(1)], [filled]) is None
    assert not data(0, [b"", b"x"], Codec.GZIP, is_transactional=True).is_filler


def test_empty_records_that_somebody_else_has_committed_take_up_no_offsets() -> None:
    """Who reads committed records sees them."""
    asked: list[int] = []

    def takes_up(batch: OwnedBatch, *, aborted: bool = False) -> bool:
        asked.append(batch.first)
        return batch.takes_up({9}, lambda _: aborted)

    theirs, ours = (data(3, [b""], producer_id=one, is_transactional=True, key=b"") for one in (8, 9))
    log = [data(0, [b"x"] * 3), theirs]
    with pytest.raises(Foreign, match="from offset 3 on"):
        list(require_own(log, OURS, None, takes_up))
    assert len(list(require_own(log, OURS, None, partial(takes_up, aborted=True)))) == 2
    assert len(list(require_own([data(0, [b"x"] * 3), ours], OURS, None, takes_up))) == 2
    assert not data(3, [b"x"], producer_id=9, is_transactional=True).takes_up({9}, lambda _: True), "it has a value"
    asked.clear()
    assert len(list(require_own(log, OURS, Expected(4, 5), takes_up))) == 2
    assert asked == [], "what lies before may be adopted"


def test_a_record_of_somebody_else_is_no_proof_and_a_marker_may_be_anybodys() -> None:
    assert len(list(require_own([data(0, [b"x"]), marker(1)], OURS))) == 2
    with pytest.raises(NotIdentical, match="from offset 5 on"):
        list(require_own([data(5, [b"x"], producer_id=8)], OURS))


def sequenced(batch: OwnedBatch, sequence: int) -> OwnedBatch:
    return batch._replace(header=batch.header._replace(base_sequence=sequence))


@pytest.mark.parametrize(
    ("first", "sequence", "is_right"),
    [
        (12, 12, True),  # right behind
        (20, 12, True),  # behind fillers, which take no sequence number
        (20, 17, True),  # behind fillers and a batch that compaction took
        (20, 20, True),  # the log had forgotten the producer, or nothing is missing
        (12, 10, False),  # the same batch again
        (20, 5, False),  # a batch of a process that slept
        (20, 21, False),
    ],
)
def test_a_batch_that_was_appended_twice_or_late_shows_it_by_its_sequence_number(
    first: int, sequence: int, is_right: bool
) -> None:
    log = [data(10, [b"x", b"y"]), sequenced(data(first, [b"z"]), sequence)]
    if is_right:
        assert len(list(require_own(log, OURS))) == 2
        return
    with pytest.raises(NotIdentical, match=f"from offset {first} on were appended twice, or late"):
        list(require_own(log, OURS))


@pytest.mark.parametrize(
    ("sequence", "is_right"),
    [(7, True), (12, True), (8, False), (6, False)],
    ids=["as stored", "its offset: the log had forgotten the producer", "one is missing", "one came twice"],
)
def test_the_first_batch_behind_a_stored_position_has_the_stored_sequence_number(sequence: int, is_right: bool) -> None:
    log = [data(10, [b"x", b"y"]), sequenced(data(12, [b"z"]), sequence)]
    expected = Expected(12, sequence=7)
    if is_right:
        assert len(list(require_own(log, OURS, expected))) == 2
        return
    with pytest.raises(NotIdentical, match="from offset 12 on were appended twice, or late"):
        list(require_own(log, OURS, expected))


def test_a_batch_that_was_meant_for_a_former_log_shows_it_where_compaction_has_removed_what_belongs_there() -> None:
    """It was under way when its topic was deleted, and is the first of the one that was made again."""
    with pytest.raises(NotIdentical, match="from offset 0 on were appended twice, or late"):
        list(require_own([sequenced(data(0, [b"x"]), 26)], OURS))
    assert len(list(require_own([sequenced(data(26, [b"x"]), 20)], OURS))) == 1, "fillers stand before it"
    assert len(list(require_own([sequenced(data(SEQUENCES, [b"x"]), 26)], OURS))) == 1, "numbers began again"


def test_a_marker_of_somebody_else_is_found_where_the_source_has_lost_its_records() -> None:
    log = [data(0, [b"x"]), marker(1, producer_id=8), marker(2)]
    assert len(list(require_placed(log, Hole(2, 4), {99}))) == 3, "below the stored position"
    assert len(list(require_placed(log, Hole(1, 1), {99}))) == 3, "the source has what belongs there"
    assert len(list(require_placed(log, Hole(0, 4), {8, 99}))) == 3, "the flow's own fillers"
    with pytest.raises(NotIdentical, match="a marker to the target at offset 1, and the source no longer has"):
        list(require_placed(log, Hole(1, 4), {99}))


def empty(first: int, records: int, producer_id: int = OURS, *, is_transactional: bool = False) -> OwnedBatch:
    return stamped(encode_empty(records, 1), first, producer_id, is_transactional=is_transactional)


def test_only_the_flows_own_empty_records_may_be_deleted() -> None:
    assert are_start_fillers([empty(0, 300)], OURS)
    assert not are_start_fillers([], OURS)
    assert not are_start_fillers([empty(0, 300), data(300, [b"x"])], OURS)
    assert not are_start_fillers([empty(0, 300, producer_id=8)], OURS)
    assert not are_start_fillers([empty(0, 300, is_transactional=True)], OURS)
    assert not are_start_fillers([marker(0, OURS)], OURS)


@pytest.mark.parametrize(
    "filler", [[marker(4), marker(5), marker(6)], [data(4, [b"", b""], key=b"")._replace(is_aborted=True), marker(6)]]
)
def test_aborted_records_and_what_takes_their_place_agree_whichever_log_is_the_copy(filler: list[OwnedBatch]) -> None:
    aborted = data(4, [b"a", b"b"], producer_id=99, is_transactional=True)._replace(is_aborted=True)
    original = [data(0, [b"v"] * 4), aborted, marker(6), data(7, [b"w"])]
    copy = [data(0, [b"v"] * 4), *filler, data(7, [b"w"])]
    assert first_parting(original, copy, is_committed=True) is None
    assert first_parting(copy, original, is_committed=True) is None
    plain = [data(0, [b"v"] * 4), data(4, [b"a", b"b"]), marker(6), data(7, [b"x"])]
    assert first_parting(original, plain, is_committed=True) == 4
    uncommitted = [original[0], aborted._replace(is_aborted=False), *original[2:]]
    assert first_parting(plain, uncommitted, is_committed=False) == 7
