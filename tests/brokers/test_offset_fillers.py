"""Offsets of a real log that are taken up without records of the source, and what consumers see of it."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from kafka.protocol.producer import AddPartitionsToTxnRequest
from tests.faults.test_lost_records import delete_topic
from tests.scenarios.test_transactions import write_transactions
from tests.waiting import wait_until

from sparkmirror.batch.header import parse_header, stamp
from sparkmirror.batch.records import Record, decode_records, encode_batch
from sparkmirror.errors import FencedError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.kafka.coordinators import TRANSACTION, find_coordinators
from sparkmirror.kafka.errors import RequestRefused
from sparkmirror.kafka.fencing import ProducerIdentity, init_producer_ids
from sparkmirror.kafka.log_edges import delete_before, last_sequences, open_transactions
from sparkmirror.kafka.marker_writer import MarkerWriter
from sparkmirror.kafka.offset_fillers import EndMoved, FillerClients, HoleFiller, Overtaken
from sparkmirror.kafka.publish import publish
from sparkmirror.kafka.start_filler import fill_start
from sparkmirror.kafka.wire.batch_owners import read_owners
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.policy.fillers import ABORTED, FILLERS, MARKERS, WRITE_MARKERS, Hole, written_id

FLOW = 4_000_000_000
"""The producer id of a flow that keeps offsets."""


@pytest.fixture
def cluster(target: Admin) -> Cluster:
    return Cluster("B", {"bootstrap.servers": ",".join(target.connection.settings.bootstrap_servers)})


@pytest.fixture
def where(target: Admin, unique: Callable[[str], str]) -> TopicPartition:
    topic = unique("filled")
    assert target.create_topics([NewTopic(topic, 1, 1)]) == {topic: None}
    return TopicPartition(topic, 0)


@pytest.fixture
def clients(cluster: Cluster) -> Iterator[FillerClients]:
    with closing(FillerClients(cluster)) as opened:
        yield opened


def end_of(target: Admin, where: TopicPartition) -> int:
    return target.log_ends([where]).of(where)


def add_to_transaction(target: Admin, name: str, identity: ProducerIdentity, where: TopicPartition) -> None:
    """Opens a transaction over the partition, as a process that dies then."""
    topic_class = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    topics = [topic_class(name=where.topic, partitions=[where.partition])]
    (coordinator,) = find_coordinators(target, TRANSACTION, [name], "opening a transaction")
    answer = target.connection.ask(
        lambda: AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=topics,
            max_version=3,
        ),
        "opening a transaction",
        coordinator.node_id,
    )
    assert answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0


def read_all(cluster: Cluster, where: TopicPartition, isolation_level: str) -> list[tuple[int, bytes | None]]:
    consumer = Consumer(
        {**cluster.client, "group.id": "reads", "isolation.level": isolation_level, "enable.partition.eof": True}
    )
    consumer.assign([Place(where.topic, where.partition, 0)])
    found: list[tuple[int, bytes | None]] = []
    try:
        while True:
            message = consumer.poll(60.0)
            assert message is not None, "the log's end was not reached"
            if message.error():
                return found
            found.append((message.offset(), message.value()))
    finally:
        consumer.close()


@pytest.mark.parametrize("at", [1, 5], ids=["at its begin", "within it"])
def test_a_record_of_somebody_else_in_a_hole_is_found(
    cluster: Cluster, clients: FillerClients, where: TopicPartition, at: int
) -> None:
    """It takes an offset that a marker would have taken: what follows the hole would stand right."""
    publish(cluster, where.topic, [(b"k", b"before")])
    name = f"{where.topic}-fillers"
    if at > 1:
        with closing(HoleFiller(clients, name, where, FLOW)) as first:
            assert first.fill(Hole(1, at), MARKERS, 60.0) == at
    publish(cluster, where.topic, [(b"foreign", b"record")])
    with (
        closing(HoleFiller(clients, name, where, FLOW)) as second,
        pytest.raises(EndMoved, match=f"offset {at} has a record"),
    ):
        second.fill(Hole(1, 21), MARKERS, 60.0)


@pytest.mark.parametrize("filler", FILLERS)
def test_a_small_hole_between_two_records_is_filled_exactly(
    target: Admin, cluster: Cluster, clients: FillerClients, where: TopicPartition, filler: str
) -> None:
    publish(cluster, where.topic, [(b"k", b"before")])
    hole = Hole(1, 21)
    hole_filler = HoleFiller(clients, f"{where.topic}-fillers", where, FLOW)

    reached = hole_filler.fill(hole, filler, seconds_max=0.0)
    wanted = {MARKERS: 2, ABORTED: 17, WRITE_MARKERS: 3}
    assert reached == wanted[filler], "the last offsets are filled when the end is known"
    assert end_of(target, where) == reached
    assert hole_filler.fill(hole, filler, seconds_max=60.0) == 21
    assert HoleFiller(clients, f"{where.topic}-fillers", where, FLOW).fill(hole, filler, seconds_max=60.0) == 21

    assert end_of(target, where) == 21
    publish(cluster, where.topic, [(b"k", b"after")])
    records = [(0, b"before"), (21, b"after")]
    assert read_all(cluster, where, "read_committed") == records
    seen = [] if filler != ABORTED else [(at, b"") for at in (*range(1, 16), *range(17, 20))]
    assert read_all(cluster, where, "read_uncommitted") == [records[0], *seen, records[1]]


def test_a_large_hole_is_filled_by_markers_without_a_coordinator(
    target: Admin, cluster: Cluster, clients: FillerClients, where: TopicPartition
) -> None:
    publish(cluster, where.topic, [(b"k", b"before")])
    name, hole = f"{where.topic}-fillers", Hole(1, 4001)
    assert HoleFiller(clients, name, where, FLOW).fill(hole, WRITE_MARKERS, seconds_max=0.0) == 2, (
        "the first marker alone"
    )
    assert HoleFiller(clients, name, where, FLOW).fill(hole, WRITE_MARKERS, seconds_max=60.0) == 4001
    assert HoleFiller(clients, name, where, FLOW).fill(Hole(4001, 5002), WRITE_MARKERS, seconds_max=60.0) == 5002

    publish(cluster, where.topic, [(b"k", b"after")])
    assert read_all(cluster, where, "read_uncommitted") == [(0, b"before"), (5002, b"after")]
    owners = read_owners(target.connection.settings, where, 1, 5002)
    assert all(one.is_filler and one.header.is_control for one in owners)


def test_what_a_writer_of_markers_sends_late_is_refused_once_another_has_begun(
    target: Admin, clients: FillerClients, where: TopicPartition
) -> None:
    """A process that slept over its take-over: before the first marker of the next, and behind it."""
    name, hole = f"{where.topic}-fillers", Hole(0, 5000)
    older, heir = HoleFiller(clients, name, where, FLOW), HoleFiller(clients, name, where, FLOW)
    older.fill(hole, WRITE_MARKERS, seconds_max=0.0)
    assert older._writer is not None
    number = written_id(name)
    identity = init_producer_ids(target, [number])[number]
    newer = MarkerWriter(clients.settings, where, identity, older._writer._coordinator_epoch)

    older._writer.write(700)
    assert end_of(target, where) == 701, "nothing keeps it from the hole's own offsets"
    newer.write(1)
    with pytest.raises(FencedError):
        older._writer.write(700)
    with pytest.raises(FencedError):
        older.fill(hole, WRITE_MARKERS, seconds_max=60.0)
    assert end_of(target, where) == 702

    assert heir.fill(hole, WRITE_MARKERS, seconds_max=60.0) == 5000
    with pytest.raises(FencedError):
        newer.write(1)
    assert end_of(target, where) == 5000


def test_a_process_that_takes_over_the_last_offsets_of_a_hole_has_late_markers_refused(
    target: Admin, clients: FillerClients, where: TopicPartition
) -> None:
    """Also where it writes none itself but the first one, which is a transaction's."""
    name, hole = f"{where.topic}-fillers", Hole(0, 101)
    older, heir = HoleFiller(clients, name, where, FLOW), HoleFiller(clients, name, where, FLOW)
    while (reached := older.fill(hole, WRITE_MARKERS, seconds_max=0.0)) < 96:
        """One transaction at a time."""
    assert older._writer is not None
    assert reached < heir.fill(hole, WRITE_MARKERS, seconds_max=60.0) == 101

    with pytest.raises(FencedError):
        older._writer.write(1)
    assert end_of(target, where) == 101


