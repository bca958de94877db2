"""The starts of a flow that keeps offsets, between logs that stand in memory: what is held, and what goes on."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from tests.flows import flow_of
from tests.unit.planning.test_log_comparison import OURS, data, empty, marker

from sparkmirror.control.assignment import Append, Assigned
from sparkmirror.errors import AuthorizationFailed, ClusterUnreachable, UnsupportedByBrokers
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.kafka.log_offsets import LogOffsets
from sparkmirror.kafka.wire.batch_owners import LogParted, OwnedBatch
from sparkmirror.ledger.chosen_starts import ChosenStart
from sparkmirror.ledger.lineage import Extent
from sparkmirror.ledger.misplaced import Misplaced
from sparkmirror.ledger.positions import PositionRecord, decode_producer
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import Epochs, Position, Topic, TopicPartition
from sparkmirror.planning import adoption, log_proof, misplaced_offsets, offset_starts, start_fills, target_ends
from sparkmirror.planning.log_proof import LogProof
from sparkmirror.planning.offset_starts import OffsetStarts
from sparkmirror.planning.start_fills import FillNotes, StartFill
from sparkmirror.policy.fillers import IDS, SEQUENCES, Hole, transactional_ids
from sparkmirror.policy.naming import DefaultReplicationPolicy

WHERE = TopicPartition("orders", 0)
HERE, THERE, FORMER = UUID(int=1), UUID(int=2), UUID(int=3)


class Cluster:
    """An `Admin` over logs of whole batches, by partition."""

    def __init__(self, alias: str, topic_id: UUID, order: list[str]) -> None:
        self.alias = alias
        self.topic_id = topic_id
        self.logs: dict[TopicPartition, list[OwnedBatch]] = {}
        self.order = order
        self.silent: set[TopicPartition] = set()
        self.parted: int | None = None
        self.replicated: dict[TopicPartition, int] = {}
        """High watermarks that differ from the logs' ends."""
        self.memory_ms: dict[int, int | None] = {}
        """What each broker says of `producer.id.expiration.ms`, None where it does not."""
        self.connection = SimpleNamespace(settings=self, wait=lambda _: False)

    def list_topics(self, names: Iterable[str]) -> dict[str, Topic]:
        return {name: Topic(name, self.topic_id, 1, 1) for name in names}

    def brokers(self) -> Collection[int]:
        return self.memory_ms.keys()

    def _edge(self, of: Callable[[list[OwnedBatch]], int], partitions: Iterable[TopicPartition]) -> LogOffsets:
        found = {where: self.logs.get(where, []) for where in partitions}
        unknown = dict.fromkeys(self.silent & found.keys(), "broker 1 does not answer")
        known = {where: of(batches) if batches else 0 for where, batches in found.items() if where not in unknown}
        return LogOffsets(self.alias, known, unknown)

    def earliest_offsets(self, partitions: Iterable[TopicPartition]) -> LogOffsets:
        return self._edge(lambda batches: batches[0].first, partitions)

    def latest_offsets(self, partitions: Iterable[TopicPartition]) -> LogOffsets:
        found = self._edge(lambda batches: batches[-1].stop, partitions)
        return LogOffsets(self.alias, {where: self.replicated.get(where, end) for where, end in found.known.items()})

    def newest_ends(self, partitions: Iterable[TopicPartition]) -> LogOffsets:
        return self.latest_offsets(partitions)

    def log_ends(self, partitions: Iterable[TopicPartition]) -> LogOffsets:
        self.order.append("ends")
        return self._edge(lambda batches: batches[-1].stop, partitions)

    def read(self, where: TopicPartition, first: int, stop: int, epoch: int) -> Iterator[OwnedBatch]:
        if self.parted is not None and epoch >= 0:
            raise LogParted(f"ends at offset {self.parted} in epoch {epoch}")
        for batch in self.logs[where]:
            if first < batch.stop and batch.first < stop:
                yield batch


