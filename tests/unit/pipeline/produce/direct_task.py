"""A task that produces small runs, with a reader's memory and a target that are the test's."""

import selectors
from collections.abc import Sequence
from math import inf
from typing import Any

from tests.unit.pipeline.connected_sockets import connected_sockets
from tests.unit.pipeline.produce.known_producer import known

from sparkmirror.batch.records import encode_batch
from sparkmirror.control.assignment import Assigned
from sparkmirror.kafka.wire import data_requests as wire
from sparkmirror.kafka.wire.link import Link
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Connector, TopicPartition
from sparkmirror.pipeline.produce.assembly import SenderOptions, assemble
from sparkmirror.pipeline.produce.connection import ProduceConnection
from sparkmirror.pipeline.produce.delivery import Delivery
from sparkmirror.pipeline.produce.produce_task import ProduceTask
from sparkmirror.pipeline.produce.progress import ProgressOptions
from sparkmirror.pipeline.relay.board import Announcement
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import Ring, RingPeer

PARTITIONS = [TopicPartition("orders", number) for number in range(3)]
PRODUCER = (7, 3)


class OneLeader:
    """Of all partitions."""

    def of(self, partition: TopicPartition) -> int:
        return 1

    def poll(self) -> None:
        """Nothing is unknown."""

    def broke(self, key: tuple[str, int, int]) -> None:
        """It leads on."""

    def forget_node(self, node: int) -> None:
        """It leads on."""

    def forget(self, partitions: Any) -> None:
        """It leads on."""

    def want(self, topics: Any) -> None:
        """Nothing is unknown."""

    def dial(self, key: Any, node: int, **_: Any) -> bool:
        """It is dialled, and does not answer."""
        return True

    def asked_at(self, topic: str) -> float:
        """The topic was looked up just now."""
        return inf

    @property
    def topic_ids(self) -> dict[str, Any]:
        return {}


class Assembled:
    """A task of these partitions, each in the slot of its place, that has taken nothing, and its reader's ring."""

    def __init__(self, partitions: Sequence[TopicPartition], leaders: Any) -> None:
        self.ring = Ring(1 << 20)
        self.peer = RingPeer(self.ring.address)
        nowhere: Any = None
        options = SenderOptions(nowhere, ProgressOptions(Connector.of_dedicated_mode("A"), ledger_topics("A"), 1e9))
        assigned = tuple((Assigned(where, 0), slot) for slot, where in enumerate(partitions))
        plan = PlanRow(0, "run", 1, 1, *PRODUCER, self.ring.address, 25, assigned)
        self.selector = selectors.DefaultSelector()
        self.parts = assemble(options, plan, self.peer, nowhere, self.selector)
        self.parts.brokers._leaders = leaders
        self.parts.progress._due_at = inf  # no position goes out between the records
        self.task = ProduceTask(self.parts)
        self.task.take_plan(plan)


class Task(Assembled):
    """A task that has taken each partition's first row, with a target that answers when it is told to."""

    def __init__(self) -> None:
        super().__init__(PARTITIONS, OneLeader())
        ours, self.theirs = connected_sockets()
        self.connection = ProduceConnection(Link(ours, "broker:9092", {wire.PRODUCE: (9, 12)}, "sparkmirror"), 5.0)
        self.connection.pace.requests_max = 5
        self.parts.brokers._connections[1, 0] = self.connection
        self.parts.dispatch.open(self.connection)
        for where in PARTITIONS:
            self.row(where.partition, 0)
            known(self.parts.gate.buffers[where], *PRODUCER)
        self.sent()
        self.acknowledge()

    def announce(self, partition: int, first: int, batches: int = 1) -> None:
        self.task.take_announced([self.announced(partition, first, batches)])

    def announced(self, partition: int, first: int, batches: int = 1) -> Announcement:
        """Batches of one record in the ring."""
        lease, size = self._lend(first, batches)
        following = first + batches
        return Announcement(partition, batches, size, 0, first, following, lease, 5, following, 9)

    def leased_row(
        self,
        partition: int,
        first: int,
        batches: int = 1,
        *,
        topic: str = "A.orders",
        epoch: int = -1,
        value: bytes = b"",
    ) -> None:
        """As `announce`, in a row that came through Spark."""
        lease, size = self._lend(first, batches, value)
        following, where = first + batches, PARTITIONS[partition]
        payload = self.peer.slice(lease, size)
        self.task.take(Delivery("run", where, topic, first, following, batches, following, 5, payload, lease, 9, epoch))

    def _lend(self, first: int, batches: int, value: bytes = b"") -> tuple[int, int]:
        ends = range(first, first + batches)
        data = b"".join(encode_batch([(b"k", value or b"%d" % at)], base_offset=at) for at in ends)
        lease = self.ring.reserve(len(data))
        assert lease is not None
        self.ring.slice(lease, len(data))[:] = data
        self.ring.lend(lease, [lease])
        return lease, len(data)

    def row(self, partition: int, first: int) -> None:
        payload = memoryview(bytearray(encode_batch([(b"k", b"row")], base_offset=first)))
        where = PARTITIONS[partition]
        self.task.take(Delivery("run", where, "A.orders", first, first + 1, 1, first + 1, 5, payload, None, 9))

    def sent(self) -> list[list[tuple[int, int]]]:
        """By request, partition and source offset of each record."""
        self.task.send(0.0)
        return [
            [
                (buffer.source.partition, span.first_offset + at)
                for buffer, batch in request.batches.values()
                for span in batch.spans
                for at in range(span.records)
            ]
            for request in self.connection.unanswered
        ]

    def acknowledge(self) -> None:
        for buffer, batch in self.connection.unanswered.popleft().batches.values():
            buffer.succeed(batch, 0)

    @property
    def leased(self) -> int:
        """Regions of the reader's memory that are in use."""
        self.peer.publish()
        self.ring.collect()
        return len(self.ring._regions)

    def close(self) -> None:
        self.connection.close()
        self.theirs.close()
        self.selector.close()
        self.peer.close()
        self.ring.close()