def test_a_transaction_that_a_dead_process_left_open_takes_an_offset_of_the_hole(
    target: Admin, clients: FillerClients, where: TopicPartition
) -> None:
    name = f"{where.topic}-fillers"
    first = f"{name}-0"
    identity = init_producer_ids(target, [first])[first]
    add_to_transaction(target, first, identity, where)
    older, hole = HoleFiller(clients, name, where, FLOW), Hole(0, 3)
    assert older.fill(hole, MARKERS, seconds_max=0.0) == 2  # the open one's marker, and one of its own

    assert HoleFiller(clients, name, where, FLOW).fill(hole, MARKERS, seconds_max=60.0) == 3

    with pytest.raises(FencedError):
        older.fill(Hole(3, 4), MARKERS, seconds_max=60.0)
    assert end_of(target, where) == 3


def test_a_log_that_ends_elsewhere_is_not_filled(
    target: Admin, cluster: Cluster, clients: FillerClients, where: TopicPartition
) -> None:
    publish(cluster, where.topic, [(b"k", b"one"), (b"k", b"two")])

    for hole, why in ((Hole(0, 1), "offset 0 has a record"), (Hole(5, 9), "its log ends at offset 2")):
        with pytest.raises(EndMoved, match=why):
            HoleFiller(clients, f"{where.topic}-fillers", where, FLOW).fill(hole, ABORTED, seconds_max=60.0)

    assert end_of(target, where) == 2


