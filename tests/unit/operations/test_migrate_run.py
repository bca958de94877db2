"""The steps of a migration on made-up clusters: what each waits for, and what makes it fail."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from sparkmirror.errors import ClusterUnreachable, SparkMirrorError
from sparkmirror.kafka.log_offsets import LogOffsets, OffsetsUnknown
from sparkmirror.model import FlowName, Topic, TopicPartition
from sparkmirror.operations import failover_run, migrate_run
from sparkmirror.operations.migrate_run import Copy, CutOver, Follow, Prove

HERE = TopicPartition("orders", 0)
FORMER, AGAIN = UUID(int=1), UUID(int=2)


class Flow:
    name = FlowName("A", "B")


@dataclass
class Source:
    """A cluster of one partition, whose end a test moves, and of one whose leader may be silent."""

    end: int = 100
    unknown: Mapping[TopicPartition, str] = field(default_factory=dict)
    topic_id: UUID = FORMER

    def list_topics(self, _: object = None) -> dict[str, Topic]:
        return {"orders": Topic("orders", self.topic_id, 1, 1)}

    def earliest_offsets(self, _: object) -> LogOffsets:
        return LogOffsets("A", {HERE: 0})

    def await_earliest_offsets(self, _: object) -> dict[TopicPartition, int]:
        return {HERE: 0}

    def newest_ends(self, _: object) -> LogOffsets:
        return LogOffsets("A", {HERE: self.end}, self.unknown)

    def await_newest_ends(self, _: object) -> dict[TopicPartition, int]:
        return self.newest_ends(_).all()


@dataclass
class Ledger:
    offset: int = 0


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Ledger:
    found = Ledger()
    monkeypatch.setattr(migrate_run, "mirrored_offsets", lambda *_: {HERE: found.offset})
    monkeypatch.setattr(migrate_run, "mirrored_partitions", lambda *_, **__: [HERE])
    monkeypatch.setattr(failover_run, "mirrored_partitions", lambda *_, **__: [HERE])
    return found


def copy(ledger: Ledger, reaches: int) -> Copy:
    def run() -> None:
        ledger.offset = reaches

    flow, source = Flow(), Source()
    return Copy(flow, source, run)  # type: ignore[arg-type]


def test_a_copy_is_done_when_all_that_was_there_at_its_begin_is_mirrored(ledger: Ledger) -> None:
    step = copy(ledger, 100)
    assert step.apply(step.prepare()) == "all that 1 partitions held when this step began is copied"


def test_a_copy_that_was_stopped_is_not_done(ledger: Ledger) -> None:
    step = copy(ledger, 60)
    with pytest.raises(SparkMirrorError, match="orders-0 lacks 40"):
        step.apply(step.prepare())


def test_a_copy_lacks_nothing_of_a_topic_that_was_made_again(ledger: Ledger) -> None:
    source = Source()
    step = Copy(Flow(), source, lambda: None)  # type: ignore[arg-type]
    note = step.prepare()
    source.topic_id, ledger.offset = AGAIN, 10
    assert "is copied" in step.apply(note)


class Fence:
    """Notes what was asked of it. Its cluster does not answer the first `refusals` times."""

    def __init__(self, refusals: int = 0) -> None:
        self.asked: list[str] = []
        self.refusals = refusals

    def prepare(self) -> dict[str, Any]:
        return {"bindings": []}

    def grow(self, note: dict[str, Any]) -> dict[str, Any]:
        self.asked.append("grow")
        return {"bindings": [*note["bindings"], "one more"]}

    def deny(self, note: dict[str, Any]) -> str:
        self.asked.append(f"deny {len(note['bindings'])}")
        if self.refusals:
            self.refusals -= 1
            raise ClusterUnreachable("no broker answers")
        return "nobody may write"

    def undo(self, _: object) -> str:
        self.asked.append("undo")
        return "all may write"


def test_following_ends_when_nobody_writes_and_all_is_mirrored(ledger: Ledger) -> None:
    source, told = Source(), list[str]()
    answers = list[bool]()

    def mirror_until(is_over: Any) -> bool:
        answers.append(is_over())
        ledger.offset, source.end = 100, 150
        answers.append(is_over())
        ledger.offset = 150
        answers.append(is_over())
        return answers[-1]

    step = Follow(Flow(), source, CutOver(0.0, Fence()), mirror_until, lambda *said: told.append(said[1]))  # type: ignore[arg-type]
    assert "nobody writes to the source any more" in step.apply(step.prepare())
    assert answers == [False, False, True]
    assert told == ["caught up: stop what writes to A; this ends when nobody has for 0 s"]


def test_nothing_is_said_of_all_while_a_leader_does_not_tell_where_its_log_ends(ledger: Ledger) -> None:
    source = Source(unknown={HERE: "its leader, broker 3 (b:9092), does not answer"})
    ledger.offset = 100
    with pytest.raises(OffsetsUnknown, match=re.escape("orders-0 (its leader, broker 3 (b:9092), does not answer)")):
        Copy(Flow(), source, lambda: None).prepare()  # type: ignore[arg-type]

    def mirror_until(is_over: Any) -> bool:
        with pytest.raises(OffsetsUnknown):
            is_over()
        source.unknown = {}
        return bool(is_over())

    step = Follow(Flow(), source, CutOver(0.0, Fence()), mirror_until, lambda *_: None)  # type: ignore[arg-type]
    assert "all is mirrored" in step.apply(step.prepare())


def test_following_waits_for_the_source_to_be_quiet_and_fences_once_it_has_caught_up(ledger: Ledger) -> None:
    source, fence = Source(), Fence()
    ledger.offset = 100
    asked = list[bool]()

    def mirror_until(is_over: Any) -> bool:
        assert not fence.asked
        asked.extend(is_over() for _ in range(3))
        return False

    step = Follow(Flow(), source, CutOver(60.0, fence, True), mirror_until, lambda *_: None)  # type: ignore[arg-type]
    note = step.prepare()
    with pytest.raises(SparkMirrorError, match="stopped while following"):
        step.apply(note)
    assert (asked, fence.asked) == ([False] * 3, ["grow", "deny 1"])
    without_word = Follow(Flow(), source, CutOver(60.0, fence), mirror_until, lambda *_: None)  # type: ignore[arg-type]
    assert without_word.undo(note) == "all may write", "the note says that there is a fence"


def test_a_fence_that_the_step_began_without_is_refused_before_anything_is_mirrored() -> None:
    """Its note says what undoing takes back, so the fence would be nobody's to lift."""

    def mirror_until(_: object) -> bool:
        raise AssertionError("nothing is to be mirrored")

    step = Follow(Flow(), Source(), CutOver(0.0, Fence(), True), mirror_until, lambda *_: None)  # type: ignore[arg-type]
    with pytest.raises(SparkMirrorError, match="begun without --fence"):
        step.apply({"fence": None})