class World:
    """Both clusters, the ledger, and what was done to them in its `order`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.flow = flow_of("preserve.offsets.enabled = true", "A.consumer.isolation.level = read_committed")
        self.order: list[str] = []
        self.source, self.target = Cluster("A", HERE, self.order), Cluster("B", THERE, self.order)
        self.view = SimpleNamespace(
            records={}, offsets_producer=OURS, last_offsets_producer=OURS, starts={}, last_starts={}, misplaced={}
        )
        self.published: list[int | None] = []
        self.starts: dict[TopicPartition, Position] = {}
        """Where logs begin otherwise than at their source's beginning."""
        self.last: dict[TopicPartition, int] = {}
        self.known_ids: set[str] = set()
        self.forbidden: set[TopicPartition] = set()
        self.open_from: int | None = None
        self.filling: list[TopicPartition] = []
        self.told: list[StartFill] = []
        self.each_look: Callable[[object], None] = lambda _: None
        """Happens while producers are described."""
        for name, stand_in in (
            ("known_ids", lambda _, prefix: {one for one in self.known_ids if one.startswith(prefix)}),
            ("init_producer_ids", self._take_ids),
            ("publish", self._publish),
            ("delete_before", lambda _, offsets: self.order.append(f"delete before {[*offsets.values()]}")),
        ):
            monkeypatch.setattr(offset_starts, name, stand_in)
        monkeypatch.setattr(misplaced_offsets, "publish", lambda *_: None)
        monkeypatch.setattr(offset_starts, "first_places", self._first_places)
        monkeypatch.setattr(offset_starts, "parted_from", self._parted_from)
        monkeypatch.setattr(target_ends, "last_sequences", self._last_sequences)
        monkeypatch.setattr(target_ends, "broker_setting", lambda _, node_id, *__: self.target.memory_ms[node_id])
        monkeypatch.setattr(log_proof, "read_owners", self._read_owners)
        monkeypatch.setattr(adoption, "open_transactions", lambda _, some: dict.fromkeys(some, self.open_from))

    def adopts(self, topic: str) -> None:
        self.flow = replace(self.flow, adopted_topics=(topic,))

    @property
    def remote(self) -> TopicPartition:
        return TopicPartition(self.flow.remote_topic("orders"), 0)

    def has(self, source: Sequence[OwnedBatch], target: Sequence[OwnedBatch]) -> None:
        self.source.logs[WHERE], self.target.logs[self.remote] = list(source), list(target)

    def stores(
        self, offset: int, epochs: Epochs = (), topic_id: UUID = HERE, there: UUID = THERE, sequence: int | None = None
    ) -> None:
        extent = Extent(self.remote.topic, there, offset)
        position = Position(offset, epochs, topic_id)
        self.view.records[WHERE] = PositionRecord(position, 1, 0, extent=extent, is_aligned=True, sequence=sequence)

    def fills(self, monkeypatch: pytest.MonkeyPatch, make: Callable[[Hole], OwnedBatch] | None = None) -> None:
        """What is to be filled is, or, with `make`, the log has something else there with the same sequence numbers."""

        def fill(*given: Any) -> int:
            where, hole = given[2], given[3]
            batch = make(hole) if make else empty(hole.first, hole.stop - hole.first)
            self.target.logs[where] = [*self.target.logs[where], batch]
            return int(hole.stop)

        monkeypatch.setattr(start_fills, "fill_start", fill)

    def settle(self, *partitions: TopicPartition, is_patient: bool = False) -> dict[TopicPartition, Assigned]:
        names = partitions or (WHERE,)
        ledger = SimpleNamespace(view=self.view, read_through=lambda _: None)
        starts = OffsetStarts(
            self.flow, cast(Admin, self.source), cast(Admin, self.target), cast(LedgerReader, ledger),
            is_patient=is_patient, notes=FillNotes(self.filling.append, self.told.extend),
        )  # fmt: skip
        topics = {one.topic: Topic(one.topic, HERE, 1, 1) for one in names}
        begun = starts.settle([Assigned(one, 0, topic_id=HERE) for one in names], topics)
        return {item.partition: item for item in begun}

    def _last_sequences(self, _: object, wanted: Iterable[TopicPartition], producer_id: int) -> dict[Any, int | None]:
        if found := self.forbidden.intersection(wanted):
            raise AuthorizationFailed(f"no READ on {found}")
        self.each_look(self)
        return {where: self.last.get(where) for where in wanted}

    def _take_ids(self, _: object, names: Sequence[str | None]) -> dict[str | None, ProducerIdentity]:
        self.order += [f"take {name}" for name in names]
        return {name: ProducerIdentity(8, 0) for name in names}

    def _publish(self, _: object, __: str, records: Sequence[tuple[bytes, bytes]]) -> None:
        for _, value in records:
            found = decode_producer(value)
            self.published.append(found)
            self.view.last_offsets_producer = found
            self.view.offsets_producer = self.view.offsets_producer or found

    def _first_places(
        self, _: object, source: Cluster, wanted: list[TopicPartition], **__: bool
    ) -> Mapping[Any, Position]:
        found = source.earliest_offsets(wanted).known
        return {where: self.starts.get(where, Position(offset)) for where, offset in found.items()}

    def _parted_from(self, cluster: Cluster, where: TopicPartition, offset: int, epoch: int) -> tuple[int, int] | None:
        """The answer of a broker whose log has batches of these epochs."""
        own = [batch for batch in cluster.logs[where] if batch.header.partition_leader_epoch <= epoch]
        last = own[-1].header.partition_leader_epoch if own else -1
        end = own[-1].stop if own else 0
        return None if last == epoch and end >= offset else (last, end)

    def _read_owners(
        self, cluster: Cluster, where: TopicPartition, first: int, stop: int, *, is_committed: bool = False,
        epoch: int = -1,
    ) -> Iterator[OwnedBatch]:  # fmt: skip
        return cluster.read(where, first, stop, epoch)