def append_as_flow(clients: FillerClients, where: TopicPartition, sequence: int, values: list[bytes]) -> int:
    records = [Record(at, 1_700_000_000_000, b"k", value) for at, value in enumerate(values)]
    batch = bytearray(encode_batch(records, base_offset=sequence))
    stamp(memoryview(batch), 0, parse_header(batch, 0), FLOW, 0, sequence)
    return clients.appender.append_batch(where, batch, time.monotonic() + 60.0)


@pytest.mark.parametrize("fills", [True, False], ids=["it filled the hole", "it read records there"])
def test_a_process_behind_another_of_its_flow_begins_again(
    target: Admin, clients: FillerClients, where: TopicPartition, fills: bool
) -> None:
    """The other has gone on behind the hole; or it has read the source before it was compacted, and saw no hole."""
    append_as_flow(clients, where, 0, [b"0"])
    if fills:
        other = HoleFiller(clients, f"{where.topic}-fillers", where, FLOW)
        assert other.fill(Hole(1, 3), MARKERS, 60.0) == 3
    append_as_flow(clients, where, 1, [b"next"] if fills else [b"1", b"2"])
    end = end_of(target, where)

    with pytest.raises(Overtaken, match="another process of the flow has"):
        HoleFiller(clients, f"{where.topic}-fillers", where, FLOW).fill(Hole(1, 3), MARKERS, 60.0)

    assert end_of(target, where) == end


def test_a_record_of_the_flow_that_comes_into_a_hole_behind_its_first_markers_is_where_it_does_not_belong(
    clients: FillerClients, where: TopicPartition
) -> None:
    """Its sender slept. At the hole's begin it stands right: it read the source before that was compacted."""
    append_as_flow(clients, where, 0, [b"0"])
    filler = HoleFiller(clients, f"{where.topic}-fillers", where, FLOW)
    assert filler.fill(Hole(1, 9), MARKERS, seconds_max=0.0) == 2
    assert append_as_flow(clients, where, 1, [b"1"]) == 2
    with pytest.raises(EndMoved, match="offset 2 has a record of the flow that belongs elsewhere"):
        filler.fill(Hole(1, 9), MARKERS, seconds_max=60.0)


def test_a_record_that_was_read_before_it_was_compacted_away_stands_behind_the_hole_that_another_process_fills(
    clients: FillerClients, where: TopicPartition
) -> None:
    """Sequence numbers count records, so the log takes it: its offset shows the one who sent it that the logs part."""
    append_as_flow(clients, where, 0, [b"0"])
    with closing(HoleFiller(clients, f"{where.topic}-fillers", where, FLOW)) as other:
        assert other.fill(Hole(1, 2), MARKERS, 60.0) == 2
    assert append_as_flow(clients, where, 1, [b"1"]) == 2


