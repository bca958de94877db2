"""What former tasks have left open is ended before other tasks write there, or they wait."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from tests.flows import flow_of
from tests.manual_clock import ManualClock

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.assignment import Assigned
from sparkmirror.errors import AuthorizationFailed, ClusterUnreachable
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.kafka.wire.open_transactions import Looked, OpenTransaction
from sparkmirror.ledger.committed_end import CommittedEnd
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.model import Position, TopicPartition
from sparkmirror.planning import empty_transactions, left_behind
from sparkmirror.planning.fencing import Taken
from sparkmirror.planning.left_behind import LeftBehind

HERE, THERE = TopicPartition("orders", 0), TopicPartition("orders", 1)
FORMER, OWN = 71, 70
END = CommittedEnd(FORMER, 4, 10)
"""Of the former task, whose transactions up to its sequence number 9 in epoch 4 are committed."""
COMMITTED, ABORTED = OpenTransaction(30, 4, 9), OpenTransaction(30, 4, 12)
TAKEN = {
    0: Taken(0, ProducerIdentity(OWN, 3), held={0: ProducerIdentity(OWN, 3)}),
    1: Taken(1, ProducerIdentity(FORMER, 5), held={1: ProducerIdentity(FORMER, 5)}),
}


@dataclass
class Target:
    """Brokers; `open` is what lies open by partition and producer, until it is ended. Those of `silent` have no leader,
    those of `refused` may not be read."""

    open: dict[tuple[TopicPartition, int], OpenTransaction] = field(default_factory=dict)
    silent: set[TopicPartition] = field(default_factory=set)
    refused: set[TopicPartition] = field(default_factory=set)
    owners: dict[int, int] = field(default_factory=lambda: {OWN: 0, FORMER: 1})
    may_end: bool = False
    refuses: Exception | None = None
    loses: Exception | None = None
    ended: list[tuple[str, ProducerIdentity, list[TopicPartition], bool]] = field(default_factory=list)
    waits: dict[TopicPartition, str] = field(default_factory=dict)
    looks: int = 0
    connection: Any = field(default_factory=lambda: SimpleNamespace(settings=None))

    def brokers(self) -> dict[int, tuple[str, int]]:
        return {}

    def look(self, _: object, __: object, places: Collection[TopicPartition], producer_id: int) -> Looked:
        self.looks += 1
        looked = Looked(producer_id, refused=self.refused & set(places))
        for place in set(places) - self.silent - self.refused:
            looked.everyones[place] = {one: found for (where, one), found in self.open.items() if where == place}
        return looked


class Transaction:
    target: Target

    def __init__(self, _: object, name: str, *__: object) -> None:
        self.name, self.identity, self.is_begun = name, ProducerIdentity(-1, -1), False

    def know_brokers(self, _: object) -> None: ...

    def close(self) -> None: ...

    def end_left_open(self, places: Collection[TopicPartition], *, commits: bool) -> None:
        target = self.target
        if target.refuses is not None:
            raise target.refuses
        self.is_begun = True
        if target.loses is not None:
            raise target.loses
        target.ended.append((self.name, self.identity, list(places), commits))
        for place in places:
            target.open.pop((place, self.identity.producer_id), None)


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    found = Target()
    Transaction.target = found
    for name, value in {
        "look": found.look, "used_producers": lambda *_: found.owners,
        "may_still_end": lambda *_: found.may_end, "with_servers_from": lambda *_: None,
    }.items():  # fmt: skip
        monkeypatch.setattr(left_behind, name, value)
    monkeypatch.setattr(empty_transactions, "Transaction", Transaction)
    return found


def once(*lines: str) -> FlowConfig:
    return flow_of("tasks.max = 2", "B.exactly.once.source.support = enabled", *lines)


def remote(where: TopicPartition) -> TopicPartition:
    return TopicPartition(f"A.{where.topic}", where.partition)


def one(target: Target, *lines: str, is_bounded: bool = False) -> LeftBehind:
    return LeftBehind(once(*lines), target.waits.update, is_bounded=is_bounded, clock=ManualClock())


def begin(
    left: LeftBehind,
    target: Any,
    end: CommittedEnd | None = END,
    taken: Mapping[int, Taken] = TAKEN,
    records: Mapping[TopicPartition, PositionRecord] = MappingProxyType({}),
    positions: Mapping[TopicPartition, Position] | None = None,
) -> list[TopicPartition]:
    """An epoch in which `HERE` goes to task 0; returns what begins."""
    assigned = {HERE: Assigned(HERE, 5, committed_end=end)}
    assignment = {0: frozenset([HERE]), 1: frozenset[TopicPartition]()}
    known = {where: assignment[where] for where in taken}
    if positions is None:
        positions = {where: record.position for where, record in records.items()}
    return list(left.begin(target, taken, known, assigned, records, positions))


def give(left: LeftBehind, target: Any, end: CommittedEnd | None = END) -> list[TopicPartition]:
    return [item.partition for item in left.give(target, 0, [Assigned(HERE, 5, committed_end=end)])]


@pytest.mark.parametrize(("found", "commits"), [(COMMITTED, True), (ABORTED, False)])
def test_what_a_former_task_has_left_open_ends_as_it_was_decided_under_its_own_id(
    target: Target, found: OpenTransaction, commits: bool
) -> None:
    target.open[remote(HERE), FORMER] = found
    assert begin(one(target), target) == [HERE]
    assert target.ended == [("A-mm2-MirrorSourceConnector-1", ProducerIdentity(FORMER, 5), [remote(HERE)], commits)]
    assert not target.open and not target.waits


def test_what_nobody_knows_is_committed_and_a_warning_says_so(target: Target, caplog: pytest.LogCaptureFixture) -> None:
    """The task that has the partition now has stored an end of its own."""
    target.open[remote(HERE), FORMER] = COMMITTED
    assert begin(one(target), target, CommittedEnd(OWN, 3, 2)) == [HERE]
    assert target.ended[0][3] is True
    assert "nobody knows whether it was committed" in caplog.text


def test_what_the_tasks_own_id_has_open_is_ended_before_it_runs_since_nothing_more_may_come(target: Target) -> None:
    target.open[remote(HERE), OWN] = OpenTransaction(30, 2, 6)
    left = one(target)
    assert begin(left, target, CommittedEnd(OWN, 2, 7)) == [HERE]
    assert [(identity.producer_id, commits) for _, identity, _, commits in target.ended] == [(OWN, True)]
    target.open[remote(HERE), OWN] = OpenTransaction(40, 3, 6)
    assert give(left, target, CommittedEnd(OWN, 2, 7)) == [HERE], "the task that runs asks itself"
    target.refuses = AuthorizationFailed("may not write there.")
    assert begin(left, target, CommittedEnd(OWN, 2, 7)) == [HERE], "and reports what it cannot end"
    assert len(target.ended) == 1


def test_what_other_programs_have_open_is_left_alone(target: Target) -> None:
    target.open[remote(HERE), 99] = COMMITTED
    assert begin(one(target), target) == [HERE]
    assert not target.ended and len(target.open) == 1


def test_a_partition_that_another_producer_wrote_to_waits_for_its_leaders_word(target: Target) -> None:
    target.silent = {remote(HERE)}
    left = one(target)
    assert begin(left, target) == []
    assert "no leader on the target has said" in target.waits[HERE]
    assert not left.asks_for_epoch
    target.silent.clear()
    assert give(left, target) == [HERE]


def test_a_partition_that_its_tasks_own_producer_wrote_to_does_not_wait(target: Target) -> None:
    """The task itself asks before its first record, and reports a leader that does not answer."""
    target.silent = {remote(HERE)}
    assert begin(one(target), target, CommittedEnd(OWN, 2, 7)) == [HERE]
    assert begin(one(target), target, None) == [HERE]
    assert target.looks == 2


def test_a_run_that_ends_does_not_leave_such_a_partition_out(target: Target) -> None:
    target.silent = {remote(HERE)}
    with pytest.raises(ClusterUnreachable, match="orders-0 cannot begin"):
        begin(one(target, is_bounded=True), target)


def test_inside_an_epoch_the_former_task_goes_on_and_the_next_epoch_ends_it(target: Target) -> None:
    left = one(target)
    assert begin(left, target, CommittedEnd(OWN, 2, 7)) == [HERE]
    left._free = {}  # both tasks run
    target.open[remote(HERE), FORMER] = COMMITTED
    assert give(left, target) == []
    assert not target.ended and left.asks_for_epoch
    assert "which the next epoch ends" in target.waits[HERE]
    assert begin(left, target) == [HERE]
    assert not left.asks_for_epoch
    assert [commits for *_, commits in target.ended] == [True]


def test_what_an_epoch_could_not_end_ends_no_further_one(target: Target) -> None:
    left = one(target)
    begin(left, target)
    left._free = {}
    target.open[remote(HERE), FORMER] = COMMITTED
    assert give(left, target) == [] and left.asks_for_epoch
    target.silent = {remote(HERE)}
    assert begin(left, target) == []
    left._free, target.silent = {}, set()
    assert give(left, target) == [] and not left.asks_for_epoch


def test_a_transaction_that_the_coordinator_is_ending_is_waited_for(target: Target) -> None:
    left = one(target)
    begin(left, target)
    left._free, target.may_end = {}, True
    target.open[remote(HERE), FORMER] = COMMITTED
    assert give(left, target) == []
    assert "has yet to end" in target.waits[HERE] and not left.asks_for_epoch


def test_an_id_that_no_task_uses_ends_it_inside_the_epoch(target: Target) -> None:
    """Fewer tasks run than ids were taken over, or another process has left: its ids are taken inside the epoch."""
    left = one(target)
    begin(left, target, taken={0: TAKEN[0]})
    target.open[remote(HERE), FORMER] = COMMITTED
    assert give(left, target) == [] and not left.asks_for_epoch
    assert "another process" in target.waits[HERE]
    left.free({1: TAKEN[1]})
    assert give(left, target) == [HERE]
    assert [commits for *_, commits in target.ended] == [True]


def test_a_process_ends_what_its_ids_have_left_where_others_mirror_now(target: Target) -> None:
    target.open[remote(THERE), FORMER] = COMMITTED
    records = {THERE: PositionRecord(Position(9), 3, 1, committed_end=END)}
    assert begin(one(target), target, None, records=records) == [HERE]
    assert [(places, commits) for _, _, places, commits in target.ended] == [([remote(THERE)], True)]
    target.silent = {remote(THERE)}
    assert begin(one(target), target, None, records=records) == [HERE]
    assert not target.waits


def test_a_record_that_is_older_than_the_position_does_not_say_that_what_lies_open_was_aborted(target: Target) -> None:
    """The transaction of the newer one was aborted in our topic of the ledger alone, where its marker was left out."""
    target.open[remote(THERE), FORMER] = ABORTED
    records = {THERE: PositionRecord(Position(9), 3, 1, committed_end=END)}
    assert begin(one(target), target, None, records=records, positions={THERE: Position(12)}) == [HERE]
    assert [(places, commits) for _, _, places, commits in target.ended] == [([remote(THERE)], True)]
    target.ended.clear()
    target.open[remote(THERE), FORMER] = ABORTED
    assert begin(one(target), target, None, records=records) == [HERE]
    assert [commits for *_, commits in target.ended] == [False]


def test_where_the_principal_may_not_read_it_is_committed_once(target: Target) -> None:
    target.refused = {remote(HERE)}
    assert begin(one(target), target) == [HERE]
    assert [commits for *_, commits in target.ended] == [True]
    assert begin(one(target), target, CommittedEnd(OWN, 2, 7)) == [HERE]
    assert len(target.ended) == 1


def test_a_partition_whose_empty_transaction_is_refused_waits(target: Target) -> None:
    target.open[remote(HERE), FORMER] = COMMITTED
    target.refuses = AuthorizationFailed("may not write there.")
    assert begin(one(target), target) == []
    assert target.waits[HERE] == "may not write there"


def test_an_empty_transaction_of_which_nobody_says_that_it_has_ended_begins_nothing(target: Target) -> None:
    target.open[remote(HERE), FORMER] = COMMITTED
    for target.refuses, target.loses in (
        (ClusterUnreachable("no answer"), None),
        (None, ClusterUnreachable("no answer")),
        (None, AuthorizationFailed("not any more")),
    ):
        with pytest.raises((ClusterUnreachable, AuthorizationFailed)):
            begin(one(target), target)


@pytest.mark.parametrize("lines", [["partitioning = key"], ["B.exactly.once.source.support = disabled"]])
def test_nobody_is_asked_where_several_tasks_write_to_a_partition_or_there_are_no_transactions(
    target: Target, lines: list[str]
) -> None:
    target.open[remote(HERE), FORMER] = COMMITTED
    assert begin(one(target, *lines), target) == [HERE]
    assert not target.looks


def test_a_task_that_is_tried_again_under_another_id_ends_what_lies_open_under_the_former(target: Target) -> None:
    taken = Taken(2, ProducerIdentity(72, 0), held={1: ProducerIdentity(FORMER, 5)})
    target.open[remote(HERE), FORMER] = COMMITTED
    begun = one(target).renew(target, 0, taken, [Assigned(HERE, 5, committed_end=END)])  # type: ignore[arg-type]
    assert [item.partition for item in begun] == [HERE]
    assert [commits for *_, commits in target.ended] == [True]
