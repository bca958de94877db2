"""What to make of a log that is not where it was left."""

from sparkmirror.kafka.lookup import Span
from sparkmirror.source.loss import Loss, judge_divergence, judge_out_of_range, judge_recreated


def test_out_of_range_is_retention_below_the_log_and_truncation_above_it() -> None:
    assert judge_out_of_range(50, Span(100, 200)) == Loss("retention", 50, 100)
    assert judge_out_of_range(250, Span(100, 200)) == Loss("truncated", 250, 200)


def test_a_position_inside_the_log_after_all_is_no_loss() -> None:
    assert [judge_out_of_range(position, Span(100, 200)) for position in (100, 150, 200)] == [None] * 3


def test_a_divergence_goes_back_to_where_the_logs_part_and_never_forward() -> None:
    assert judge_divergence(250, 200) == Loss("truncated", 250, 200)
    assert judge_divergence(250, 300) == Loss("truncated", 250, 250)


def test_a_topic_made_anew_is_read_from_its_beginning() -> None:
    assert judge_recreated(500) == Loss("recreated", 500, 0)
