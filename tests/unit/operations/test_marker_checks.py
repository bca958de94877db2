"""Whether a source ends transactions more often than their markers can be filled."""

from tests.unit.planning.test_log_comparison import data, marker

from sparkmirror.kafka.wire.batch_owners import OwnedBatch
from sparkmirror.model import TopicPartition
from sparkmirror.operations.marker_checks import MarkerRate, count_markers, judge_markers
from sparkmirror.policy.fillers import LONE
from sparkmirror.views.findings import Level

WHERE, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)


def at(batch: OwnedBatch, time_ms: int) -> OwnedBatch:
    return batch._replace(header=batch.header._replace(max_timestamp=time_ms))


def test_markers_are_counted_over_the_time_that_the_log_tells() -> None:
    batches = [data(0, [b"v"]), marker(1), data(2, [b"w"]), marker(3)]
    log = [at(one, 1000 + 500 * number) for number, one in enumerate(batches)]
    assert count_markers(WHERE, log) == MarkerRate(WHERE, 2, 1.5)
    assert count_markers(WHERE, []) == MarkerRate(WHERE, 0, 0.0)


def test_only_what_comes_too_often_is_a_warning_that_names_the_partition() -> None:
    seldom, often = MarkerRate(OTHER, 1000, 1000.0), MarkerRate(WHERE, 1000, 500 / LONE.one_replica)
    assert judge_markers("A", [seldom], 1).level is Level.OK
    told = judge_markers("A", [seldom, often], 40)
    assert told.level is Level.WARN
    assert "at the ends of 2 of 40 partitions, in orders-0, and some" in told.said
    assert f"up to {2 * LONE.one_replica:,.0f} a second" in told.said


def test_a_few_markers_say_nothing_of_how_often_they_come() -> None:
    found = judge_markers("A", [MarkerRate(WHERE, 3, 0.001)], 1)
    assert (found.level, "few or none" in found.said) == (Level.OK, True)
