"""One connection carries all partitions of a broker until it is full for a while; then each moves when it is quiet."""

import random
import selectors
import socket
from collections import deque
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import pytest
from tests.unit.pipeline.produce.known_producer import known

from sparkmirror.batch.records import encode_batch
from sparkmirror.kafka.wire import data_requests as wire
from sparkmirror.kafka.wire.link import Link
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.brokers import Brokers
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.connection import ProduceConnection
from sparkmirror.pipeline.produce.dispatch import Dispatch
from sparkmirror.pipeline.produce.queued_records import Batch, QueuedRecords
from sparkmirror.pipeline.produce.task_metrics import TaskMetrics

PRODUCER = (1000, 7)


class OneLeader:
    """Of all partitions; each connection to it is there as soon as it is asked for."""

    def __init__(self) -> None:
        self.dialled: list[int] = []

    def of(self, partition: TopicPartition) -> int:
        return 1

    def broke(self, key: tuple[str, int, int]) -> None:
        """The next one is there as soon as it is asked for, too."""

    def forget_node(self, node: int) -> None:
        """It leads on."""

    def dial(self, key: tuple[str, int, int], node: int, *, send_bytes: int) -> bool:
        self.dialled.append(key[2])
        return True


class NextOnes:
    """Whatever a buffer has to send may go."""

    def take(self, buffer: PartitionBuffer) -> Batch | None:
        return buffer.next_batch(*PRODUCER)


class Target:
    """A sender's connections to one broker that does not answer by itself."""

    def __init__(self) -> None:
        self.brokers = Brokers(None, None, 2, 0, 5.0)  # type: ignore[arg-type]
        self.leaders = OneLeader()
        self.brokers._leaders = self.leaders  # type: ignore[assignment]
        plan: Any = None
        metrics = TaskMetrics(plan)
        next_ones: Any = NextOnes()
        self.selector = selectors.DefaultSelector()
        self.dispatch = Dispatch(self.selector, self.brokers, next_ones, metrics, deque(), 1000)
        self.sockets: list[socket.socket] = []

    def open(self, number: int) -> ProduceConnection:
        ours, theirs = socket.socketpair()
        self.sockets.append(theirs)
        connection = ProduceConnection(Link(ours, "broker:9092", {wire.PRODUCE: (9, 12)}, "sparkmirror"), 5.0)
        connection.pace.requests_max = 5
        self.brokers._connections[1, number] = connection
        self.brokers.changes += 1
        self.dispatch.open(connection)
        return connection

    def close(self) -> None:
        for connection in self.brokers:
            connection.close()
        for one in self.sockets:
            one.close()
        self.selector.close()


@pytest.fixture
def target() -> Iterator[Target]:
    made = Target()
    yield made
    made.close()


def with_batches(partition: int, count: int) -> PartitionBuffer:
    where = TopicPartition("orders", partition)
    buffer = PartitionBuffer(where, where, 0, -1)
    known(buffer, *PRODUCER)
    for at in range(count):
        batch = encode_batch([(None, b"x")], base_offset=at)
        buffer.accept(QueuedRecords(memoryview(bytearray(batch)), at, at + 1, lambda: None))
    return buffer


def of_number(number: int, nth: int = 0) -> int:
    """A partition that belongs to the connection with this number."""
    return [at for at in range(100) if crc32(f"orders-{at}".encode()) % 2 == number][nth]


def carried(connection: ProduceConnection) -> list[int]:
    return [buffer.source.partition for one in connection.unanswered for buffer, _ in one.batches.values()]


def take_answer(target: Target, connection: ProduceConnection) -> None:
    for buffer, batch in connection.unanswered.popleft().batches.values():
        buffer.succeed(batch)
        target.dispatch.offer(buffer)


def test_partitions_share_one_connection_while_it_has_room(target: Target) -> None:
    first = target.open(0)
    here, there = of_number(0), of_number(1)
    for partition in (here, there):
        target.dispatch.offer(with_batches(partition, 1))
    target.dispatch.fill(first, 0.0)
    assert (carried(first), target.leaders.dialled) == ([here, there], [])
    for now in (1.0, 2.0, 3.0):
        target.dispatch.fill(first, now)
    assert target.leaders.dialled == [], "there is room"


def fill_up(target: Target, first: ProduceConnection, *buffers: PartitionBuffer) -> None:
    """With these partitions and others of the connection, until partitions are spread."""
    others = [with_batches(of_number(0, -nth), 5) for nth in range(1, 5)]
    for buffer in (*buffers, *others[len(buffers) :]):
        target.dispatch.offer(buffer)
    for now in (0.0, 0.1, 0.2, 0.25):
        target.dispatch.fill(first, now)
        assert not target.brokers._is_spread
    target.dispatch.fill(first, 0.26)
    assert target.brokers._is_spread


def test_a_partition_moves_when_all_its_answers_are_in_and_not_before(target: Target) -> None:
    first = target.open(0)
    here, there = with_batches(of_number(0), 8), with_batches(of_number(1), 8)
    fill_up(target, first, here, there)
    assert carried(first).count(there.source.partition) == 5
    second = target.open(1)
    for left in range(4, -1, -1):
        assert not second.unanswered
        target.dispatch.fill(second, 0.0)
        assert not second.unanswered, f"{left + 1} batches are under way elsewhere: a later one could overtake them"
        take_answer(target, first)
        target.dispatch.fill(first, 0.0)
    assert there.quiet
    target.dispatch.fill(second, 0.0)
    assert carried(second) == [there.source.partition] * 3
    assert there.source.partition not in carried(first)
    assert carried(first) == [here.source.partition] * 3


