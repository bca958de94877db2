"""About how many of the offsets to mirror have no record, by the headers of some of their batches."""

import pytest
from tests.unit.planning.test_log_comparison import data, marker

from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.wire.batch_owners import OwnedBatch
from sparkmirror.model import TopicPartition
from sparkmirror.operations.hole_samples import (
    PARTITIONS_MAX,
    Holes,
    HoleSample,
    HoleSamples,
    Reading,
    advise_filler,
    choose_partitions,
    count_holes,
    merge,
    places,
    read_places,
)
from sparkmirror.policy.fillers import ABORTED, FILLERS, LONE, MARKERS, WRITE_MARKERS, Hole

WHERE, REMOTE = TopicPartition("orders", 0), TopicPartition("A.orders", 0)


def compacted(batch: OwnedBatch, records: int) -> OwnedBatch:
    """So many of its records are left."""
    return batch._replace(header=batch.header._replace(records_count=records))


def old(batch: OwnedBatch) -> OwnedBatch:
    return batch._replace(header=batch.header._replace(magic=1))


def sample(left: Hole, reading: Reading | None, replicas: int = 1) -> HoleSample:
    return HoleSample(WHERE, REMOTE, left, replicas, reading)


@pytest.mark.parametrize(
    ("batches", "found"),
    [
        ([data(10, [b"v"] * 5)], Reading(5)),
        ([data(10, [b"v"]), marker(11), data(12, [b"v"]), marker(13)], Reading(4, (Holes(1, 1), Holes(1, 1)))),
        ([data(10, [b"v"])._replace(is_aborted=True), marker(11), data(12, [b"v"])], Reading(3, (Holes(1, 2),))),
        ([data(10, [b"v"]), data(17, [b"v"])], Reading(8, (Holes(1, 6),))),
        ([data(13, [b"v"])], Reading(4, (Holes(1, 3),))),
        ([compacted(data(10, [b"v"] * 5), 0), data(15, [b"v"])], Reading(6, (Holes(1, 5),))),
        ([compacted(data(10, [b"v"] * 100), 1)], Reading(100, (Holes(2, 99),))),
        ([compacted(data(10, [b"v"] * 100), 50)], Reading(100, (Holes(26, 50),))),
        ([data(10, [b"v"]), data(2000, [b"v"])], Reading(990, (Holes(1, 989),))),
        ([data(10, [b"v"]), old(data(15, [b"v"]))], Reading(2)),
    ],
    ids=[
        "whole",
        "markers",
        "an aborted transaction is one hole with its marker",
        "no batch in between",
        "nor before the first",
        "an emptied batch",
        "one record left of a hundred",
        "half of them left: about as many holes as there are in a random order",
        "a hole to beyond the end",
        "a compressed old message may have more records than it says",
    ],
)
def test_offsets_without_a_record_are_counted_by_the_headers(batches: list[OwnedBatch], found: Reading) -> None:
    assert count_holes(10, 1000, batches) == found


def test_a_partition_is_read_at_its_beginning_its_middle_and_its_end() -> None:
    assert places(Hole(100, 1_000_100)) == (100, 500_100, 998_100)
    assert places(Hole(100, 1100)) == (100, 600, 600), "a short one once and a half"


class Reader:
    """A log of one record at each offset; an answer has so many, and one from `silent_from` on does not come."""

    def __init__(self, size: int, silent_from: int = 1 << 30) -> None:
        self.size, self.silent_from, self.looks = size, silent_from, list[int]()

    def look(self, first: int, **_: object) -> list[OwnedBatch]:
        self.looks.append(first)
        if first >= self.silent_from:
            raise ClusterUnreachable("nothing comes")
        return [data(at, [b"v"]) for at in range(first, first + self.size)]


@pytest.mark.parametrize(
    ("reader", "looks", "found"),
    [
        (Reader(10), [0, 5000, 8000], Reading(30)),
        (Reader(6000), [0, 6000], Reading(10_000)),
        (Reader(10_000), [0], Reading(10_000)),
        (Reader(10, silent_from=5000), [0, 5000], Reading(10)),
        (Reader(10, silent_from=0), [0], None),
    ],
    ids=["three places", "two answers have all", "one has", "no answer in the middle", "no answer at all"],
)
def test_nothing_is_read_twice_and_who_does_not_answer_is_not_asked_again(
    reader: Reader, looks: list[int], found: Reading | None
) -> None:
    assert read_places(reader, Hole(0, 10_000), is_committed=False) == found  # type: ignore[arg-type]
    assert reader.looks == looks