def foreign(batch: OwnedBatch) -> OwnedBatch:
    return batch._replace(header=batch.header._replace(producer_id=OURS + 1))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def values(first: int, count: int) -> list[bytes]:
    return [b"value %d" % at for at in range(first, first + count)]


def of_epoch(batch: OwnedBatch, epoch: int) -> OwnedBatch:
    return batch._replace(header=batch.header._replace(partition_leader_epoch=epoch))


def test_what_follows_a_stray_marker_is_held_though_the_flow_wrote_it(world: World) -> None:
    world.has([data(0, values(0, 10))], [data(0, values(0, 4)), marker(4), data(5, values(4, 5))])
    world.stores(4)
    assert "something else at offset 4" in world.settle()[WHERE].unknown


def test_what_another_process_fills_under_a_new_id_is_looked_at_again(world: World) -> None:
    """It began since the ids were listed: its markers are nobody's for this look, and the next one knows them."""
    world.has([data(8, values(8, 2))], [marker(0, producer_id=8)])
    world.stores(0)
    name = f"A-mm2-sparkmirror-offsets-{world.remote}-1"
    assert "somebody else has written a marker" in world.settle()[WHERE].unknown
    world.each_look = lambda _: world.known_ids.add(name)
    assert world.settle() == {}
    begun = world.settle()[WHERE]
    assert (begun.unknown, begun.append is not None) == ("", True)


def test_it_goes_on_at_the_end_with_the_epochs_that_the_source_has_up_to_there(world: World) -> None:
    source = [of_epoch(data(at, values(at, 2)), epoch) for at, epoch in ((0, 3), (2, 3), (4, 5), (6, 5))]
    world.has(source, [data(0, values(0, 6))])
    world.stores(2, ((3, 0),))
    begun = world.settle()[WHERE]
    assert (begun.offset, begun.epochs, begun.unknown) == (6, ((3, 0), (5, 4)), "")
    assert begun.append == Append(OURS, 6, world.remote.topic, THERE)


def note(world: World, offset: int, there: UUID = THERE) -> None:
    world.view.misplaced[WHERE] = {Misplaced(there, offset): f"records came to stand at offset {offset}"}


@pytest.mark.parametrize("is_aborted", [True, False])
def test_a_filler_in_the_place_of_an_aborted_record_is_right_whatever_was_noted(world: World, is_aborted: bool) -> None:
    """A run with another isolation level took the record for one that the target lacks."""
    here = [data(0, values(0, 2)), data(2, values(2, 1))._replace(is_aborted=is_aborted), data(3, values(3, 2))]
    there = [data(0, values(0, 2)), marker(2, producer_id=8), _sequenced(data(3, values(3, 2)), 2)]
    world.known_ids = {f"A-mm2-sparkmirror-offsets-{world.remote}-1"}
    world.has(here, there)
    world.stores(2, sequence=2)
    note(world, 2)
    assert bool(world.settle()[WHERE].unknown) is not is_aborted


def test_a_wrong_offset_that_is_noted_stays_refused_when_the_source_has_lost_all_that_tells(world: World) -> None:
    """A marker came twice, at 12, and record 12 stands at 13."""
    there = [data(10, values(10, 2)), marker(12, producer_id=8), _sequenced(data(13, values(12, 1)), 12)]
    world.known_ids = {f"A-mm2-sparkmirror-offsets-{world.remote}-1"}
    world.has([data(30, values(30, 4))], there)
    world.stores(12, sequence=12)
    assert world.settle()[WHERE].unknown == "", "nothing of it can be known without the note"
    note(world, 13)
    found = world.settle()[WHERE].unknown
    assert "offset 13 was found to hold something else than the source had: records came to stand" in found
    note(world, 13, FORMER)
    assert world.settle()[WHERE].unknown == "", "it is of a topic that was deleted"


def test_a_wrong_offset_stays_refused_where_compaction_took_what_tells(world: World) -> None:
    there = [data(10, values(10, 2)), marker(12, producer_id=8), _sequenced(data(13, values(12, 1)), 12)]
    world.known_ids = {f"A-mm2-sparkmirror-offsets-{world.remote}-1"}
    world.has([data(10, values(10, 2)), data(20, values(20, 4))], there)
    world.stores(12, sequence=12)
    note(world, 13)
    assert "offset 13 was found to hold something else" in world.settle()[WHERE].unknown