def test_what_waited_for_the_one_connection_goes_over_the_other_alone(target: Target) -> None:
    first = target.open(0)
    buffer = with_batches(of_number(1), 2)
    target.dispatch.offer(buffer)
    fill_up(target, target.open(0), with_batches(of_number(0), 8))
    second = target.open(1)
    target.dispatch.offer(buffer)
    for connection in (first, second):
        target.dispatch.fill(connection, 0.0)
    assert (carried(first), carried(second)) == ([], [buffer.source.partition] * 2)


@pytest.mark.parametrize(("partitions", "are_spread"), [(1, False), (3, False), (4, True), (7, True)])
def test_few_partitions_share_one_connection_however_full_it_is(
    target: Target, partitions: int, are_spread: bool
) -> None:
    """Over two, each of their batches would be a request by itself."""
    first = target.open(0)
    for number in range(partitions):
        target.dispatch.offer(with_batches(number, 8))
    for now in (0.0, 0.2, 0.4, 60.0):
        target.dispatch.fill(first, now)
    assert target.brokers._is_spread is are_spread


def test_a_connection_that_is_full_for_a_moment_spreads_nothing(target: Target) -> None:
    first = target.open(0)
    for at in range(4):
        for nth in range(4):
            target.dispatch.offer(with_batches(of_number(1, nth), 5))
        target.dispatch.fill(first, at)
        target.dispatch.fill(first, at + 0.2)
        while first.unanswered:
            take_answer(target, first)
            target.dispatch.fill(first, at + 0.3)
    assert not target.brokers._is_spread


def test_what_moves_goes_elsewhere_at_once_when_its_connection_breaks(target: Target) -> None:
    first = target.open(0)
    buffer = with_batches(of_number(1), 8)
    fill_up(target, first, buffer)
    second = target.open(1)
    target.dispatch.offer(buffer)
    assert buffer not in target.dispatch.leaderless, "it waits for answers"
    target.dispatch.lose(first)
    target.dispatch.house_homeless()
    target.dispatch.fill(second, 0.0)
    assert carried(second) == [buffer.source.partition] * 5


def test_far_from_the_broker_partitions_are_spread_from_the_beginning(target: Target) -> None:
    target.brokers.is_far = True
    first = target.open(0)
    buffer = with_batches(of_number(1), 1)
    target.dispatch.offer(buffer)
    assert target.leaders.dialled == [1]
    target.dispatch.fill(first, 0.0)
    assert carried(first) == [buffer.source.partition], "until the other connection is there"


@pytest.mark.parametrize("seed", range(20))
def test_whenever_partitions_are_spread_all_is_sent_and_nothing_overtakes(target: Target, seed: int) -> None:
    """Under load, with a look-up now and then that changes nothing, and a connection that breaks."""
    dice = random.Random(seed)
    target.open(0)
    buffers = [with_batches(number, 0) for number in range(6)]
    for turn in range(400):
        buffer = dice.choice(buffers)
        match dice.choice(["accept", "accept", "accept", "answer", "answer", "answer", "answer", "rarely"]):
            case "accept":
                accept(buffer)
                target.dispatch.offer(buffer)
            case "answer":
                waiting = [one for one in target.brokers if one.unanswered]
                if waiting:
                    take_answer(target, dice.choice(waiting))
            case "rarely":
                happen(target, dice)
        turn_over(target, turn)
        for buffer in buffers:
            carriers = [one for one in target.brokers if buffer.source.partition in carried(one)]
            assert len(carriers) <= 1, f"{buffer.source} has batches under way over two connections"
    for turn in range(400, 1000):
        for connection in target.brokers:
            if connection.unanswered:
                take_answer(target, connection)
        turn_over(target, turn)
    assert [buffer.acknowledged for buffer in buffers] == [buffer.position for buffer in buffers]
    assert all(buffer.idle for buffer in buffers)


def happen(target: Target, dice: random.Random) -> None:
    match dice.choice(["open", "look-up", "spread", "spread", "break"]):
        case "open":
            if (1, 1) not in target.brokers._connections:
                target.open(1)
        case "look-up":
            target.brokers.changes += 1
        case "spread":
            target.brokers.spread()
        case "break":
            number = dice.randrange(2)
            broken = target.brokers._connections.get((1, number))
            if broken is not None:
                target.dispatch.lose(broken)
                target.open(number)


def turn_over(target: Target, turn: int) -> None:
    target.dispatch.house_homeless()
    for connection in target.dispatch.ready():
        target.dispatch.fill(connection, turn / 100)


def accept(buffer: PartitionBuffer) -> None:
    at = buffer.position
    data = memoryview(bytearray(encode_batch([(None, b"x")], base_offset=at)))
    buffer.accept(QueuedRecords(data, at, at + 1, lambda: None))


def test_a_connection_that_is_to_authenticate_again_takes_nothing_more_and_gives_way(target: Target) -> None:
    """Under steady load there is always an answer to come: the broker would close it with all that is under way."""
    connection = target.open(0)
    buffer = with_batches(0, 4)
    target.dispatch.offer(buffer)
    target.dispatch.fill(connection, 1.0)
    under_way = len(carried(connection))
    assert under_way > 0
    connection.link.reauthenticate_at = 2.0
    other = with_batches(1, 2)
    target.dispatch.offer(other)
    target.dispatch.fill(connection, 2.0)
    assert len(carried(connection)) == under_way
    while connection.unanswered:
        take_answer(target, connection)
        assert target.dispatch.connections == [connection]
        target.dispatch.fill(connection, 2.0)
    assert target.dispatch.connections == []
    following = target.open(0)
    target.dispatch.house_homeless()
    target.dispatch.fill(following, 2.0)
    assert 1 in carried(following)
