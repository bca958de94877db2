"""At least once, a batch that the target may have is sent again as it was: its sequences stand for its records.

One task's sending end on a real broker (`one_task`), over a link that breaks before an answer comes.
"""

from collections.abc import Callable, Iterator

import pytest
from tests.faults.numbered import end_offsets
from tests.faults.one_task import Mirrored, OneTask
from tests.faults.test_refused_positions import AUTHORIZER, allow_all, forbid_writing

from sparkmirror.testing.kafka import KafkaCluster
from sparkmirror.testing.proxy import LongLink

BEFORE, DOUBTFUL, BEGIN, AFTER = 100, 150, 1000, 1050
"""The records behind the gap are as many as those in doubt: a producer that took their sequences lost them all."""
ROUND_TRIP_SECONDS = 12.0
"""Half of it is for the request, which is sent in `SENT_SECONDS`; its answer comes long after the test."""
SENT_SECONDS, NEVER_SECONDS = 2.0, 600.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    """Each test leaves its link in order."""
    with KafkaCluster(name="doubt", config=AUTHORIZER, far=LongLink(0.0)) as cluster:
        yield cluster


@pytest.fixture
def flow(cluster: KafkaCluster, unique: Callable[[str], str]) -> Mirrored:
    flow = Mirrored(cluster.bootstrap_servers, unique("A"), unique("numbers"), partitions=1)
    flow.create()
    return flow


@pytest.mark.parametrize("exactly_once", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_clean_stop_that_is_cut_off_says_so(
    cluster: KafkaCluster, flow: Mirrored, caplog: pytest.LogCaptureFixture, exactly_once: bool
) -> None:
    with OneTask(flow, exactly_once=exactly_once, way=cluster.bootstrap_servers_far) as task:
        task.give(BEFORE)
        task.wait_for_ledger(BEFORE)
        cluster.proxy.freeze()
        task.give(DOUBTFUL)
        task.read_for(0.5)
    cluster.proxy.heal()
    assert "has not acknowledged and stored in time" in caplog.text


def test_records_behind_a_gap_never_pass_for_a_batch_whose_answer_was_lost(
    cluster: KafkaCluster, flow: Mirrored
) -> None:
    with OneTask(flow, exactly_once=False, way=cluster.bootstrap_servers_far) as task:
        task.give(BEFORE)
        task.wait_for_ledger(BEFORE)
        cluster.proxy.delay(ROUND_TRIP_SECONDS)
        task.give(DOUBTFUL)
        task.read_for(SENT_SECONDS)
        cluster.proxy.delay(NEVER_SECONDS)
        task.wait_until(lambda: end_offsets(flow.servers, flow.remote, 1) == [DOUBTFUL], "it is written")
        cluster.proxy.cut()
        forbid_writing(flow, flow.remote)
        task.cut(0, BEGIN)
        cluster.proxy.delay(0.0)
        cluster.proxy.heal()
        task.wait_until(lambda: f"{flow.topic}-0" in task.failed, "it is refused when it comes again")
        allow_all(flow, flow.remote)
        task.give(AFTER)
        task.wait_for_ledger(AFTER)
    assert flow.arrival().numbers[0] == [*range(DOUBTFUL), *range(BEGIN, AFTER)]
