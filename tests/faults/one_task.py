"""The sending end of one task on real brokers, without Spark: its reader is this module, in the same process.

The reader has an endless source whose records are numbered like `numbered.NumberedWriter`'s, gives as far as the test
asks for, and obeys the sender's orders over a real control page: what is refused, aborted and rewound comes again.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from tests.faults.numbered import Arrival, create_topic, read_arrival
from tests.waiting import wait_until

from sparkmirror.batch.records import encode_batch
from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.control.assignment import Assigned
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.fencing import init_producer_ids, transactional_id
from sparkmirror.kafka.settings import client_settings
from sparkmirror.ledger.committed_end import CommittedEnd
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.ledger.setup import ensure_ledger_topics
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import NO_TOPIC_ID, Cluster, Connector, TopicPartition
from sparkmirror.pipeline.produce.assembly import SenderOptions
from sparkmirror.pipeline.produce.delivery import Bundle, Delivery
from sparkmirror.pipeline.produce.progress import ProgressOptions
from sparkmirror.pipeline.produce.sender import Sender
from sparkmirror.pipeline.produce.transaction_phase import TransactionOptions
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import Ring, RingPeer
from sparkmirror.pipeline.relay.schema import GAP, RUN

_RUN_RECORDS = 50
_TURN_SECONDS = 0.02


@dataclass(slots=True)
class Place:
    """Where the reader stands in a partition, how far the test lets it go, and where the source's log begins."""

    at: int = 0
    end: int = 0
    begin: int = 0
    turns: int = 0
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Mirrored:
    """A flow's names on one target, whose address is `servers`."""

    servers: str
    alias: str
    topic: str
    partitions: int = 2

    @property
    def remote(self) -> str:
        return f"{self.alias}.{self.topic}"

    @property
    def target(self) -> Cluster:
        return Cluster("B", {"bootstrap.servers": self.servers})

    @property
    def connector(self) -> Connector:
        return Connector.of_dedicated_mode(self.alias)

    def create(self, *, replicas: int = 1, **config: str) -> None:
        """The mirrored topic and the ledger's."""
        create_topic(self.servers, self.remote, self.partitions, replicas=replicas, **config)
        with open_admin(self.target, "test") as admin:
            ensure_ledger_topics(admin, ledger_topics(self.alias, replication_factor=replicas))

    def positions(self) -> list[int]:
        """What is committed, by partition."""
        with LedgerReader(self.target, ledger_topics(self.alias), self.connector) as ledger:
            known = ledger.read_to_end()
        places = [known.get(TopicPartition(self.topic, number)) for number in range(self.partitions)]
        return [0 if place is None else place.offset for place in places]

    def committed_ends(self) -> list[CommittedEnd | None]:
        """What the producers of the stored positions have committed, by partition."""
        with LedgerReader(self.target, ledger_topics(self.alias), self.connector) as ledger:
            ledger.read_to_end()
            records = ledger.view.records
        found = (records.get(TopicPartition(self.topic, number)) for number in range(self.partitions))
        return [None if record is None else record.committed_end for record in found]

    def arrival(self) -> Arrival:
        """What a read_committed consumer sees."""
        return read_arrival(self.servers, self.remote, self.partitions)