def test_a_hole_of_a_topic_that_was_made_again_is_not_one_of_the_new_log(
    target: Admin, clients: FillerClients, where: TopicPartition
) -> None:
    append_as_flow(clients, where, 0, [b"0"])
    topic_id = target.list_topics([where.topic])[where.topic].topic_id
    filler = HoleFiller(clients, f"{where.topic}-fillers", where, FLOW, topic_id)
    assert filler.fill(Hole(1, 2), MARKERS, 60.0) == 2
    delete_topic(target.connection.settings.bootstrap_servers[0], where.topic)
    assert target.create_topics([NewTopic(where.topic, 1, 1)]) == {where.topic: None}

    with pytest.raises(Overtaken, match="its topic was deleted and made again"):
        filler.fill(Hole(2, 3), MARKERS, 60.0)

    assert end_of(target, where) == 0


def test_a_record_of_somebody_else_behind_a_filled_hole_is_not_of_the_flow(
    cluster: Cluster, clients: FillerClients, where: TopicPartition
) -> None:
    append_as_flow(clients, where, 0, [b"0"])
    filler = HoleFiller(clients, f"{where.topic}-fillers", where, FLOW)
    assert filler.fill(Hole(1, 3), MARKERS, 60.0) == 3
    publish(cluster, where.topic, [(b"foreign", b"record")])

    with pytest.raises(EndMoved, match="offset 3 has a record, and offsets 1 to 2 were to be filled"):
        filler.fill(Hole(1, 3), MARKERS, 60.0)


def test_a_start_is_filled_and_hidden_and_its_sequence_numbers_are_its_offsets(
    target: Admin, cluster: Cluster, where: TopicPartition
) -> None:
    producer_id = init_producer_ids(target, [None])[None].producer_id
    start = 1_200_345

    first = fill_start(cluster, producer_id, where, Hole(0, start), seconds_max=0.0)
    assert 0 < first < start
    assert last_sequences(target, [where], producer_id) == {where: first - 1}
    assert fill_start(cluster, producer_id, where, Hole(first, start), seconds_max=60.0) == start
    delete_before(target, {where: start})

    assert end_of(target, where) == start
    assert target.earliest_offsets([where]).of(where) == start
    assert last_sequences(target, [where], producer_id) == {where: start - 1}
    assert last_sequences(target, [where], producer_id + 1000) == {where: None}


def test_of_two_that_take_over_a_log_which_does_not_know_their_producer_one_writes(
    target: Admin, cluster: Cluster, clients: FillerClients, where: TopicPartition
) -> None:
    """Both have read the end of what somebody else has written there."""
    producer_id = init_producer_ids(target, [None])[None].producer_id
    publish(cluster, where.topic, [(b"k", b"of another")] * 6)
    assert last_sequences(target, [where], producer_id) == {where: None}

    def append(first: int, values: list[bytes]) -> int:
        records = [Record(at, 1_700_000_000_000, b"k", value) for at, value in enumerate(values)]
        batch = bytearray(encode_batch(records, base_offset=first))
        stamp(memoryview(batch), 0, parse_header(batch, 0), producer_id, 0, first)
        return clients.appender.append_batch(where, batch, time.monotonic() + 60.0)

    assert append(6, [b"6", b"7", b"8"]) == 6
    with pytest.raises(RequestRefused, match="OUT_OF_ORDER_SEQUENCE"):
        append(6, [b"6", b"7"])
    assert append(6, [b"6", b"7", b"8"]) == 6, "the same again has its place"
    assert append(9, [b"9"]) == 9
    assert end_of(target, where) == 10
    assert last_sequences(target, [where], producer_id) == {where: 9}


