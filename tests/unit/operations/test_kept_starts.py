"""What a flow that keeps offsets has to fill before its partitions go on, and what keeps them from it."""

import pytest
from tests.flows import flow_of

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.model import NO_TOPIC_ID, Topic, TopicPartition
from sparkmirror.operations.kept_starts import Filling, KeptLogs, KeptStarts, find_misfits, plan_filling, plan_left
from sparkmirror.policy.fillers import LONE, Hole
from sparkmirror.views.findings import Finding, Level

WHERE = TopicPartition("orders", 3)
KEEPS = "preserve.offsets.enabled = true"


def filling(
    *,
    first: int | None = None,
    reached: int = 0,
    begins: int = 0,
    stored: int | None = None,
    adopts: bool = False,
    flow: FlowConfig | None = None,
    replicas: int = 3,
) -> Filling | None:
    logs = KeptLogs(WHERE, reached, begins, 9000, first, stored, adopts)
    return plan_filling(flow or flow_of(KEEPS), logs, replicas)


def test_a_start_is_filled_up_to_the_first_record_and_goes_on_where_it_was_left() -> None:
    found = filling(first=3_000_000, begins=3_000_000)
    assert found is not None
    assert found.sentence == (
        "fill 3,000,000 offsets of A.orders-3, 0 to 2999999, before it begins: less than 1 s, 2.0 MB for each replica"
    )
    again = filling(first=3_000_000, reached=1_000_000, begins=3_000_000)
    assert again is not None and again.offsets == Hole(1_000_000, 3_000_000)


def test_where_nothing_lies_before_nothing_is_filled() -> None:
    assert filling(first=0) is None
    assert filling(first=700, reached=900) is None, "it was mirrored further than the source's log begins"
    assert filling(stored=900, reached=900, begins=700) is None
    assert filling(first=700, reached=300, adopts=True) is None, "what is adopted goes on at its end"


@pytest.mark.parametrize(("filler", "seconds"), [("markers", 199 / 78), ("aborted", 0.00014)])
def test_what_the_source_has_lost_behind_a_stored_position_is_filled_as_a_hole(filler: str, seconds: float) -> None:
    flow = flow_of(KEEPS, f"preserve.offsets.filler = {filler}")
    found = filling(stored=500, reached=500, begins=700, flow=flow)
    assert found is not None and (found.offsets, found.is_start) == (Hole(500, 700), False)
    assert found.cost.seconds == pytest.approx(1 / LONE.three_replicas + seconds, abs=0.0001)
    less = filling(stored=500, reached=500, begins=700, flow=flow, replicas=1)
    assert less is not None and less.cost.seconds < found.cost.seconds / 4, "one replica is faster"
    assert "that its source has lost" in found.sentence


def test_a_target_that_was_deleted_begins_from_the_start_despite_a_stored_position() -> None:
    found = filling(stored=500, reached=0, first=200, begins=200)
    assert found is not None and (found.offsets, found.is_start) == (Hole(0, 200), True)


@pytest.mark.parametrize(
    ("logs", "left"),
    [
        (KeptLogs(WHERE, reached=0, begins=200, end=900, first=200), Hole(200, 900)),
        (KeptLogs(WHERE, reached=0, begins=200, end=900, first=700), Hole(700, 900)),
        (KeptLogs(WHERE, reached=500, begins=0, end=900, first=0, stored=400), Hole(500, 900)),
        (KeptLogs(WHERE, reached=500, begins=600, end=900, stored=500), Hole(600, 900)),
        (KeptLogs(WHERE, reached=500, begins=0, end=900, first=800, adopts=True), Hole(500, 900)),
        (KeptLogs(WHERE, reached=900, begins=0, end=900, stored=900), Hole(900, 900)),
        (KeptLogs(WHERE, reached=0, begins=0, end=None, first=0), None),
    ],
    ids=["from the start", "from a later one", "from the end", "behind what is lost", "adopted", "nothing", "unknown"],
)
def test_what_is_left_to_mirror_lies_behind_what_is_filled_before(logs: KeptLogs, left: Hole | None) -> None:
    assert plan_left(logs) == left


@pytest.mark.parametrize(
    ("logs", "hides"),
    [
        (KeptLogs(WHERE, reached=0, begins=200, end=900, first=200), True),
        (KeptLogs(WHERE, reached=200, begins=200, end=900, first=200), True),
        (KeptLogs(WHERE, reached=200, begins=200, end=900, first=200, target_begins=200), False),
        (KeptLogs(WHERE, reached=0, begins=0, end=900, first=0), False),
        (KeptLogs(WHERE, reached=500, begins=200, end=900, stored=500), False),
        (KeptLogs(WHERE, reached=500, begins=200, end=900, first=200, adopts=True), False),
    ],
    ids=["nothing there yet", "filled, not deleted", "deleted", "begins at 0", "mirrored", "adopted"],
)
def test_a_start_is_to_be_deleted_until_the_target_s_log_begins_there(logs: KeptLogs, hides: bool) -> None:
    assert logs.hides_start is hides


def test_topics_with_more_partitions_on_the_target_are_named_and_those_that_will_grow_are_not() -> None:
    def topic(name: str, partitions: int) -> Topic:
        return Topic(name, NO_TOPIC_ID, partitions, 1)

    here = {"orders": topic("orders", 4), "bills": topic("bills", 4), "new": topic("new", 4)}
    there = {"A.orders": topic("A.orders", 6), "A.bills": topic("A.bills", 2)}
    found = dict(find_misfits(flow_of(KEEPS), here, there))
    assert found == {
        "orders": "A.orders cannot keep the offsets of orders: it has 4 partitions on the source and 6 on the target"
    }
    assert set(dict(find_misfits(flow_of(KEEPS, "topic.creation = broker"), here, there))) == {"orders", "bills"}


def test_the_dearest_come_first_and_many_are_counted_together() -> None:
    flow = flow_of(KEEPS)
    parts = [TopicPartition("orders", number) for number in range(30)]
    fillings = [plan_filling(flow, KeptLogs(one, 0, 0, None, 10_000_000 * (1 + one.partition)), 3) for one in parts]
    lines = list(KeptStarts(40, tuple(one for one in fillings if one), unknown=2).lines())
    assert len(lines) == 22
    assert lines[0].startswith("fill 300,000,000 offsets of A.orders-29,")
    assert lines[20].startswith("fill 550,000,000 offsets of 10 more partitions: about 156 s,")
    assert lines[21].startswith("keep the offsets of 40 partitions; 4,650,000,000 are to be filled in 30: about 1,323")
    assert lines[21].endswith("; of 2 it is not known now where they begin")
    alone = Finding(Level.OK, "B", "writers", "by the ACLs, only User:mirror and super users may write to 3 topics")
    other = Finding(Level.WARN, "B", "writers", "by the ACLs, User:app, User:mirror may write to 3 topics", "a hint")
    assert list(KeptStarts(3, (), writers=(alone,)).lines())[-1] == alone.said
    assert list(KeptStarts(3, (), writers=(other,)).lines()) == ["keep the offsets of 3 partitions"], "it is a warning"
    assert KeptStarts(3, (), writers=(other,)).as_json()["writers"] == [other.said]
    assert list(KeptStarts(3, ()).lines()) == ["keep the offsets of 3 partitions"]
