"""The steps of a failover on made-up clusters: what a step that is begun again asks once more."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from tests.flows import flow_of
from tests.memory_journal import MemoryJournal

from sparkmirror.errors import ClusterError, SparkMirrorError
from sparkmirror.kafka.answers import AclBinding
from sparkmirror.kafka.group_answers import Committed, GroupOffsets
from sparkmirror.kafka.publish import Record
from sparkmirror.ledger.checkpoints import GroupWrite, Places, Renewal, note_place, plan_take_back
from sparkmirror.ledger.mirror_records import Checkpoint
from sparkmirror.model import Cluster, Topic, TopicPartition
from sparkmirror.operations import failover_run
from sparkmirror.operations.failover_run import Drain, Fence, MoveGroups, Moves
from sparkmirror.operations.steps import Note, keeper, take_steps, undo_steps
from sparkmirror.sync.acls import fence_of

ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 0)
FORMER, AGAIN = UUID(int=1), UUID(int=2)


@dataclass
class Source:
    """A cluster by what the steps are told of it."""

    ends: dict[TopicPartition, int]
    mirrored: dict[TopicPartition, int] = field(default_factory=dict)
    acls: set[AclBinding] = field(default_factory=set)
    is_up: bool = True
    alias: str = "A"
    topic_id: UUID = FORMER

    def list_topics(self, _: object = None) -> dict[str, Topic]:
        return {where.topic: Topic(where.topic, self.topic_id, 1, 1) for where in self.ends}

    @property
    def connection(self) -> Any:
        return SimpleNamespace(wait=lambda _: False)

    def create(self, _: object, bindings: Sequence[AclBinding]) -> dict[AclBinding, None]:
        if not self.is_up:
            raise SparkMirrorError("no broker answers")
        self.acls |= set(bindings)
        return dict.fromkeys(bindings)

    def delete(self, _: object, bindings: Sequence[AclBinding]) -> dict[AclBinding, None]:
        self.acls -= set(bindings)
        return dict.fromkeys(bindings)


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    source = Source({ORDERS: 100})
    for name, answer in {
        "mirrored_partitions": lambda *_, **__: source.ends.keys(),
        "known_partitions": lambda *_: (),
        "mirrored_offsets": lambda *_: source.mirrored,
        "find_ends": lambda *_: dict(source.ends),
        "agreed_acls": lambda _, among: source.acls.intersection(among),
        "create_acls": source.create,
        "delete_acls": source.delete,
        "await_acls": lambda *_, **__: None,
    }.items():
        monkeypatch.setattr(failover_run, name, answer)
    return source


def tell(step: str, sentence: str) -> None:
    assert step and sentence


def test_a_drain_that_is_begun_again_waits_for_what_has_come_since(source: Source) -> None:
    drain, store = Drain(flow_of(), source, 0.0), MemoryJournal()  # type: ignore[arg-type]
    with pytest.raises(SparkMirrorError, match="orders-0 lacks 100"):
        take_steps([drain], store, tell)
    source.ends = {ORDERS: 120, PAYMENTS: 5}
    source.mirrored = {ORDERS: 110}
    with pytest.raises(SparkMirrorError, match="orders-0 lacks 10, payments-0 lacks 5"):
        take_steps([drain], store, tell)
    source.mirrored = {ORDERS: 120, PAYMENTS: 5}
    take_steps([drain], store, tell)
    assert "all 2 partitions" in store.journal.steps["drain"].sentence


def test_a_drain_does_not_forget_an_end_that_its_source_no_longer_tells(source: Source) -> None:
    drain = Drain(flow_of(), source, 0.0)  # type: ignore[arg-type]
    note = drain.prepare()
    source.ends = {ORDERS: 40}
    source.mirrored = {ORDERS: 40}
    with pytest.raises(SparkMirrorError, match="orders-0 lacks 60"):
        drain.apply(note)


def test_a_drain_waits_for_nothing_of_a_topic_that_was_made_again(source: Source) -> None:
    """What the former one held, and what is not mirrored of it, never comes."""
    drain = Drain(flow_of(), source, 0.0)  # type: ignore[arg-type]
    note = drain.prepare()
    source.topic_id, source.ends = AGAIN, {ORDERS: 10}
    with pytest.raises(SparkMirrorError, match="orders-0 lacks 10"):
        drain.apply(note)
    source.mirrored = {ORDERS: 10}
    assert "all 1 partitions" in drain.apply(note)


def test_a_fence_that_is_begun_again_takes_in_new_topics_and_lifts_them_too(source: Source) -> None:
    store = MemoryJournal()
    stood = fence_of("payments")
    fence = Fence(flow_of(), source, keeper("fence", store))  # type: ignore[arg-type]
    source.is_up = False
    with pytest.raises(SparkMirrorError, match="no broker answers"):
        take_steps([fence], store, tell)
    source.ends, source.acls = {ORDERS: 1, PAYMENTS: 1, TopicPartition("audit", 0): 1}, {stood}
    with pytest.raises(SparkMirrorError, match="no broker answers"):
        take_steps([fence], store, tell)
    assert topics(store.journal.steps["fence"].note) == (["orders", "audit"], ["payments"]), "noted before it is fenced"
    source.is_up = True
    take_steps([fence], store, tell)
    assert source.acls == {stood, fence_of("orders"), fence_of("audit")}
    assert store.journal.steps["fence"].sentence.endswith("write to 3 topics of A")
    undo_steps([fence], store, tell)
    assert source.acls == {stood}


def test_a_part_of_a_note_is_kept_beside_the_rest(source: Source) -> None:
    store = MemoryJournal()

    class Holder:
        name = "follow"

        def prepare(self) -> Note:
            return {"fence": {"bindings": [], "stood": []}, "ends": 7}

        def apply(self, note: Note) -> str:
            fence = Fence(flow_of(), source, keeper(self.name, store, part="fence"))  # type: ignore[arg-type]
            fence.grow(note["fence"])
            return "done"

        def undo(self, note: Note) -> str:
            raise AssertionError(note)

    take_steps([Holder()], store, tell)
    taken = store.journal.steps["follow"]
    assert (taken.sentence, taken.note["ends"], topics(taken.note["fence"])) == ("done", 7, (["orders"], []))


def topics(note: Note) -> tuple[list[str], ...]:
    return tuple([AclBinding(*one).topic for one in note[which]] for which in ("bindings", "stood"))


REMOTE, OTHER = TopicPartition("A.orders", 0), TopicPartition("A.orders", 1)
CHECKPOINTS = "A.checkpoints.internal"


@dataclass
class Target:
    """The cluster that groups are moved on, and what happens there, in order."""

    topics: set[str]
    stands: dict[str, dict[TopicPartition, Committed]] = field(default_factory=dict)
    events: list[object] = field(default_factory=list)
    refuses: bool = False
    alias: str = "B"

    def list_topics(self, names: Iterable[str]) -> dict[str, Topic]:
        return {name: Topic(name, FORMER, 2, 1) for name in names if name in self.topics}

    def committed(self, groups: Iterable[str]) -> tuple[dict[str, GroupOffsets], dict[str, SparkMirrorError]]:
        return {group: dict(self.stands.get(group, {})) for group in groups}, {}

    def commit(self, group: str, offsets: GroupOffsets) -> Mapping[TopicPartition, SparkMirrorError]:
        self.stands.setdefault(group, {}).update(offsets)
        self.events.append((group, dict(offsets)))
        return {}

    def publish(self, _: Cluster, topic: str, records: Iterable[Record], __: float) -> None:
        if self.refuses:
            raise ClusterError("Cluster B refuses records.")
        self.events += [(topic, Checkpoint.parse(*record)) for record in records]


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    target = Target({"A.orders", CHECKPOINTS})
    monkeypatch.setattr(failover_run, "GroupOffsetsClient", lambda *_: target)
    monkeypatch.setattr(failover_run, "publish", target.publish)
    return target


def moved(target: Target, *lines: str) -> list[object]:
    """What happens where the group `g` is moved, which stands on the first partition already, by a flow with these
    lines."""
    target.stands["g"] = {OTHER: Committed(7)}
    offsets, upstream = {REMOTE: Committed(19, "note"), OTHER: Committed(7)}, {REMOTE: 16, OTHER: 5}
    moves = Moves({"g": offsets}, {"A.orders": FORMER}, {"g": upstream})
    take_steps([MoveGroups(target, lambda: moves, flow=flow_of(*lines))], MemoryJournal(), tell)  # type: ignore[arg-type]
    return target.events


SYNCS = "sync.group.offsets.enabled = true"
COMMIT = ("g", {REMOTE: Committed(19, "note")})


def test_the_mirror_knows_what_a_failover_commits_as_its_own_and_takes_it_back(target: Target) -> None:
    """Its last checkpoint may lie before that, and its next one come too late."""
    before = Checkpoint("g", REMOTE, 16, 19, "note")
    assert moved(target, SYNCS) == [(CHECKPOINTS, before), COMMIT]
    places, after = Places(), Checkpoint("g", REMOTE, 16, 0, "note")
    note_place(places, Checkpoint("g", REMOTE, 16, 18, "note"))
    cut = [Renewal(Checkpoint("g", REMOTE, 16, 18, "note"), after, 0)]
    assert plan_take_back(cut, frozenset(), target.stands, places)[0] == [], "without the checkpoint"
    note_place(places, before)
    assert plan_take_back(cut, frozenset(), target.stands, places)[0] == [
        GroupWrite("g", {REMOTE: Committed(0, "note")})
    ]


@pytest.mark.parametrize("lines", [(), (SYNCS, "emit.checkpoints.enabled = false")])
def test_a_failover_writes_no_checkpoint_where_the_mirror_moves_no_groups(target: Target, lines: tuple[str]) -> None:
    assert moved(target, *lines) == [COMMIT]


@pytest.mark.parametrize("is_there", [True, False])
def test_groups_move_where_no_checkpoint_can_be_written(
    target: Target, is_there: bool, caplog: pytest.LogCaptureFixture
) -> None:
    target.topics -= set() if is_there else {CHECKPOINTS}
    target.refuses = True
    assert moved(target, SYNCS) == [COMMIT]
    assert ("Cluster B refuses records." in caplog.text) == is_there


def test_a_step_that_an_earlier_version_began_moves_its_groups(target: Target) -> None:
    step = MoveGroups(target, lambda: Moves({}, {}), flow=flow_of(SYNCS))  # type: ignore[arg-type]
    one = {"topic": "A.orders", "partition": 0, "before": None, "before_note": "", "after": 19, "note": "note"}
    step.apply({"ids": {"A.orders": str(FORMER)}, "groups": {"g": [one]}})
    assert target.events == [COMMIT]