def test_a_fence_that_could_not_be_applied_is_tried_again(ledger: Ledger) -> None:
    source, fence, ends = Source(), Fence(refusals=1), list[bool]()
    ledger.offset = 100

    def mirror_until(is_over: Any) -> bool:
        with pytest.raises(ClusterUnreachable):
            is_over()
        ends.extend(is_over() for _ in range(2))
        return ends[-1]

    step = Follow(Flow(), source, CutOver(0.0, fence, True), mirror_until, lambda *_: None)  # type: ignore[arg-type]
    step.apply(step.prepare())
    assert fence.asked == ["grow", "deny 1", "grow", "deny 2"]
    assert ends == [False, True], "the end is looked for behind the fence"


def test_what_came_between_the_last_look_and_the_fence_is_waited_for(ledger: Ledger) -> None:
    source, fence, ends = Source(), Fence(), list[bool]()
    ledger.offset = 100

    def mirror_until(is_over: Any) -> bool:
        ends.append(is_over())
        source.end = 150
        ends.append(is_over())
        ledger.offset = 150
        ends.append(is_over())
        return ends[-1]

    step = Follow(Flow(), source, CutOver(0.0, fence, True), mirror_until, lambda *_: None)  # type: ignore[arg-type]
    step.apply(step.prepare())
    assert (ends, fence.asked) == ([False, False, True], ["grow", "deny 1"])


def test_a_topic_that_is_made_while_following_is_fenced_too(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    source, fence = Source(), Fence()
    ledger.offset = 100

    def mirror_until(is_over: Any) -> bool:
        assert not is_over()
        monkeypatch.setattr(migrate_run, "mirrored_partitions", lambda *_, **__: [HERE, TopicPartition("payments", 0)])
        assert not is_over(), "it is fenced first"
        return bool(is_over())

    step = Follow(Flow(), source, CutOver(0.0, fence, True), mirror_until, lambda *_: None)  # type: ignore[arg-type]
    step.apply(step.prepare())
    assert fence.asked == ["grow", "deny 1", "grow", "deny 2"]


@pytest.mark.parametrize("is_there", [True, False], ids=["new to the one that is asked", "deleted since"])
def test_a_topic_that_only_other_brokers_know_is_followed_too(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, *, is_there: bool
) -> None:
    """The broker that is asked has slept; or another one has, and most say that there is no such topic."""
    ledger.offset, late = 100, TopicPartition("late", 0)

    class Others(Source):
        def newest_ends(self, wanted: Any) -> LogOffsets:
            return LogOffsets("A", {where: 100 for where in wanted if where != late or is_there})

    def known(*_: object, by_any: bool = False) -> list[TopicPartition]:
        return [HERE, late] if by_any else [HERE]

    monkeypatch.setattr(migrate_run, "mirrored_partitions", known)
    seen: list[bool] = []

    def mirror_until(is_over: Any) -> bool:
        seen.extend(is_over() for _ in range(3))
        return True

    cut_over: Any = CutOver(0.0, Fence(), False)  # type: ignore[arg-type]
    step = Follow(Flow(), Others(), cut_over, mirror_until, lambda *_: None)  # type: ignore[arg-type]
    step.apply(step.prepare())
    assert seen == [not is_there] * 3


@dataclass
class Proved:
    verdict: str
    headline: str = "A->B: DIFFERENT"
    first_difference: str = "orders-0 at upstream offset 7, downstream offset 9 (value)"
    behind: int = 0
    chosen: int = 1


def test_a_flow_of_which_nothing_is_there_is_not_proven_equal() -> None:
    with pytest.raises(SparkMirrorError, match="no mirrored topic is there to be compared"):
        Prove(Flow(), lambda: Proved("equal", "all equal", chosen=0)).apply({})  # type: ignore[arg-type]


def test_a_target_that_differs_ends_the_migration_with_the_first_difference() -> None:
    assert Prove(Flow(), lambda: Proved("equal", "all equal")).apply({}) == "all equal"  # type: ignore[arg-type]
    for verdict in ("different", "unproven"):
        with pytest.raises(SparkMirrorError, match=re.escape("orders-0 at upstream offset 7")):
            Prove(Flow(), lambda verdict=verdict: Proved(verdict)).apply({})  # type: ignore[arg-type]


def test_records_that_came_after_the_cut_over_end_the_migration() -> None:
    with pytest.raises(SparkMirrorError, match="A->B: A has 3 offsets that are not mirrored"):
        Prove(Flow(), lambda: Proved("equal", "all equal", "", 3)).apply({})  # type: ignore[arg-type]