def test_what_a_process_that_slept_has_noted_holds_nothing_where_both_logs_have_the_same(world: World) -> None:
    world.has([data(10, values(10, 10))], [data(10, values(10, 6))])
    world.stores(12)
    note(world, 13)
    assert (world.settle()[WHERE].unknown, world.settle()[WHERE].offset) == ("", 16)
    world.has([data(30, values(30, 4))], [data(10, values(10, 6))])
    world.stores(14)
    assert world.settle()[WHERE].unknown == "", "the position has passed it since"
    note(world, 14)
    assert "offset 14" in world.settle()[WHERE].unknown


def test_a_difference_that_is_found_is_noted_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    view = LedgerView(world.flow.connector)
    stored: list[bytes] = []

    def publish(_: object, __: str, records: Sequence[tuple[bytes, bytes]]) -> None:
        for key, value in records:
            stored.append(key)
            view.take_ours(key, value)

    monkeypatch.setattr(misplaced_offsets, "publish", publish)
    world.view.misplaced = view.misplaced
    world.has([data(0, values(0, 10))], [data(0, values(0, 4)), marker(4), data(5, values(4, 5))])
    world.stores(4)
    assert "something else at offset 4" in world.settle()[WHERE].unknown
    assert list(view.misplaced[WHERE]) == [(THERE, 4)]
    world.settle()
    assert len(stored) == 1
    world.has([data(30, values(30, 4))], world.target.logs[world.remote])
    assert "the target has something else at offset 4 than its source" in world.settle()[WHERE].unknown


def _sequenced(batch: OwnedBatch, sequence: int) -> OwnedBatch:
    return batch._replace(header=batch.header._replace(base_sequence=sequence % SEQUENCES))


@pytest.mark.parametrize(("records", "sequence"), [(0, 12), (3, 15)])
def test_of_a_log_that_does_not_know_the_producer_all_processes_come_to_the_same_sequence_number(
    world: World, records: int, sequence: int
) -> None:
    """Of two, one has filled a hole and appends behind it when the other begins there: its number is the stored one."""
    behind = [_sequenced(data(16, values(16, records)), 12)] if records else []
    before = _sequenced(data(10, values(10, 4)), 8)
    world.has([data(10, values(10, 4)), data(16, values(16, 6))], [before, marker(14), marker(15), *behind])
    world.stores(14, sequence=12)
    append = world.settle()[WHERE].append
    assert append is not None and append.sequence == sequence


def test_the_ledgers_sequence_number_counts_where_only_markers_lie_above_its_position(world: World) -> None:
    """The log has forgotten the producer once, and the flow went on with the offset."""
    before = _sequenced(data(10, values(10, 4)), 3)
    world.has([data(10, values(10, 4)), data(16, values(16, 6))], [before, marker(14), marker(15)])
    world.stores(14, sequence=14)
    append = world.settle()[WHERE].append
    assert append is not None and append.sequence == 14


def test_records_above_the_position_that_retention_took_on_the_target_are_no_gap_in_its_numbers(world: World) -> None:
    there = [_sequenced(data(at, values(at, 10)), at - 10) for at in (320, 330)]
    world.has([data(at, values(at, 10)) for at in range(300, 340, 10)], there)
    world.stores(300, sequence=290)
    assert (world.settle()[WHERE].unknown, world.settle()[WHERE].offset) == ("", 340)


def test_a_marker_of_somebody_else_holds_what_follows_it_when_the_source_has_lost_what_it_displaced(
    world: World,
) -> None:
    world.has([data(8, values(8, 4))], [data(0, values(0, 4)), marker(4), data(5, values(4, 5))])
    world.stores(4)
    assert "a marker to the target at offset 4, and the source no longer has" in world.settle()[WHERE].unknown
    world.has([data(8, values(8, 4))], [data(0, values(0, 4)), marker(4, producer_id=8), data(5, values(5, 5))])
    world.known_ids = {f"A-mm2-sparkmirror-offsets-{world.remote}-1"}
    assert world.settle()[WHERE].offset == 10, "it is the flow's own"


def test_a_target_that_was_cut_and_has_grown_to_the_same_offset_is_noticed(world: World) -> None:
    world.has([data(0, values(0, 10))], [data(0, values(4, 4))])
    world.stores(4, sequence=4)
    world.last[world.remote] = 7
    assert "behind another record, by its sequence number" in world.settle()[WHERE].unknown
    world.last[world.remote] = 3
    assert world.settle()[WHERE].offset == 4
    world.last.clear()
    assert world.settle()[WHERE].offset == 4, "a log that knows no number tells nothing"