def test_where_a_transaction_begins_is_known_while_it_is_open(
    target: Admin, cluster: Cluster, where: TopicPartition, unique: Callable[[str], str]
) -> None:
    publish(cluster, where.topic, [(b"k", b"v")] * 3)
    assert open_transactions(target, [where]) == {where: None}
    producer = Producer({**cluster.client, "transactional.id": unique("open")})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(where.topic, b"open")
    producer.flush(30)
    assert open_transactions(target, [where]) == {where: 3}
    producer.abort_transaction(30)
    wait_until(lambda: open_transactions(target, [where]) == {where: None}, "the transaction ends")


def test_a_batch_of_somebody_else_is_recognised(
    target: Admin, cluster: Cluster, clients: FillerClients, where: TopicPartition
) -> None:
    producer_id = init_producer_ids(target, [None])[None].producer_id
    assert fill_start(cluster, producer_id, where, Hole(0, 5), seconds_max=60.0) == 5
    publish(cluster, where.topic, [(b"foreign", b"record")])
    HoleFiller(clients, f"{where.topic}-fillers", where, FLOW).fill(Hole(6, 7), MARKERS, seconds_max=60.0)

    owners = list(read_owners(target.connection.settings, where, 2, 7))

    assert [(one.first, one.stop, one.is_filler) for one in owners] == [(0, 5, False), (5, 6, False), (6, 7, True)]
    assert [one.producer_id for one in owners][:2] == [producer_id, -1]


@pytest.mark.parametrize("is_committed", [True, False])
def test_an_empty_record_of_somebody_else_in_a_hole_is_noticed_where_it_was_committed(
    target: Admin, cluster: Cluster, clients: FillerClients, where: TopicPartition, unique: Callable[[str], str],
    is_committed: bool,
) -> None:  # fmt: skip
    producer_id = init_producer_ids(target, [None])[None].producer_id
    assert fill_start(cluster, producer_id, where, Hole(0, 5), seconds_max=60.0) == 5
    producer = Producer({**cluster.client, "transactional.id": unique("stranger")})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(where.topic, partition=where.partition)
    producer.flush(30)
    (producer.commit_transaction if is_committed else producer.abort_transaction)(30)
    wait_until(lambda: end_of(target, where) == 7, "its marker is written")

    filler = HoleFiller(clients, f"{where.topic}-fillers", where, FLOW)
    if is_committed:
        with pytest.raises(EndMoved, match="offset 5 has a record, and offsets 5 to 8 were to be filled"):
            filler.fill(Hole(5, 9), MARKERS, seconds_max=60.0)
    else:
        assert filler.fill(Hole(5, 9), MARKERS, seconds_max=60.0) == 9
    filler.close()


def test_the_batches_of_aborted_transactions_are_known_as_such_to_a_committed_reader(
    target: Admin, cluster: Cluster, unique: Callable[[str], str]
) -> None:
    topic = unique("transactions")
    assert target.create_topics([NewTopic(topic, 2, 1)]) == {topic: None}
    write_transactions(cluster.client, topic, unique("writer"))
    where = TopicPartition(topic, 0)
    end = end_of(target, where)

    batches = list(read_owners(target.connection.settings, where, 0, end, is_committed=True, epoch=0))

    assert any(one.is_aborted and not one.header.is_control for one in batches)
    kept = [one for one in batches if not (one.is_aborted or one.header.is_control)]
    found = [(record.offset, record.value) for one in kept for record in decode_records(one.data)]
    assert found == read_all(cluster, where, "read_committed")
    assert not any(one.is_aborted for one in read_owners(target.connection.settings, where, 0, end))


def test_empty_records_fit_any_topic(
    target: Admin, cluster: Cluster, clients: FillerClients, unique: Callable[[str], str]
) -> None:
    settings: Mapping[str, str] = {"max.message.bytes": "60000", "cleanup.policy": "compact"}
    topic = unique("small")
    assert target.create_topics([NewTopic(topic, 1, 1, settings)]) == {topic: None}
    where = TopicPartition(topic, 0)
    producer_id = init_producer_ids(target, [None])[None].producer_id

    assert fill_start(cluster, producer_id, where, Hole(0, 300_000), seconds_max=60.0) == 300_000
    hole, hole_filler = Hole(300_000, 600_000), HoleFiller(clients, f"{topic}-fillers", where, FLOW)
    assert hole_filler.fill(hole, ABORTED, seconds_max=60.0) == 600_000
    assert end_of(target, where) == 600_000
