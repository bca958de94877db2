"""Rate limits: what a task may read now, and how tasks share what the flow may read."""

from uuid import UUID

import pytest

from sparkmirror.control.commands import Pause
from sparkmirror.control.commands import Throttle as RateOrder
from sparkmirror.ledger.lineage import Lineage
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.fetch.partitions import PartitionFetchState
from sparkmirror.pipeline.fetch.throttle import Bucket, Throttle
from sparkmirror.policy.rates import RateLimit


def fetch_states(topic: str, *numbers: int) -> list[PartitionFetchState]:
    return [PartitionFetchState(TopicPartition(topic, number), Lineage(UUID(int=1)), 0, None, -1) for number in numbers]


def rates(fetch_state: PartitionFetchState) -> list[float]:
    return [bucket.rate for bucket in fetch_state.buckets]


def test_what_a_fetch_brings_is_waited_for_until_its_rate_allows_the_next() -> None:
    bucket = Bucket(now=0.0)
    bucket.set_rate(1_000_000, 0.0)
    assert bucket.seconds_until_ready(0.0) == 0.0
    bucket.spend(500_000)
    assert bucket.seconds_until_ready(0.0) == pytest.approx(0.5)
    assert bucket.seconds_until_ready(0.25) == pytest.approx(0.25)
    assert bucket.seconds_until_ready(0.5) == 0.0


def test_a_pause_saves_up_a_moment_and_no_more() -> None:
    bucket = Bucket(now=0.0)
    bucket.set_rate(1_000_000, 0.0)
    assert bucket.seconds_until_ready(3600.0) == 0.0
    bucket.spend(bucket.grain_bytes)
    assert bucket.seconds_until_ready(3600.0) == 0.0
    bucket.spend(1_000_000)
    assert bucket.seconds_until_ready(3600.0) == pytest.approx(1.0)


def test_over_an_hour_a_greedy_reader_gets_its_rate() -> None:
    bucket, now, read = Bucket(now=0.0), 0.0, 0
    bucket.set_rate(100_000, 0.0)
    while now < 3600:
        now += bucket.seconds_until_ready(now) or 0.001
        if not bucket.seconds_until_ready(now):
            bucket.spend(bucket.grain_bytes)
            read += bucket.grain_bytes
    assert read == pytest.approx(3600 * 100_000, rel=0.001)


def test_tasks_share_a_limit_by_their_partitions() -> None:
    throttle = Throttle([RateLimit("", 900), RateLimit("logs.*", 500)], {"orders": 4, "logs-a": 5})
    mine = [*fetch_states("orders", 0, 1), *fetch_states("logs-a", 0)]
    throttle.share_out(mine, 0.0)
    assert rates(mine[0]) == [pytest.approx(300)], "three of the flow's nine partitions"
    assert rates(mine[2]) == [pytest.approx(300), pytest.approx(100)]
    assert mine[0].buckets[0] is mine[2].buckets[0]
    throttle.note_topics({"logs-b": 5, "orders": 0})
    throttle.share_out(mine[2:], 0.0)
    assert rates(mine[2]) == [pytest.approx(90), pytest.approx(50)]


def test_the_first_pattern_counts_and_a_topic_without_one_has_no_limit() -> None:
    throttle = Throttle([RateLimit("a.*", 10), RateLimit("a-b", 20)], {"a-b": 1, "c": 1})
    (first,), (other,) = fetch_states("a-b", 0), fetch_states("c", 0)
    throttle.share_out([first, other], 0.0)
    assert rates(first) == [10]
    assert other.buckets == ()
    assert other.may_read(0.0)


def test_an_order_replaces_a_limit_takes_it_away_or_goes_back_to_the_file() -> None:
    throttle = Throttle([RateLimit("", 100)], {"a": 1})
    (fetch_state,) = fetch_states("a", 0)
    seen = []
    for rate in (50, 0, None):
        throttle.order("", rate)
        throttle.share_out([fetch_state], 0.0)
        seen.append(rates(fetch_state))
    assert seen == [[50], [], [100]]
    throttle.order("a", 7)
    throttle.share_out([fetch_state], 0.0)
    assert rates(fetch_state) == [100, 7]


def test_an_order_of_an_earlier_epoch_gives_way_to_the_file_at_once() -> None:
    given = RateOrder("run", "", 50), Pause("run", 1, "", None), RateOrder("run", "a.*", 7)
    throttle = Throttle([RateLimit("", 100)], {"ab": 1}, given)
    (fetch_state,) = fetch_states("ab", 0)
    throttle.share_out([fetch_state], 0.0)
    assert rates(fetch_state) == [50, 7]
    throttle.order("", None)
    throttle.order("a.*", None)
    throttle.share_out([fetch_state], 0.0)
    assert rates(fetch_state) == [100]


def test_a_debt_is_not_forgiven_by_a_new_share() -> None:
    throttle = Throttle([RateLimit("", 100_000)], {"a": 2})
    mine = fetch_states("a", 0)
    throttle.share_out(mine, 0.0)
    mine[0].spend(200_000)
    assert not mine[0].may_read(0.0)
    throttle.share_out([*mine, *fetch_states("a", 1)], 0.0)
    assert throttle.seconds_until_ready(0.0) == pytest.approx(2.0)
    assert throttle.bytes_max(1 << 20) == 25_000