def test_a_target_that_was_cut_and_has_grown_beyond_by_fillers_is_noticed(world: World) -> None:
    """The fillers of a hole above the position, whose process did not see the cut, took the places of records."""
    world.has([data(0, values(0, 6)), data(9, values(9, 1))], [data(0, values(0, 4)), *map(marker, range(4, 9))])
    world.stores(6, sequence=6)
    world.last[world.remote] = 3
    assert "has only fillers above offset 6" in world.settle()[WHERE].unknown
    world.last[world.remote] = 5
    assert world.settle()[WHERE].offset == 9, "the log ends as it should"
    world.last.clear()
    assert world.settle()[WHERE].offset == 9, "a log that knows no number tells nothing"


def test_a_source_that_was_cut_below_the_stored_position_meanwhile_is_noticed(world: World) -> None:
    world.has([data(0, values(0, 10))], [data(0, values(0, 6))])
    world.stores(4, ((3, 0),))
    world.source.parted = 3
    assert "was cut below what the target has" in world.settle()[WHERE].unknown


def test_a_source_that_was_cut_above_the_stored_position_and_filled_again_is_noticed(world: World) -> None:
    world.has([data(0, values(0, 5)), data(5, values(100, 5))], [data(0, values(0, 8))])
    world.stores(2)
    assert "something else at offset 5" in world.settle()[WHERE].unknown


def test_records_that_the_target_keeps_longer_than_the_source_are_never_deleted(world: World) -> None:
    world.has([data(6, values(6, 4))], [data(0, values(0, 10))])
    world.last[world.remote] = 9
    begun = world.settle()[WHERE]
    assert (begun.offset, begun.unknown) == (10, "")
    assert not [one for one in world.order if one.startswith("delete")]


def test_empty_records_before_the_first_are_deleted(world: World) -> None:
    world.has([data(6, values(6, 4))], [empty(0, 6)])
    world.last[world.remote] = 5
    world.settle()
    assert "delete before [6]" in world.order


def test_empty_records_that_a_broker_brought_back_are_deleted_again(world: World) -> None:
    world.has([data(6, values(6, 4))], [empty(0, 6), data(6, values(6, 4))])
    world.stores(10)
    world.settle()
    assert "delete before [6]" in world.order


@pytest.mark.parametrize(
    ("source_begins", "filled", "deleted"),
    [(0, 6, [6]), (2, 6, [6]), (8, 6, [6]), (2, 2, [2]), (6, 6, [6]), (0, 0, [])],
)
def test_empty_records_before_a_chosen_start_that_a_broker_brought_back_are_deleted_again(
    world: World, source_begins: int, filled: int, deleted: list[int]
) -> None:
    """Also where the source's log begins elsewhere, or the log began before what was chosen."""
    start = [empty(0, filled)] if filled else []
    there = [*start, data(filled, values(filled, 10 - filled))]
    world.has([data(source_begins, values(source_begins, 10 - source_begins))], there)
    world.stores(10)
    world.view.starts[WHERE] = ChosenStart(6, "latest", HERE, THERE)
    world.settle()
    assert [one for one in world.order if one.startswith("delete")] == [f"delete before [{at}]" for at in deleted]


def test_a_start_that_was_chosen_for_another_topic_deletes_nothing(world: World) -> None:
    world.has([data(0, values(0, 10))], [empty(0, 6), data(6, values(6, 4))])
    world.stores(10)
    world.view.starts[WHERE] = ChosenStart(6, "latest", HERE, FORMER)
    world.settle()
    assert not [one for one in world.order if one.startswith("delete")]


def test_records_that_the_target_keeps_longer_stay_behind_a_stored_position_too(world: World) -> None:
    world.has([data(6, values(6, 4))], [data(0, values(0, 10))])
    world.stores(10)
    assert world.settle()[WHERE].offset == 10
    assert not [one for one in world.order if one.startswith("delete")]


def test_a_start_that_is_not_filled_yet_is_noted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.has([data(6, values(6, 4))], [])
    monkeypatch.setattr(start_fills, "fill_start", lambda *_: 4)
    assert world.settle() == {}
    assert world.filling == [WHERE]


