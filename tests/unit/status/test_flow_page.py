"""What `sparkmirror status` says of a flow: each partition's state and lag, and one line for all."""

from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.status.board import FlowStatus
from sparkmirror.status.flow_page import FlowPage, list_places, render_page
from sparkmirror.status.records import PartitionState
from sparkmirror.status.table import page_lines

NOW_MS = 1_800_000_000_000
ORDERS = [TopicPartition("orders", number) for number in range(4)]
STATUS = FlowStatus(
    records=900,
    gaps=1,
    lost_records=50,
    failed={"orders-1": "a record is too large"},
    retry_at_ms={"orders-1": NOW_MS + 30_000},
    faults={"orders-2": "the source refuses to be read"},
    paused=("orders-3",),
)


def page(ends: dict[TopicPartition, int], problem: str = "") -> FlowPage:
    places = list_places(STATUS, dict.fromkeys(ORDERS, 100), ends)
    return FlowPage(FlowName("A", "B"), NOW_MS, STATUS, NOW_MS - 4_000, places, problem)


def test_each_partition_has_its_state_and_its_lag() -> None:
    places = page({where: 100 + 10 * where.partition for where in ORDERS}).places
    assert [place.state for place in places] == [
        PartitionState.RUNNING,
        PartitionState.FAILED,
        PartitionState.WAITING,
        PartitionState.PAUSED,
    ]
    assert [place.lag_records for place in places] == [0, 10, 20, 30]


def test_a_page_shows_what_does_not_run_with_the_reason_and_the_next_try() -> None:
    lines = page_lines(render_page(page(dict.fromkeys(ORDERS, 105)), whole=False))
    assert lines[0] == (
        "A->B: 4 partitions, lag 20, 1 FAILED, 1 WAITING, 1 PAUSED, 1 gaps, 50 offsets gone; "
        "its tasks last had something to report 4.0 s ago"
    )
    assert [line.split()[:2] for line in lines[1:]] == [
        ["topic", "partition"],
        *(["orders", str(at)] for at in (1, 2, 3)),
    ]
    assert lines[2].endswith("a record is too large (next try in 30 s)")


def test_a_whole_page_shows_those_that_run_too() -> None:
    assert "RUNNING" in page_lines(render_page(page(dict.fromkeys(ORDERS, 105)), whole=True))[2]


def test_without_the_source_the_lag_is_unknown_and_it_is_said_why() -> None:
    found = page({}, "the lag is not known: cluster A does not answer")
    lines = page_lines(render_page(found, whole=True))
    assert "lag unknown" in lines[0]
    assert lines[1] == "  the lag is not known: cluster A does not answer"
    assert found.as_json()["lag"] is None
    assert found.as_json()["partitions"][1] == {
        "topic": "orders",
        "partition": 1,
        "state": "FAILED",
        "offset": 100,
        "end": None,
        "lag": None,
        "reason": "a record is too large",
        "retry_at": "2027-01-15T08:00:30+00:00",
    }


def test_a_flow_that_never_ran_says_so() -> None:
    never = FlowPage(FlowName("A", "B"), NOW_MS, None, 0, ())
    assert render_page(never, whole=True) == ["A->B: no run has reported"]
    assert never.as_json()["reported_at"] is None