class OneTask:
    """A task of the flow that goes on from `starts`, in a `with` block."""

    def __init__(
        self,
        flow: Mirrored,
        *,
        exactly_once: bool,
        starts: Sequence[int] = (),
        ends: Sequence[CommittedEnd | None] = (),
        timeout_ms: int = 60_000,
        way: str = "",
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """The target is reached by the addresses `way` where those are given. `clock` is the sender's."""
        self._clock = clock
        self._flow = flow
        self._way = way
        self._starts = list(starts) or [0] * flow.partitions
        self._ends = list(ends) or [None] * flow.partitions
        self._places = [Place(start, start) for start in self._starts]
        self._ring = Ring(1 << 20)
        self.sender = self._sender(exactly_once=exactly_once, timeout_ms=timeout_ms)

    def _sender(self, *, exactly_once: bool, timeout_ms: int) -> Sender:
        flow = self._flow
        name, spare = (transactional_id(flow.connector, number) for number in (0, 1))
        with open_admin(flow.target, "test") as admin:
            identity, other = init_producer_ids(admin, [name, spare], timeout_ms).values()
        assigned = [
            Assigned(TopicPartition(flow.topic, number), at, committed_end=end)
            for number, (at, end) in enumerate(zip(self._starts, self._ends, strict=True))
        ]
        plan = PlanRow(
            0, "run", 1, 1, identity.producer_id, identity.epoch, self._ring.address, 25,
            tuple((one, slot) for slot, one in enumerate(assigned)), spare=(1, *other),
        )  # fmt: skip
        transactions = TransactionOptions("B", flow.connector, timeout_ms, 0.2, 1.0) if exactly_once else None
        progress = ProgressOptions(flow.connector, ledger_topics(flow.alias), 1.0)
        target = Cluster("B", {"bootstrap.servers": self._way or flow.servers})
        options = SenderOptions(client_settings(target, "writer"), progress, transactions=transactions)
        return Sender(options, plan, RingPeer(self._ring.address), self._clock)

    def __enter__(self) -> Self:
        self.sender.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.sender.finish()
        self._ring.close()

    def give(self, *ends: int) -> None:
        """Each partition may be read up to there."""
        for place, end in zip(self._places, ends, strict=True):
            place.end = end

    def cut(self, partition: int, begin: int) -> None:
        """Retention has taken the source's log up to there."""
        self._places[partition].begin = begin

    def wait_until(self, condition: Any, what: str, seconds: float = 60.0) -> None:
        """Reads on until the condition holds; a sender that has ended ends the wait too."""

        def look() -> bool:
            self._turn()
            assert self.sender.error is None, f"{what}: {self.sender.error}"
            return bool(condition())

        wait_until(look, what, seconds)

    def wait_for_ledger(self, *offsets: int) -> None:
        self.wait_until(lambda: self._flow.positions() == list(offsets), f"the ledger says {offsets}")

    def read_for(self, seconds: float) -> None:
        ends_at = time.monotonic() + seconds
        self.wait_until(lambda: time.monotonic() > ends_at, "time passes", seconds + 30)

    def places(self) -> list[int]:
        """Where the reader stands."""
        return [place.at for place in self._places]

    @property
    def failed(self) -> dict[str, str]:
        """Partitions that are FAILED, with their reasons, as the task's status tells them."""
        return {str(where): reason for where, reason in dict(self.sender.task_metrics.failed).items()}

    def _turn(self) -> None:
        for order in self._ring.slot_orders(range(len(self._places))):
            place = self._places[order.slot]
            place.paused, place.at, place.turns = order.paused, order.offset, order.turns
        self._ring.collect()
        for number, place in enumerate(self._places):
            if not place.paused and place.at < place.begin:
                self.sender.put(self._gap(number, place))
                place.at, place.turns = place.begin, place.turns + 1
            if not place.paused and place.at < place.end:
                following = min(place.at + _RUN_RECORDS, place.end)
                self.sender.put(self._run(number, place, following))
                place.at = following
        time.sleep(_TURN_SECONDS)

    def _gap(self, partition: int, place: Place) -> Delivery:
        where = TopicPartition(self._flow.topic, partition)
        told = {"cause": "retention", "id": str(NO_TOPIC_ID), "epochs": [], "from": place.turns}
        payload = memoryview(json.dumps(told).encode())
        return Delivery(
            GAP, where, None, place.at, place.begin, 0, place.begin, -1, payload, None, turns=place.turns + 1
        )

    def _run(self, partition: int, place: Place, following: int) -> Delivery | Bundle:
        records = [(None, b"%011d " % number) for number in range(place.at, following)]
        now_ms = int(time.time() * 1000)
        payload = memoryview(bytearray(encode_batch(records, base_offset=place.at, timestamp=now_ms)))
        return self._delivery(partition, place, following, payload)

    def _delivery(self, partition: int, place: Place, following: int, payload: memoryview) -> Delivery:
        now_ms = int(time.time() * 1000)
        where = TopicPartition(self._flow.topic, partition)
        return Delivery(
            RUN, where, self._flow.remote, place.at, following, following - place.at, place.end, now_ms, payload, None,
            now_ms, turns=place.turns,
        )  # fmt: skip