def test_a_run_with_an_end_fills_a_start_whole_and_says_how_far_it_is(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world.has([data(6, values(6, 4))], [])
    asked: list[Hole] = []

    def fill_some(*given: Any) -> int:
        asked.append(given[3])
        reached = min(asked[-1].first + 4, asked[-1].stop)
        world.target.logs[world.remote].append(empty(asked[-1].first, reached - asked[-1].first))
        return reached

    monkeypatch.setattr(start_fills, "fill_start", fill_some)
    monkeypatch.setattr(offset_starts, "delete_before", lambda *_: None)
    caplog.set_level("INFO")
    world.settle(is_patient=True)
    assert asked == [Hole(0, 6), Hole(4, 6)]
    assert "A.orders-0 has 2 offsets to be filled yet." in caplog.text


def test_records_that_a_log_has_taken_empty_ones_for_are_not_deleted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has mirrored there meanwhile: the answer to the same sequence numbers is its place."""
    world.has([data(6, values(6, 4))], [])
    world.fills(monkeypatch, lambda hole: data(hole.first, values(hole.first, hole.stop - hole.first)))
    assert world.settle() == {}, "it is looked at again"
    assert not [one for one in world.order if one.startswith("delete")]
    world.target.logs[world.remote] = []
    world.fills(monkeypatch)
    world.settle()
    assert [one for one in world.order if one.startswith("delete")] == ["delete before [6]"]


def test_empty_records_that_the_broker_compressed_otherwise_are_deleted_where_they_were_just_filled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.has([data(6, values(6, 4))], [])
    world.fills(monkeypatch, lambda hole: data(hole.first, [b""] * (hole.stop - hole.first), key=b""))
    world.settle()
    assert [one for one in world.order if one.startswith("delete")] == ["delete before [6]"]


def test_a_start_is_not_filled_behind_records_that_only_the_target_has(world: World) -> None:
    world.has([data(6, values(6, 4))], [data(0, values(0, 3))])
    world.last[world.remote] = 2
    assert "may not have its records any more" in world.settle()[WHERE].unknown


def test_a_target_that_was_deleted_as_asked_begins_again_in_any_number_of_looks(world: World) -> None:
    world.has([data(0, values(0, 10))], [data(0, values(0, 3))])
    world.stores(300, there=FORMER)
    world.last[world.remote] = 2
    begun = world.settle()[WHERE]
    assert (begun.offset, begun.unknown) == (3, "")


def test_a_position_in_a_source_that_was_deleted_holds_what_the_target_has_of_it(world: World) -> None:
    world.has([data(0, values(0, 10))], [data(0, values(0, 3))])
    world.stores(3, topic_id=FORMER)
    assert "was made again" in world.settle()[WHERE].unknown


def test_open_transactions_of_fillers_end_before_the_end_is_read(world: World) -> None:
    world.has([data(0, values(0, 10))], [data(0, values(0, 3))])
    world.stores(3)
    name = f"A-mm2-sparkmirror-offsets-{world.remote}-1"
    world.known_ids = {name, f"A-mm2-sparkmirror-offsets-{world.remote}1-0", "another"}
    world.settle()
    assert world.order[:2] == [f"take {name}", "ends"]


def test_the_ids_that_are_taken_over_are_those_that_fill() -> None:
    assert transactional_ids("name") == [f"name-{number}" for number in range(IDS)]


def test_a_partition_that_is_refused_or_cannot_be_read_keeps_no_other_from_its_work(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [TopicPartition(topic, 0) for topic in ("forbidden", "broken", "good")]
    _, broken, good = names
    for one in names:
        world.source.logs[one] = [data(0, values(0, 9))]
        world.target.logs[TopicPartition(world.flow.remote_topic(one.topic), 0)] = [data(0, values(0, 3))]
    world.forbidden = {TopicPartition(world.flow.remote_topic("forbidden"), 0)}

    def read(cluster: Cluster, where: TopicPartition, first: int, stop: int, **_: object) -> Iterator[OwnedBatch]:
        if where == broken:
            raise ClusterUnreachable("nothing comes")
        return cluster.read(where, first, stop, -1)

    monkeypatch.setattr(log_proof, "read_owners", read)
    assert [*world.settle(*names)] == [good]


@pytest.mark.parametrize("is_source", [True, False])
def test_a_partition_whose_leader_is_silent_begins_later_and_it_is_said_why(
    world: World, caplog: pytest.LogCaptureFixture, is_source: bool
) -> None:
    world.has([data(0, values(0, 9))], [data(0, values(0, 3))])
    cluster, silent = (world.source, WHERE) if is_source else (world.target, world.remote)
    cluster.silent.add(silent)
    assert world.settle() == {}
    (said,) = caplog.messages
    assert f"{WHERE} does not begin yet: its leader on the {'source' if is_source else 'target'}" in said


def test_what_something_else_has_written_is_refused_and_it_is_said_how_to_adopt_it(world: World) -> None:
    world.has([data(0, values(0, 10))], [foreign(data(0, values(0, 6)))])
    unknown = world.settle()[WHERE].unknown
    assert "somebody else has written records to the target from offset 0 on" in unknown
    assert unknown.endswith(
        "or name it in `preserve.offsets.adopt`, if what wrote it there kept its offsets and has ended"
    )


def test_a_log_with_the_same_records_is_adopted_and_its_position_is_to_be_stored(world: World) -> None:
    world.adopts("orders")
    source = [of_epoch(data(at, values(at, 2)), epoch) for at, epoch in ((0, 3), (2, 3), (4, 5), (6, 5))]
    world.has(source, [foreign(data(0, values(0, 6)))])
    begun = world.settle()[WHERE]
    assert (begun.offset, begun.epochs, begun.unknown) == (6, ((3, 0), (5, 4)), "")
    assert begun.append == Append(OURS, 6, world.remote.topic, THERE)
    assert begun.extent == Extent(world.remote.topic, THERE, 6)
    assert not world.published


def test_a_log_that_ends_within_a_hole_of_its_source_is_adopted_in_the_epoch_of_what_follows_there(
    world: World,
) -> None:
    """The source's leader moved where the hole begins: the epoch before ends there, and not where the target does."""
    world.adopts("orders")
    source = [of_epoch(data(0, values(0, 4)), 3), of_epoch(data(20, values(20, 2)), 4)]
    world.has(source, [foreign(data(0, values(0, 4))), *(marker(at) for at in range(4, 9))])
    begun = world.settle()[WHERE]
    assert (begun.offset, begun.epochs, begun.unknown) == (9, ((3, 0), (4, 4)), "")


def test_what_follows_an_adopted_record_is_proved_though_somebody_else_wrote_that_one(world: World) -> None:
    world.has([data(0, values(0, 8))], [foreign(data(0, values(0, 4))), data(4, values(4, 4))])
    world.stores(4, sequence=4)
    assert (world.settle()[WHERE].unknown, world.settle()[WHERE].offset) == ("", 8)
    world.has([data(0, values(0, 8))], [foreign(data(0, values(0, 5))), data(5, values(5, 3))])
    assert "somebody else has written records" in world.settle()[WHERE].unknown, "beyond the position too"


def test_a_log_with_another_record_is_not_adopted_and_the_offset_is_named(world: World) -> None:
    world.adopts("orders")
    world.has([data(0, values(0, 10))], [foreign(data(0, [*values(0, 4), b"other", b"value 5"]))])
    assert "the target has something else at offset 4 than its source" in world.settle()[WHERE].unknown


def test_nothing_is_adopted_while_something_else_still_writes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.adopts("orders")
    world.has([data(0, values(0, 10))], [foreign(data(0, values(0, 6)))])
    world.open_from = 4
    assert world.settle() == {}
    world.open_from = None
    assert world.settle()[WHERE].offset == 6

    def grow(*args: Any) -> Any:
        world.target.logs[world.remote].append(foreign(data(6, values(6, 1))))
        return compare(*args)

    compare = LogProof.compare
    monkeypatch.setattr(LogProof, "compare", grow)
    assert world.settle() == {}


def test_brokers_that_do_not_describe_producers_are_refused_by_name(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lack(*_: object) -> None:
        raise UnsupportedByBrokers("Cluster B (b:9092) is too old for describing producers: it has no version of it.")

    world.has([data(0, values(0, 10))], [])
    monkeypatch.setattr(target_ends, "last_sequences", lack)
    assert world.settle()[WHERE].unknown == (
        "offsets cannot be kept: Cluster B (b:9092) is too old for describing producers: it has no version of it; "
        "set `preserve.offsets.enabled = false`"
    )


def test_a_log_in_place_of_a_deleted_one_begins_where_that_one_ended_and_no_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`preserve.offsets.start = latest`: what came since the flow stood there was never on the target."""
    world.has([data(0, values(0, 60))], [])
    world.starts = {WHERE: Position(60)}
    world.fills(monkeypatch)
    filled: list[int] = []
    monkeypatch.setattr(offset_starts, "delete_before", lambda _, offsets: filled.extend(offsets.values()))
    world.stores(50, there=UUID(int=99))
    world.settle()
    assert filled == [50]
    world.target.logs[world.remote] = []
    world.view.records.clear()
    world.settle()
    assert filled == [50, 60], "nothing was mirrored before"


def test_a_partition_is_appended_to_by_the_least_memory_that_a_broker_tells(world: World) -> None:
    world.has([data(0, values(0, 10))], [data(0, values(0, 10))])
    world.stores(10)
    found = []
    answers: list[dict[int, int | None]] = [{1: 60_000, 2: 3_600_000, 3: None}, {1: None}, {}]
    for told in answers:
        world.target.memory_ms = told
        append = world.settle()[WHERE].append
        assert append is not None
        found.append(append.memory_ms)
    assert found == [60_000, 86_400_000, 86_400_000], "a day where nobody tells"


def test_a_log_in_place_of_a_deleted_one_begins_where_its_source_was_cut_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.fills(monkeypatch)
    monkeypatch.setattr(OffsetStarts, "_delete", lambda *given: given[3])
    world.has([of_epoch(data(0, values(0, 900)), 3), of_epoch(data(900, values(2000, 200)), 4)], [])
    world.starts = {WHERE: Position(1100, ((4, 1100),))}
    monkeypatch.setattr(offset_starts, "keep_chosen", lambda *given: given[3])
    world.stores(1000, ((3, 0),), there=FORMER)
    begun = world.settle()[WHERE]
    assert (begun.unknown, begun.offset, begun.epochs) == ("", 900, ((3, 0),))


def test_a_start_has_the_epoch_by_which_its_reader_finds_a_log_that_was_cut(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.fills(monkeypatch)
    monkeypatch.setattr(OffsetStarts, "_delete", lambda *given: given[3])
    world.has([of_epoch(data(0, values(0, 10)), 3)], [])
    world.starts = {WHERE: Position(10, ((3, 10),))}
    monkeypatch.setattr(offset_starts, "keep_chosen", lambda *given: given[3])
    assert world.settle()[WHERE].epochs == ((3, 10),)
    world.target.logs[world.remote] = [empty(0, 10)]
    world.last[world.remote] = 9
    assert world.settle()[WHERE].epochs == ((3, 10),), "it was filled in an earlier look"


def test_a_topic_that_is_deleted_while_it_is_looked_at_is_looked_at_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No setting of it can be read then, which is no right that is missing."""
    world.has([data(0, values(0, 10))], [data(0, values(0, 10))])
    looks = iter([{world.remote.topic: Topic(world.remote.topic, THERE, 1, 1)}, {}])
    monkeypatch.setattr(world.target, "list_topics", lambda _: next(looks))
    assert world.settle() == {}


def test_the_process_that_came_second_publishes_the_first_ones_producer_again(world: World) -> None:
    world.has([data(0, values(0, 10))], [])
    world.view.last_offsets_producer = 4711
    begun = world.settle()[WHERE]
    assert begun.append == Append(OURS, 0, world.remote.topic, THERE)
    assert world.published == [OURS]
    world.settle()
    assert world.published == [OURS], "once"


def of_two_topics(world: World) -> TopicPartition:
    """Another partition than WHERE; six records of ten of each are mirrored."""
    other = TopicPartition("payments", 0)
    for where in (WHERE, other):
        there = TopicPartition(world.flow.remote_topic(where.topic), 0)
        world.source.logs[where], world.target.logs[there] = [data(0, values(0, 10))], [data(0, values(0, 6))]
        world.last[there] = 5
    return other


def test_topics_of_a_source_that_a_policy_puts_into_one_are_refused_by_name(world: World) -> None:
    class IntoOne(DefaultReplicationPolicy):
        def format_remote_topic(self, alias: str, topic: str) -> str:
            return super().format_remote_topic(alias, topic.removesuffix("-eu"))

    twin, other = TopicPartition(f"{WHERE.topic}-eu", 0), of_two_topics(world)
    world.flow = replace(world.flow, policy=IntoOne("."))
    begun = world.settle(WHERE, twin, other)
    assert begun[WHERE].unknown == begun[twin].unknown
    assert begun[twin].unknown == (
        "offsets cannot be kept: orders and orders-eu of the source go to one topic of the target, A.orders, by the "
        "naming policy; leave all but one of them out"
    )
    assert not begun[other].unknown


def test_a_log_to_which_somebody_else_writes_all_the_time_does_not_hold_up_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = of_two_topics(world)
    world.stores(6)

    def write(_: object) -> None:
        log = world.target.logs[world.remote]
        log.append(foreign(data(log[-1].stop, values(0, 1))))

    world.each_look = write
    begun = world.settle(WHERE, other)
    assert (begun[other].offset, begun[other].unknown) == (6, "")
    assert "somebody else has written records to the target from offset 6 on" in begun[WHERE].unknown


def test_a_log_to_which_the_flow_itself_appends_all_the_time_is_put_off(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.has([data(0, values(0, 10))], [data(0, values(0, 6))])
    world.last[world.remote] = 5
    waits = iter([True, True, False])
    monkeypatch.setattr(target_ends, "waits_within", lambda *_: next(waits))

    def append(_: object) -> None:
        log = world.target.logs[world.remote]
        log.append(data(log[-1].stop, values(0, 1)))
        world.last[world.remote] += 1

    world.each_look = append
    assert world.settle() == {}


def test_what_the_replicas_lack_is_not_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    other = of_two_topics(world)
    world.stores(4)
    monkeypatch.setattr(target_ends, "waits_within", lambda *_: False)
    world.target.replicated = {world.remote: 5}
    assert list(world.settle(WHERE, other)) == [other]


def test_a_start_is_known_by_the_fillers_that_compaction_has_left_of_it(world: World) -> None:
    fillers = [empty(at, 10) for at in range(0, 60, 10)]
    world.has([data(60, values(60, 10))], fillers[2:])
    proof = LogProof(cast(Any, world.source), cast(Any, world.target), is_committed=True, producer_id=OURS)
    assert proof.has_filled(world.remote, 0, 59)
    world.has([data(60, values(60, 10))], [data(20, values(20, 10)), *fillers[3:]])
    assert not proof.has_filled(world.remote, 0, 59)
