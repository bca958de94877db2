"""Whether a source ends transactions more often than their markers can be filled."""

from tests.unit.planning.test_log_comparison import data, marker

from sparkmirror.kafka.wire.batch_owners import OwnedBatch
from sparkmirror.model import TopicPartition
from sparkmirror.operations.marker_checks import MarkerRate, count_markers, judge_markers
from sparkmirror.policy.fillers import LONE
from sparkmirror.views.findings import Level

WHERE, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
ONE = {"orders": 1}


def at(batch: OwnedBatch, time_ms: int) -> OwnedBatch:
    return batch._replace(header=batch.header._replace(max_timestamp=time_ms))


def test_markers_are_counted_over_the_time_that_the_log_tells() -> None:
    batches = [data(0, [b"v"]), marker(1), data(2, [b"w"]), marker(3)]
    log = [at(one, 1000 + 500 * number) for number, one in enumerate(batches)]
    assert count_markers(WHERE, log) == MarkerRate(WHERE, 2, 1.5)
    assert count_markers(WHERE, []) == MarkerRate(WHERE, 0, 0.0)


def test_only_what_comes_too_often_is_a_warning_that_names_the_partition() -> None:
    seldom, often = MarkerRate(OTHER, 1000, 1000.0), MarkerRate(WHERE, 1000, 500 / LONE.one_replica)
    assert judge_markers("A", [seldom], 1, ONE).level is Level.OK
    found = judge_markers("A", [seldom, often], 40, ONE)
    assert found.level is Level.WARN
    assert f"up to {2 * LONE.one_replica:,.0f} a second in orders-0, at the ends of 2 of 40 partitions" in found.said
    assert f"some {LONE.one_replica:,.0f} are filled in one partition, with one replica" in found.said


def test_what_one_replica_takes_is_too_much_for_three_and_for_as_many_as_brokers_choose() -> None:
    rate = MarkerRate(WHERE, 1000, 1000 / 20)
    assert judge_markers("A", [rate], 1, ONE).level is Level.OK
    assert judge_markers("A", [rate], 1, {"orders": 3}).level is Level.WARN
    assert judge_markers("A", [rate], 1, {"orders": -1}).level is Level.WARN


def test_many_partitions_that_are_seldom_enough_alone_may_be_too_many_together() -> None:
    rates = [MarkerRate(TopicPartition("orders", number), 1000, 1000 / 20) for number in range(20)]
    assert judge_markers("A", rates[:5], 40, ONE).level is Level.OK
    found = judge_markers("A", rates, 40, ONE)
    assert found.level is Level.WARN
    assert "400 a second in 20 partitions together, at the ends of 20 of 40 partitions" in found.said
    assert "some 372 are filled in all" in found.said


def test_a_few_markers_say_nothing_of_how_often_they_come() -> None:
    found = judge_markers("A", [MarkerRate(WHERE, 3, 0.001)], 1, ONE)
    assert (found.level, "few or none" in found.said) == (Level.OK, True)
