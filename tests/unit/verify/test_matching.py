"""One span compared: logs made of batches as brokers hold them, each with one thing done to it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.batch.header import APPEND_TIME, Codec
from sparkmirror.batch.headers import BASE_OFFSET, NEXT_OFFSET, read_headers
from sparkmirror.batch.part import Part
from sparkmirror.batch.records import Record, encode_batch
from sparkmirror.model import TopicPartition
from sparkmirror.verify.matching import Findings, match
from sparkmirror.verify.span import Span, Stretch

TIME = 1_700_000_000_000
RECORDS = [
    Record(at, TIME + at % 7, b"k%d" % (at % 9) if at % 5 else None, b"value %d" % at, ((b"n", b"%d" % at),))
    for at in range(200)
]


def log(records: Sequence[Record], batch: int, codec: Codec = Codec.NONE, first: int = 0) -> list[bytes]:
    """Batches of so many records each, with dense offsets from `first` on."""
    return [encode_batch(records[at : at + batch], codec, first + at) for at in range(0, len(records), batch)]


def parts(batches: Sequence[bytes], at_a_time: int = 3) -> Iterator[Part]:
    """As a reader brings them, so many batches with a fetch."""
    for at in range(0, len(batches), at_a_time):
        data = memoryview(b"".join(batches[at : at + at_a_time]))
        table = read_headers(data, 0, len(data)).table
        yield Part(data, table, int(table[-1, NEXT_OFFSET]))


def span(end: int = 200, delta: int = 0, stretches: Sequence[Stretch] = (), target_end: int | None = None) -> Span:
    whole = tuple(stretches) or (Stretch(0, end, delta),)
    target_end = end + delta if target_end is None else target_end
    where = TopicPartition("orders", 0)
    return Span(where, where, 0, end, delta, target_end, whole, 0, end, target_end)


def compare(source: list[bytes], target: list[bytes], about: Span | None = None, at_a_time: int = 3) -> Findings:
    return match(about or span(), parts(source, at_a_time), parts(target, at_a_time + 1))


def test_batches_that_are_the_same_are_not_decoded() -> None:
    source, target = log(RECORDS, 20, Codec.LZ4), log(RECORDS, 20, Codec.LZ4, first=1000)
    found = compare(source, target, span(delta=1000))
    assert (found.equal, found.different, found.first) == (200, 0, None)
    assert found.identical_bytes == found.bytes == sum(map(len, source))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_rebuilt_batches_are_the_same_by_their_records(codec: Codec) -> None:
    found = compare(log(RECORDS, 7, Codec.LZ4), log(RECORDS, 50, codec))
    assert (found.equal, found.identical_bytes, found.first) == (200, 0, None)


def changed(at: int, **fields: object) -> list[Record]:
    return [replace(record, **fields) if number == at else record for number, record in enumerate(RECORDS)]  # type: ignore[arg-type]


TAMPERED: dict[str, tuple[list[Record], str]] = {
    "one flipped bit": (changed(100, value=b"value 101"), "value"),
    "a changed key": (changed(100, key=b"other"), "key"),
    "a null key": (changed(101, key=None), "key"),
    "an empty value": (changed(100, value=b""), "value"),
    "a changed header": (changed(100, headers=((b"n", b"x"),)), "headers"),
    "a header twice": (changed(100, headers=((b"n", b"100"), (b"n", b"100"))), "headers"),
    "a null header": (changed(100, headers=((b"n", None),)), "headers"),
    "a changed timestamp": (changed(100, timestamp=TIME - 1), "timestamp"),
    "one missing": ([*RECORDS[:100], *RECORDS[101:]], "missing"),
    "one twice": ([*RECORDS[:101], *RECORDS[100:]], "surplus"),
    "two swapped": ([*RECORDS[:100], RECORDS[101], RECORDS[100], *RECORDS[102:]], "swapped"),
}


@pytest.mark.parametrize("batches", [20, 7], ids=["other batches the same", "no batch the same"])
@pytest.mark.parametrize("what", TAMPERED)
def test_one_thing_changed_is_found_and_named(what: str, batches: int) -> None:
    records, kind = TAMPERED[what]
    found = compare(log(RECORDS, 20), log(records, batches))
    assert found.first is not None and found.first.kind == kind
    at = 101 if what in ("a null key", "one twice") else 100
    assert (found.first.upstream, found.first.downstream) == (at, at)
    assert found.different + found.missing + found.surplus > 0
    if batches == 20:
        assert found.identical_bytes >= 5 * len(log(RECORDS, 20)[0]), "what is before is not decoded"


def test_a_record_that_compaction_took_is_a_hole_only_where_the_topic_is_compacted() -> None:
    kept = encode_batch(RECORDS[:10]) + encode_batch(RECORDS[11:200], base_offset=11)
    found = compare(log(RECORDS, 20), [kept])
    assert (found.equal, found.missing, found.holes) == (199, 1, 0)
    assert found.first is not None and (found.first.kind, found.first.upstream) == ("missing", 10)
    found = compare(log(RECORDS, 20), [kept], replace(span(), target_compacted=True))
    assert (found.equal, found.missing, found.holes, found.first) == (199, 0, 1, None)
    found = compare([kept], log(RECORDS, 20), replace(span(), source_compacted=True))
    assert (found.equal, found.surplus, found.holes, found.first) == (199, 0, 1, None)


def test_a_target_that_ends_early_lacks_the_rest() -> None:
    found = compare(log(RECORDS, 20), log(RECORDS[:150], 20))
    assert (found.equal, found.missing) == (150, 50)
    assert found.first is not None and (found.first.kind, found.first.upstream) == ("missing", 150)


def test_offsets_are_compared_as_the_map_tells_and_what_lies_between_is_counted() -> None:
    """The target has five records twice between, and the source two offsets without records."""
    stretches = [Stretch(0, 90, 0), Stretch(92, 108, 95)]
    source = [*log(RECORDS[:90], 20), *log(RECORDS[92:], 20, first=92)]
    target = [*log(RECORDS[:90], 30), *log(RECORDS[85:90], 5, first=90), *log(RECORDS[92:], 30, first=95)]
    found = compare(source, target, span(stretches=stretches, target_end=203))
    assert (found.equal, found.first) == (198, None)
    assert (found.loose_source.tolist(), found.loose_target.tolist()) == ([0], [5])


def test_a_batch_across_two_stretches_counts_once() -> None:
    stretches = [Stretch(0, 100, 0), Stretch(110, 90, 100)]
    source = [*log(RECORDS[:100], 20), *log(RECORDS[110:], 20, first=110)]
    found = compare(source, log([*RECORDS[:100], *RECORDS[110:]], 33), span(stretches=stretches, target_end=190))
    assert (found.equal, found.first) == (190, None)
    assert found.loose_target.sum() == found.loose_source.sum() == 0


def test_times_that_the_target_stamps_are_not_compared() -> None:
    records = [replace(record, timestamp=TIME + 9999) for record in RECORDS]
    assert compare(log(RECORDS, 20), log(records, 20)).different == 200
    assert compare(log(RECORDS, 20), log(records, 20), replace(span(), with_times=False)).equal == 200


def test_a_lower_time_is_a_clamped_one_where_that_is_asked_for() -> None:
    found = compare(log(RECORDS, 20), log(changed(100, timestamp=TIME - 5), 20), replace(span(), may_clamp=True))
    assert (found.equal, found.clamped, found.first) == (200, 1, None)
    found = compare(log(RECORDS, 20), log(changed(100, timestamp=TIME + 50), 20), replace(span(), may_clamp=True))
    assert found.different == 1


def test_append_time_of_the_source_is_the_record_s_own_on_the_target() -> None:
    from tests.scenarios.odd_logs import sealed

    stamped = [sealed(batch, attributes=APPEND_TIME) for batch in log(RECORDS, 20)]
    times = [max(record.timestamp for record in RECORDS[at // 20 * 20 :][:20]) for at in range(200)]
    seen = [replace(record, timestamp=time) for record, time in zip(RECORDS, times, strict=True)]
    assert compare(stamped, log(seen, 20)).equal == 200


@given(
    st.integers(1, 60), st.integers(1, 60), st.integers(1, 5), st.integers(1, 5), st.integers(0, 199), st.integers(0, 3)
)
def test_however_both_sides_are_cut_the_changed_record_is_found(
    batch: int, other: int, at_a_time: int, other_at_a_time: int, at: int, delta: int
) -> None:
    source, target = log(RECORDS, batch), log(changed(at, value=b"else"), other, first=delta)
    found = match(span(delta=delta), parts(source, at_a_time), parts(target, other_at_a_time))
    assert (found.equal, found.different, found.missing, found.surplus) == (199, 1, 0, 0)
    assert found.first is not None
    assert (found.first.upstream, found.first.downstream, found.first.kind) == (at, at + delta, "value")


def test_a_table_of_one_part_is_left_as_it_was() -> None:
    (part,) = parts(log(RECORDS, 50), 4)
    before = part.table.copy()
    (other,) = parts(log(RECORDS, 50, first=5), 4)
    match(span(delta=5), iter([part]), iter([other]))
    assert (part.table == before).all() and int(other.table[0, BASE_OFFSET]) == 5