def test_holes_of_one_size_are_reckoned_with_at_once() -> None:
    holes = [Holes(1, 1), Holes(1, 50), Holes(2, 2), Holes(4, 200)]
    assert merge(holes) == (Holes(3, 3), Holes(5, 250))
    apart, merged = (sample(Hole(0, 1000), Reading(500, tuple(some))) for some in (holes, merge(holes)))
    assert apart.cost(WRITE_MARKERS).seconds == pytest.approx(merged.cost(WRITE_MARKERS).seconds)


def test_what_was_read_stands_for_all_that_is_left() -> None:
    lone = sample(Hole(0, 100_000), Reading(1000, tuple([Holes(1, 1)] * 100)))
    assert (lone.missing, lone.read) == (10_000, 1000)
    assert lone.cost(MARKERS).seconds == pytest.approx(10_000 / LONE.one_replica)
    assert lone.cost(ABORTED) == lone.cost(MARKERS), "holes of one offset take a marker each, whatever fills them"
    whole = sample(Hole(0, 1_000_000), Reading(1_000_000, (Holes(1, 900_000),)))
    assert whole.missing == 900_000
    assert whole.cost(ABORTED).seconds < 1 < 60 < whole.cost(WRITE_MARKERS).seconds < 120
    assert whole.cost(MARKERS).seconds > 2000


def test_the_lines_say_from_how_much_they_know_it_and_of_what_they_know_nothing() -> None:
    lone = sample(Hole(700, 100_700), Reading(1000, tuple([Holes(1, 1)] * 100)))
    full = HoleSample(TopicPartition("orders", 1), TopicPartition("A.orders", 1), Hole(0, 500), 1, Reading(500))
    silent = HoleSample(TopicPartition("orders", 2), TopicPartition("A.orders", 2), Hole(0, 500), 1, None)
    assert list(HoleSamples(MARKERS, 3, (lone, full, silent)).lines()) == [
        "fill about 10,000 of 100,000 offsets of A.orders-0, 700 to 100699, which have no record on the source, by "
        "1,000 that were read: about 167 s, 780.0 kB for each replica",
        "of 100,500 offsets to mirror in 2 partitions 1,500 were read: about 10,000 have no record: about 167 s, "
        "780.0 kB for each replica",
        "of 1 more partitions it is not known how many offsets have no record: no answer came",
    ]
    assert list(HoleSamples(MARKERS, 30, (full,)).lines()) == [
        "of 500 offsets to mirror in 1 partitions 500 were read: no offset without a record was found",
        f"of 29 more partitions it is not known how many offsets have no record: {PARTITIONS_MAX} are read at most",
    ]
    (told,) = HoleSamples(MARKERS, 1, (silent,)).as_json()["holes"]
    assert (told["missing"], told["seconds"], told["bytes"]) == (None, None, None), "unknown is not zero"


def test_where_nothing_is_left_nothing_is_said() -> None:
    assert list(HoleSamples(MARKERS, 0).lines()) == []


def test_each_topic_is_read_in_its_largest_partitions_before_one_is_read_in_all() -> None:
    left = {TopicPartition("long", number): Hole(0, 10_000 + number) for number in range(30)}
    left |= {TopicPartition("short", number): Hole(0, 10 + number) for number in range(2)}
    chosen = choose_partitions(left)
    assert len(chosen) == PARTITIONS_MAX
    assert [one for one in chosen if one.topic == "short"] == [TopicPartition("short", 0), TopicPartition("short", 1)]
    assert [one.partition for one in chosen if one.topic == "long"] == list(range(12, 30))


def test_another_filler_is_named_where_it_is_much_faster_and_with_what_it_costs() -> None:
    holes = HoleSamples(MARKERS, 1, (sample(Hole(0, 1_000_000), Reading(1_000_000, (Holes(1, 900_000),))),))
    (advice,) = advise_filler(MARKERS, {filler: holes.cost_with(filler).seconds for filler in FILLERS})
    assert "`preserve.offsets.filler = markers` fills the holes in about 2,419 s" in advice
    assert "aborted in about 1 s, which read_uncommitted consumers" in advice
    assert "write-markers in about 76 s, for which the target's brokers ask CLUSTER_ACTION" in advice
    assert list(advise_filler(ABORTED, {filler: holes.cost_with(filler).seconds for filler in FILLERS})) == []


def test_no_filler_is_named_where_each_hole_is_one_marker_or_little_is_to_be_filled() -> None:
    lone = HoleSamples(MARKERS, 1, (sample(Hole(0, 1_000_000), Reading(1000, tuple([Holes(1, 1)] * 100))),))
    short = HoleSamples(MARKERS, 1, (sample(Hole(0, 9000), Reading(9000, (Holes(1, 8000),))),))
    for holes in (lone, short):
        assert list(advise_filler(MARKERS, {filler: holes.cost_with(filler).seconds for filler in FILLERS})) == []
