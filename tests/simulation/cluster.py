"""A simulated cluster: brokers that lead partitions, answer the bytes of requests with bytes, and lose what they had.

One log stands for all replicas of a partition: what lies behind the high watermark is what its leader alone has.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from kafka.protocol.admin import CreatePartitionsResponse, CreateTopicsResponse
from kafka.protocol.admin.transactions import DescribeTransactionsResponse, ListTransactionsResponse
from kafka.protocol.consumer import ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsResponse, FindCoordinatorResponse, MetadataResponse
from kafka.protocol.producer import AddPartitionsToTxnResponse, EndTxnResponse, InitProducerIdResponse
from tests.simulation import wire
from tests.simulation.acls import ACL_APIS, Acls
from tests.simulation.commits import LOG_PARTITIONS, CommittedOffsets
from tests.simulation.edges import DELETE_RECORDS, DESCRIBE_PRODUCERS, delete_records, describe_producers
from tests.simulation.groups import COMMIT, FETCH_OFFSETS, GROUP_APIS, LOADING_SECONDS, Groups, refuse
from tests.simulation.log import SEQUENCES, PartitionLog, Stored
from tests.simulation.messages import answer_to, encode_answer
from tests.simulation.scheduler import Process, World
from tests.simulation.settings import ALTER_CONFIGS, BYTES_KEY, BYTES_MAX, DESCRIBE_CONFIGS, Overrides, Settings
from tests.simulation.transactions import FENCED, NO_ERROR, ONGOING, Coordinator
from tests.simulation.waiting import Waiting, WaitingRequest
from tests.simulation.wire import FetchAsked, Fetched, Header, Known, Produced, Wanted
from tests.simulation.written_markers import WRITE_MARKERS, write_markers

from sparkmirror.batch.header import parse_header
from sparkmirror.batch.records import encode_batch
from sparkmirror.kafka.commit_log import COMMITS_TOPIC
from sparkmirror.model import TopicPartition

Reply = Callable[[bytes], None]
UNKNOWN_TOPIC, LEADER_UNAVAILABLE, NOT_LEADER, NOT_COORDINATOR = 3, 5, 6, 16
OUT_OF_RANGE, FENCED_EPOCH, UNKNOWN_EPOCH, UNKNOWN_TOPIC_ID = 1, 74, 75, 100
NO_SESSION, BAD_SESSION_EPOCH, COORDINATOR_UNAVAILABLE = 70, 71, 15
_EARLIEST, _LATEST = -2, -1
_ANY_READER = -2
"""The replica id by which ListOffsets tells where a leader's log ends."""
_LIST_OFFSETS, _METADATA = 2, 3
_TOPIC_EXISTS, _INVALID_PARTITIONS = 36, 37
_BURST_SECONDS = 0.004
"""A batch that comes so soon after another of its partition has most likely more behind it."""
_FORGET_SECONDS = 0.02
"""After it has learned of a deleted topic, a coordinator forgets what was committed for it."""
_TOO_LARGE, _INVALID_RECORD = 10, 87
_CATCH_UP_SECONDS = 0.4
"""So long at most a broker that has woken up answers with what it knew."""
_ALL = -1
COMPACTED = {"cleanup.policy": "compact"}
_APPENDED = frozenset({7, 20})
"""REQUEST_TIMED_OUT and NOT_ENOUGH_REPLICAS_AFTER_APPEND: the leader has the batch all the same."""


@dataclass(slots=True, eq=False)
class Partition:
    """`refuses` are error codes, of which every batch gets one, and all behind the first one of those that
    `then_refuses` has, if any; `withholds` is one that reads get; `is_stuck` says that
    replicas do not follow, `is_hollow` that reads bring nothing, as tiered storage that does not answer, and
    `is_taken_by_name` that it has what was sent to a topic of that name which was deleted."""

    where: TopicPartition
    leader: int | None
    log: PartitionLog = field(default_factory=PartitionLog)
    refuses: tuple[int, ...] = ()
    then_refuses: tuple[int, ...] = ()
    withholds: int = 0
    is_stuck: bool = False
    is_hollow: bool = False
    is_gone: bool = False
    is_taken_by_name: bool = False
    cut_at: float = 0.0
    appended_at: float = 0.0
    waiting: "list[Waiting]" = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Topic:
    name: str
    topic_id: UUID
    partitions: list[Partition]
    overrides: Overrides = field(default_factory=Overrides)
    made_at: float = 0.0
    gone_at: float = 0.0

    @property
    def bytes_max(self) -> int:
        return int(self.overrides.now.get(BYTES_KEY, BYTES_MAX))

    @bytes_max.setter
    def bytes_max(self, size: int) -> None:
        """A person's doing, of which all brokers learn at once."""
        for known in (self.overrides.now, *self.overrides.known.values(), *self.overrides.told):
            if size == BYTES_MAX:
                known.pop(BYTES_KEY, None)
            else:
                known[BYTES_KEY] = str(size)


class KnownTopic(NamedTuple):
    """What a broker knows of a topic: its id, and the leader and its epoch of each partition."""

    topic_id: UUID
    partitions: tuple[tuple[int | None, int], ...]


@dataclass(slots=True, eq=False)
class Node:
    number: int
    is_up: bool = True
    deaths: int = 0
    frozen_until: float = 0.0
    knows: "Mapping[str, KnownTopic]" = field(default_factory=dict)
    knows_until: float = 0.0
    """Until then it answers Metadata with `knows`, as a broker that has stood still and has not caught up."""
    leads: "dict[Partition, PartitionLog]" = field(default_factory=dict)
    """So long it takes itself for the leader of these, whose logs it has as they were when others were elected."""
    sessions: "dict[int, _Session]" = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Session:
    epoch: int
    by_id: bool
    wanted: dict[tuple[wire.Key, int], Wanted]
    told: dict[tuple[wire.Key, int], tuple[int, int]]


@dataclass(slots=True, eq=False)
class _Parked:
    """A Fetch that waits for records."""

    node: Node
    header: Header
    asked: FetchAsked
    session: _Session | None
    session_id: int
    reply: Reply
    ends_at: float
    is_answered: bool = False


class Cluster:
    """`alias` also names its brokers, `A-0:9092`."""

    def __init__(self, world: World, alias: str, nodes: int, known: Known) -> None:
        self.world = world
        self.alias = alias
        self.nodes = {number: Node(number) for number in range(nodes)}
        self.known = known
        self.topics: dict[str, Topic] = {}
        self.sequences = SEQUENCES
        self._by_id: dict[UUID, Topic] = {}
        self._metadata: dict[object, bytes] = {}
        self.graves: list[Topic] = []
        self.coordinator = Coordinator(lambda: world.now, self._send_marker, fences_own=known.fences_own)
        offsets = CommittedOffsets(self._topic_id, self._log_commit, lambda: world.now)
        self.groups = Groups(world, offsets, self.note)
        self.acls = Acls(world, self.nodes, self._frozen_until)
        self.settings = Settings(
            world, self._overrides, self.nodes, is_old=known.fences_own, frozen_until=self._frozen_until
        )
        self._coordinator_node = 0
        self.coordinator_epoch = 0
        """The leader epoch of the log of transactions."""
        self._parked: list[_Parked] = []
        self._sessions = 0
        self._ids = Random(f"{alias} {world.random.random()}")
        self.markers_wait_until = 0.0
        self.quota_until, self.throttle_ms = 0.0, 0
        """Until then each answer to a produce or fetch request says so, and its connection is not read meanwhile."""
        self.leaves_markers_out = False
        """Whether a partition of a remote topic that has no leader gets no marker (docs/exactly-once.md)."""
        self.leaves_ledger_open = False
        """Whether one of an internal topic gets none either."""
        self.has_left_position_open = False
        """Whether the marker of a commit was left out there: then nobody may know that it was one."""
        self.doubles_marker: Callable[[Partition], bool] = lambda _: False
        self.doubled: Counter[tuple[TopicPartition, int]] = Counter()
        """How many markers came twice before an offset."""
        self.written_late_until = 0.0
        """Until then markers that clients write may come late."""
        self.leaders_run_ahead = False
        """Whether a leader appends markers that its replicas do not have yet; else they come to all at once."""
        self.rotates = False
        """Whether partitions that had records come last in the next answer of a session, as real brokers have it."""
        self.asking: Process | None = None
        """Whose request over a simulated socket was the last to be handled."""
        self.ends_told_at: dict[tuple[str, TopicPartition], float] = {}
        """When a client, by its id, was last told where a log ends."""
        self.publications: list[Callable[[str, Process, bytes, bytes | None], None]] = []
        """Hear of each record that a job of a driver writes: its topic, who writes it, its key and value."""
        self.appends: list[Callable[[Partition, Process | None], None]] = []
        """Hear of each batch that a request appends, when it is there: to which partition, and who asked."""
        self._listeners: list[tuple[str, Callable[[], None]]] = []

    def _frozen_until(self, number: int) -> float:
        return self.nodes[number].frozen_until

    def _overrides(self, name: str) -> Overrides | None:
        return self.topics[name].overrides if name in self.topics else None

    # Groups.

    @property
    def coordinator_node(self) -> int:
        """Of all transactions and groups."""
        return self._coordinator_node

    @coordinator_node.setter
    def coordinator_node(self, number: int) -> None:
        if number != self._coordinator_node:
            self.groups.loading_until = self.world.now + LOADING_SECONDS
            self.coordinator_epoch += 1
        self._coordinator_node = number
        if COMMITS_TOPIC in self.topics:
            for partition in self.topics[COMMITS_TOPIC].partitions:
                partition.leader = number

    def _topic_id(self, where: TopicPartition) -> UUID | None:
        return None if self.partition(where) is None else self.topics[where.topic].topic_id

    def _log_commit(self, number: int, key: bytes, value: bytes | None) -> None:
        """Commits are acknowledged when all replicas have them; here that takes no time."""
        self._create_commits_topic()
        log = self.topics[COMMITS_TOPIC].partitions[number].log
        log.append(bytes(encode_batch([(key, value)])))
        log.replicate()

    def _create_commits_topic(self) -> None:
        """Brokers create it when somebody first looks for the coordinator of a group."""
        if COMMITS_TOPIC not in self.topics:
            for partition in self.create_topic(COMMITS_TOPIC, LOG_PARTITIONS, COMPACTED).partitions:
                partition.leader = self.coordinator_node

    # What others wait for.

    def when(self, what: str, act: Callable[[], None]) -> None:
        """Acts once, at the next event of that name: a batch for the topic, `read` (by a Fetch), `written`, EndTxn,
        `marker`, InitProducerId, OffsetFetch, OffsetCommit, `checkpoint`, `note` (of a driver's job), `refused` (a
        batch), `doubt` (an answer that is lost, or says that a batch may stand), `turned` (a log that was cut or made
        again), `rebalance`, `asked Metadata` and the like (a request comes), `epoch` (a mirror is between two),
        IncrementalAlterConfigs, CreateAcls, DeleteAcls, DescribeProducers, DeleteRecords, WriteTxnMarkers."""
        self._listeners.append((what, act))

    def note(self, what: str) -> None:
        if self._listeners:
            heard = [act for name, act in self._listeners if name == what]
            self._listeners = [(name, act) for name, act in self._listeners if name != what]
            for act in heard:
                act()

    # Topics.

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str] | None = None) -> Topic:
        live = [number for number, node in self.nodes.items() if node.is_up]
        members = [Partition(TopicPartition(name, n), live[n % len(live)]) for n in range(partitions)]
        topic = self.topics[name] = Topic(name, UUID(int=self._ids.getrandbits(128)), members)
        self._by_id[topic.topic_id] = topic
        topic.overrides.now.update(configs or {})
        topic.made_at = self.world.now
        for partition in members:
            partition.log.sequences = self.sequences
        return topic

    def delete_topic(self, name: str) -> Topic:
        topic = self.topics.pop(name)
        del self._by_id[topic.topic_id]
        self.graves.append(topic)
        topic.gone_at = self.world.now
        for partition in topic.partitions:
            partition.is_gone = True
            self.fail_waiting(partition, UNKNOWN_TOPIC)
        self.world.after(_FORGET_SECONDS, lambda: self.groups.offsets.forget_topic(name, topic.topic_id))
        self.poke()
        return topic

    def grow_topic(self, name: str, partitions: int) -> None:
        live = [number for number, node in self.nodes.items() if node.is_up]
        members = self.topics[name].partitions
        for number in range(len(members), partitions):
            members.append(Partition(TopicPartition(name, number), live[number % len(live)]))
            members[-1].log.sequences = self.sequences

    def partition(self, where: TopicPartition) -> Partition | None:
        topic = self.topics.get(where.topic)
        return topic.partitions[where.partition] if topic and where.partition < len(topic.partitions) else None

    def _find(self, key: wire.Key, number: int) -> Partition | int:
        if isinstance(key, UUID):
            topic, missing = self._by_id.get(key), UNKNOWN_TOPIC_ID
        else:
            topic, missing = self.topics.get(key), UNKNOWN_TOPIC
        if topic is None:
            return missing
        return topic.partitions[number] if number < len(topic.partitions) else UNKNOWN_TOPIC

    # Leaders.

    def move_leader(self, partition: Partition, node: int | None, *, cut: int | None = None) -> None:
        """Another broker leads; `cut` is where its log ends, the high watermark or, uncleanly, below it. A controller
        elects none that it does not hear: one that was cut off has come back, and knows what others do, or does so
        once it has woken up."""
        log = partition.log
        if partition.leader is not None and self.world.now < self.nodes[partition.leader].knows_until:
            self.nodes[partition.leader].leads[partition] = log.copied()
        if node is not None:
            chosen = self.nodes[node]
            chosen.knows_until = min(chosen.knows_until, max(self.world.now, chosen.frozen_until + _CATCH_UP_SECONDS))
            end = log.end if cut is None else cut
            if end < log.end:
                log.truncate(end)
                partition.cut_at = self.world.now
            log.begin_epoch(log.epoch + 1)
        partition.leader = node
        self.fail_waiting(partition, NOT_LEADER)
        if node is not None:
            self.replicate_later(partition)
        self.poke()

    def down(self, number: int) -> None:
        self.nodes[number].is_up = False
        self.nodes[number].deaths += 1
        self.nodes[number].sessions.clear()
        self.nodes[number].leads = {}
        for topic in self._led_topics():
            for partition in topic.partitions:
                if partition.leader == number:
                    self.fail_waiting(partition, NOT_LEADER)
                    partition.leader = None
        if self.coordinator_node == number:
            self.elect_coordinator()

    def elect(self) -> None:
        """Every partition without a leader gets one that has all that was acknowledged."""
        live = [number for number, node in self.nodes.items() if node.is_up]
        for topic in self._led_topics():
            for partition in topic.partitions:
                if partition.leader is None and live:
                    self.move_leader(
                        partition, live[partition.where.partition % len(live)], cut=partition.log.high_watermark
                    )

    def remember(self, number: int, until: float) -> None:
        """From now on the broker learns nothing of the others, until then: it answers with what it knew."""
        node = self.nodes[number]
        node.knows, node.knows_until, node.leads = self.known_topics(), until, {}

    def _led_by(self, node: Node, partition: Partition) -> PartitionLog | None:
        """The log as the broker has it that leads the partition, or takes itself for its leader."""
        if partition.leader == node.number:
            return partition.log
        return node.leads.get(partition) if self.world.now < node.knows_until else None

    def _led_topics(self) -> list[Topic]:
        """All but the log of commits, which the coordinator leads."""
        return [topic for name, topic in self.topics.items() if name != COMMITS_TOPIC]

    def elect_coordinator(self) -> None:
        live = [number for number, node in self.nodes.items() if node.is_up]
        if live:
            self.coordinator_node = live[0]

    # Requests.

    @property
    def held_back_ms(self) -> int:
        """What an answer to a request that a quota counts says of it."""
        return self.throttle_ms if self.world.now < self.quota_until else 0

    def handle(self, number: int, frame: bytes, reply: Reply) -> None:
        """Answers through `reply`, now or later."""
        node, header = self.nodes[number], wire.read_header(frame)
        if header.api == wire.FETCH:
            self._fetch(node, header, wire.read_fetch(header, frame), reply)
        elif header.api == wire.PRODUCE:
            self._produce(node, header, wire.read_produce(header, frame), reply)
        else:

            def encode(answer: Any) -> None:
                reply(encode_answer(answer, header.version, header.correlation))

            kind = wire.REQUESTS[header.api]
            request = kind.decode(frame, version=header.version, header=True)
            self.note(f"asked {kind.__name__.removesuffix('Request')}")
            if header.api == _METADATA:
                self._answer_metadata(node, header, request, reply)
            elif header.api == WRITE_MARKERS:
                self.note("WriteTxnMarkers")
                write_markers(self, number, request, encode)
            elif header.api in ACL_APIS:
                encode(self.acls.handle(header.api, number, request))
                self.note(ACL_APIS[header.api])
            elif header.api not in GROUP_APIS:
                answer = _ANSWERS[header.api](self, node, request, header.version)
                if header.api == _LIST_OFFSETS:
                    self._note_told(header.client_id, answer)
                encode(answer)
                if header.api in _NOTED:
                    self.note(_NOTED[header.api])
            elif number != self.coordinator_node:
                encode(refuse(header.api, request, NOT_COORDINATOR))
            else:
                self.groups.handle(header.api, request, header.client_id, encode)
                if header.api in (COMMIT, FETCH_OFFSETS):
                    self.note("OffsetCommit" if header.api == COMMIT else "OffsetFetch")

    def _note_told(self, client_id: str, answer: Any) -> None:
        for topic in answer.topics:
            for one in topic.partitions:
                if not one.error_code:
                    self.ends_told_at[client_id, TopicPartition(topic.name, one.partition_index)] = self.world.now

    # Produce.

    def _produce(self, node: Node, header: Header, asked: wire.ProduceAsked, reply: Reply) -> None:
        answers = [Produced(key, partition) for key, partition, _ in asked.items]
        request = WaitingRequest(lambda: reply(wire.write_produce(header.correlation, answers, self.held_back_ms)))
        touched: list[Partition] = []
        for produced, (key, number, data) in zip(answers, asked.items, strict=True):
            found = self._find(key, number)
            if isinstance(found, int):
                produced.error = found
                continue
            self._append(node, found, asked, data, produced)
            if not produced.error and asked.acks == _ALL:
                request.left += 1
                found.waiting.append(Waiting(produced, found.log.end, request))
            if not produced.error:
                touched.append(found)
        for partition in touched:
            self.replicate_later(partition)
        if not request.left:
            request.answer()

    def _append(
        self, node: Node, partition: Partition, asked: wire.ProduceAsked, data: bytes, produced: Produced
    ) -> None:
        if partition.leader != node.number:
            produced.error = NOT_LEADER
            return
        refusal = self.world.random.choice(partition.refuses) if partition.refuses else 0
        if partition.then_refuses:
            partition.refuses, partition.then_refuses = partition.then_refuses, ()
        if refusal and refusal not in _APPENDED:
            produced.error = refusal
            self.note("refused")
            return
        topic = self.topics.get(partition.where.topic)
        if topic is not None and len(data) > topic.bytes_max:
            produced.error = _TOO_LARGE
            return
        is_open = False
        batch = parse_header(data, 0)
        if batch.is_transactional:
            producer = partition.log.producers.get(batch.producer_id)
            is_open = (
                producer is not None and producer.first_open is not None and producer.epoch == batch.producer_epoch
            )
            if not is_open:
                produced.error = self._open(asked, partition.where, batch.producer_id, batch.producer_epoch)
                if produced.error:
                    return
                is_open = True
        if batch.records_count != batch.last_offset_delta + 1:
            produced.error = _INVALID_RECORD
            return
        if (known := partition.log.duplicate(batch)) is not None:
            produced.append_time_ms = parse_header(known.data, 0).max_timestamp
        produced.error, produced.base = partition.log.append(data, is_open=is_open)
        produced.start = partition.log.start
        if not produced.error:
            self.note(partition.where.topic)
            if self.world.now - partition.appended_at < _BURST_SECONDS:
                self.note(f"burst of {partition.where.topic}")
            partition.appended_at = self.world.now
            for watch in self.appends:
                watch(partition, self.asking)
        if not produced.error and refusal:
            produced.error, produced.base = refusal, -1
            self.note("doubt")
            self.replicate_later(partition)

    def _open(self, asked: wire.ProduceAsked, where: TopicPartition, producer_id: int, epoch: int) -> int:
        """The leader asks the coordinator before it takes the first batch of a transaction (KIP-890)."""
        name = asked.transactional_id or ""
        if asked.version >= 12:
            error = self.coordinator.add(name, producer_id, epoch, {where}, is_second=True)
            return 47 if error == FENCED else error
        return self.coordinator.verify(name, producer_id, epoch, where)

    def replicate_later(self, partition: Partition) -> None:
        self.world.after(0.0002 + 0.002 * self.world.random.random(), lambda: self.replicate(partition))

    def replicate(self, partition: Partition) -> None:
        if partition.is_stuck or partition.leader is None or partition.is_gone:
            return
        partition.log.replicate()
        waiting, partition.waiting = partition.waiting, []
        for one in waiting:
            self._settle(one)
        self.poke()

    def _settle(self, waiting: Waiting) -> None:
        request = waiting.request
        request.left -= 1
        if not request.left:
            request.answer()

    def fail_waiting(self, partition: Partition, error: int) -> None:
        """Answers the producers that wait for replicas."""
        waiting, partition.waiting = partition.waiting, []
        for one in waiting:
            one.produced.error, one.produced.base = error, -1
            self._settle(one)
            self.note("doubt")

    # Transactions.

    def _send_marker(self, name: str, number: int, where: TopicPartition) -> None:
        delay = 0.001 + 0.01 * self.world.random.random()
        self.world.after(delay, lambda: self._write_marker(name, number, where))

    def _write_marker(self, name: str, number: int, where: TopicPartition) -> None:
        found = self.coordinator.known[name]
        if found.number != number or where not in found.awaited:
            return
        partition = self.partition(where)
        if partition is not None and partition.leader is None and self._leaves_out(where):
            is_of_ledger = where.topic.endswith(".internal") and found.state == "PrepareCommit"
            self.has_left_position_open = self.has_left_position_open or is_of_ledger
            self._end_marker(name, where)
            return
        again = 0.0
        if partition is not None:
            is_late = partition.leader is None or self.world.now < self.markers_wait_until
            again = 0.1 if is_late or (partition.is_stuck and not self.leaders_run_ahead) else 0.0
        if again:
            self.world.after(again, lambda: self._write_marker(name, number, where))
            return
        if partition is not None:
            commits = found.state == "PrepareCommit"
            marker = partial(
                partition.log.add_marker, found.producer_id, found.epoch, commits=commits,
                coordinator_epoch=self.coordinator_epoch,
            )  # fmt: skip
            marker()
            if self.doubles_marker(partition):
                marker()
            if partition.is_stuck:
                last = partition.log.batches[-1]
                self.note("marker")
                self.world.after(0.1, lambda: self._await_marker(name, number, where, last))
                return
            partition.log.replicate()
        self._end_marker(name, where)

    def _leaves_out(self, where: TopicPartition) -> bool:
        return self.leaves_markers_out and (self.leaves_ledger_open or not where.topic.endswith(".internal"))

    def _end_marker(self, name: str, where: TopicPartition) -> None:
        self.coordinator.ended(name, where)
        self.note("marker")
        self.poke()

    def _await_marker(self, name: str, number: int, where: TopicPartition, marker: Stored) -> None:
        """The leader alone has it: it is written again where it is lost with that leader."""
        found, partition = self.coordinator.known[name], self.partition(where)
        if found.number != number or where not in found.awaited:
            return
        if partition is None or marker not in partition.log.batches:
            self._write_marker(name, number, where)
        elif marker.last < partition.log.high_watermark:
            self._end_marker(name, where)
        else:
            self.world.after(0.1, lambda: self._await_marker(name, number, where, marker))

    # Fetch.

    def _fetch(self, node: Node, header: Header, asked: FetchAsked, reply: Reply) -> None:
        session: _Session | None = None
        session_id = 0
        if asked.session_epoch == 0:
            node.sessions.pop(asked.session_id, None)
            self._sessions += 1
            session_id = self._sessions
            session = node.sessions[session_id] = _Session(1, header.version >= 13, {}, {})
        elif asked.session_epoch > 0:
            session = node.sessions.get(asked.session_id)
            session_id = asked.session_id
            if session is None or asked.session_epoch != session.epoch:
                error = NO_SESSION if session is None else BAD_SESSION_EPOCH
                reply(wire.write_fetch(header.correlation, error, 0, []))
                return
            session.epoch += 1
        if session is not None:
            session.wanted.update({(one.key, one.partition): one for one in asked.wanted})
            for key in asked.forgotten:
                session.wanted.pop(key, None)
        parked = _Parked(node, header, asked, session, session_id, reply, self.world.now + asked.wait_ms / 1000)
        if not self._try_fetch(parked, force=False):
            self._parked.append(parked)
            self.world.at(parked.ends_at, lambda: self._end_fetch(parked))

    def _end_fetch(self, parked: _Parked) -> None:
        if not parked.is_answered:
            self._parked.remove(parked)
            self._try_fetch(parked, force=True)

    def poke(self) -> None:
        """Something has changed: long polls are looked at again."""
        for parked in list(self._parked):
            if self._try_fetch(parked, force=False):
                self._parked.remove(parked)

    def _try_fetch(self, parked: _Parked, *, force: bool) -> bool:
        asked, session = parked.asked, parked.session
        wanted = list(session.wanted.values()) if session is not None else asked.wanted
        if wanted and not force and asked.bytes_min > 0 and all(self._is_quiet(parked.node, asked, w) for w in wanted):
            return False
        left = asked.bytes_max
        found: list[Fetched] = []
        size, has_news = 0, False
        for one in wanted:
            fetched = self._read(parked.node, asked, one, left, is_first=not size)
            size += len(fetched.records)
            left -= len(fetched.records)
            has_news |= bool(fetched.error) or fetched.diverging is not None
            found.append(fetched)
        if not (force or has_news or size >= asked.bytes_min or not wanted):
            return False
        parked.is_answered = True
        if size:
            self.note("read")
        if session is not None:
            is_full = asked.session_epoch == 0
            found = [one for one in found if self._is_told(session, one) or is_full]
            for key in [(one.key, one.partition) for one in found if one.records and self.rotates]:
                session.wanted[key] = session.wanted.pop(key)
        answer = wire.write_fetch(parked.header.correlation, 0, parked.session_id, found, self.held_back_ms)
        parked.reply(answer)
        return True

    def _is_told(self, session: _Session, one: Fetched) -> bool:
        key, mark = (one.key, one.partition), (one.high_watermark, one.start)
        known = session.told.get(key)
        session.told[key] = (-1, -1) if one.error else mark
        return bool(one.records or one.error or one.diverging) or known != mark

    def _is_quiet(self, node: Node, asked: FetchAsked, one: Wanted) -> bool:
        """Whether a look at the partition, which has not changed, would bring neither records nor an error."""
        found = self._find(one.key, one.partition)
        log = None if isinstance(found, int) else self._led_by(node, found)
        if isinstance(found, int) or log is None or found.withholds:
            return False
        if 0 <= one.leader_epoch != log.epoch or not log.start <= one.offset <= log.end:
            return False
        if one.last_epoch >= 0 and not (log.epochs and log.epochs[-1][0] == one.last_epoch):
            return False
        return found.is_hollow or one.offset >= (log.last_stable if asked.is_committed else log.high_watermark)

    def _read(self, node: Node, asked: FetchAsked, one: Wanted, left: int, *, is_first: bool) -> Fetched:
        """Only of the first partition with records one batch comes whole whatever its size (KIP-74): all others are cut
        off where the limit is."""
        found = self._find(one.key, one.partition)
        if isinstance(found, int):
            return Fetched(one.key, one.partition, found)
        log = self._led_by(node, found)
        if log is None:
            return Fetched(one.key, one.partition, NOT_LEADER)
        if 0 <= one.leader_epoch != log.epoch:
            return Fetched(one.key, one.partition, FENCED_EPOCH if one.leader_epoch < log.epoch else UNKNOWN_EPOCH)
        if found.withholds:
            return Fetched(one.key, one.partition, found.withholds)
        fetched = Fetched(one.key, one.partition, 0, log.high_watermark, log.last_stable, log.start)
        if one.last_epoch >= 0:
            ended = log.end_of_epoch(one.last_epoch)
            if ended is None:
                return Fetched(one.key, one.partition, OUT_OF_RANGE)
            if ended[0] < one.last_epoch or ended[1] < one.offset:
                fetched.diverging = ended
                return fetched
        if not log.start <= one.offset <= log.end:
            return Fetched(one.key, one.partition, OUT_OF_RANGE)
        end = log.last_stable if asked.is_committed else log.high_watermark
        if not found.is_hollow and one.offset < end:
            fetched.records = log.read_bytes(one.offset, end, min(left, one.bytes_max), whole=is_first)
            if asked.is_committed and fetched.records:
                gone = log.aborted_in(one.offset, log.end)  # as far as the index is sparse, beyond the records
                fetched.aborted = [(aborted.producer_id, aborted.first) for aborted in gone]
        return fetched

    # All other requests.

    def versions(self, request: Any, version: int) -> Any:
        api = ApiVersionsResponse.ApiVersion
        feature = ApiVersionsResponse.FinalizedFeatureKey
        return ApiVersionsResponse(
            error_code=0,
            api_keys=[
                api(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.known.versions.items()
            ],
            throttle_time_ms=0,
            finalized_features=[
                feature(name=name, max_version_level=level, min_version_level=level)
                for name, level in self.known.features.items()
            ],
        )

    def known_topics(self) -> dict[str, KnownTopic]:
        """What a broker knows that has caught up."""
        return {
            name: KnownTopic(topic.topic_id, tuple((one.leader, one.log.epoch) for one in topic.partitions))
            for name, topic in self.topics.items()
        }

    def metadata(self, request: Any, known: Mapping[str, KnownTopic]) -> Any:
        broker = MetadataResponse.MetadataResponseBroker
        names = list(known) if request.topics is None else [one.name for one in request.topics]
        return MetadataResponse(
            throttle_time_ms=0,
            brokers=[
                broker(node_id=node.number, host=f"{self.alias}-{node.number}", port=9092, rack=None)
                for node in self.nodes.values()
                if node.is_up
            ],
            cluster_id=f"cluster-{self.alias}",
            controller_id=min((node.number for node in self.nodes.values() if node.is_up), default=-1),
            topics=[self._describe(name, known.get(name)) for name in names],
        )

    def _answer_metadata(self, node: Node, header: Header, request: Any, reply: Reply) -> None:
        """Encoded once as long as nothing in it changes."""
        known = node.knows if self.world.now < node.knows_until else self.known_topics()
        names = tuple(known) if request.topics is None else tuple(one.name for one in request.topics)
        told = (
            header.version,
            tuple(one.is_up for one in self.nodes.values()),
            tuple((name, known.get(name)) for name in names),
        )
        if told not in self._metadata:
            self._metadata[told] = encode_answer(self.metadata(request, known), header.version, 0)
        reply(answer_to(header.correlation, self._metadata[told]))

    def _describe(self, name: str, known: KnownTopic | None) -> Any:
        kind = MetadataResponse.MetadataResponseTopic
        if known is None:
            return kind(error_code=UNKNOWN_TOPIC, name=name, topic_id=UUID(int=0), is_internal=False, partitions=[])
        nodes = list(self.nodes)
        members = [
            kind.MetadataResponsePartition(
                error_code=0 if leader is not None else LEADER_UNAVAILABLE,
                partition_index=number,
                leader_id=-1 if leader is None else leader,
                leader_epoch=epoch,
                replica_nodes=nodes,
                isr_nodes=nodes,
                offline_replicas=[],
            )
            for number, (leader, epoch) in enumerate(known.partitions)
        ]
        is_internal = name == COMMITS_TOPIC
        return kind(error_code=0, name=name, topic_id=known.topic_id, is_internal=is_internal, partitions=members)

    def create_topics(self, request: Any) -> Any:
        kind = CreateTopicsResponse.CreatableTopicResult
        told = []
        for one in request.topics:
            configs = {each.name: each.value for each in one.configs}
            error, message = self.settings.problem(configs)
            if one.name in self.topics:
                error, message = _TOPIC_EXISTS, f"Topic '{one.name}' already exists."
            if not error and not request.validate_only:
                for watch in self.settings.creation_watchers:
                    watch(one.name, configs)
                self.create_topic(one.name, one.num_partitions, configs)
            topic_id = UUID(int=0) if error else getattr(self.topics.get(one.name), "topic_id", UUID(int=0))
            told.append(
                kind(
                    name=one.name, topic_id=topic_id, error_code=error,
                    error_message=message or None, topic_config_error_code=0,
                    num_partitions=-1 if error else one.num_partitions, replication_factor=-1 if error else 1,
                    configs=None if error else [],
                )
            )  # fmt: skip
        return CreateTopicsResponse(throttle_time_ms=0, topics=told)

    def create_partitions(self, request: Any) -> Any:
        kind = CreatePartitionsResponse.CreatePartitionsTopicResult
        told = []
        for one in request.topics:
            topic = self.topics.get(one.name)
            error = UNKNOWN_TOPIC if topic is None else NO_ERROR
            if topic is not None and one.count <= len(topic.partitions):
                error = _INVALID_PARTITIONS
            if not error:
                self.grow_topic(one.name, one.count)
            told.append(kind(name=one.name, error_code=error, error_message=None))
        return CreatePartitionsResponse(throttle_time_ms=0, results=told)

    def list_offsets(self, node: Node, request: Any) -> Any:
        kind = ListOffsetsResponse.ListOffsetsTopicResponse
        topics = []
        for topic in request.topics:
            found = []
            for one in topic.partitions:
                where = TopicPartition(topic.name, one.partition_index)
                error, offset = self._offset(node, where, one, request)
                found.append(
                    kind.ListOffsetsPartitionResponse(
                        partition_index=one.partition_index,
                        error_code=error,
                        timestamp=-1,
                        offset=offset,
                        leader_epoch=-1 if error else self._epoch_at(node, where, one.timestamp),
                    )
                )
            topics.append(kind(name=topic.name, partitions=found))
        return ListOffsetsResponse(throttle_time_ms=0, topics=topics)

    def _offset(self, node: Node, where: TopicPartition, one: Any, request: Any) -> tuple[int, int]:
        partition = self.partition(where)
        if partition is None:
            return UNKNOWN_TOPIC, -1
        log, epoch = self._led_by(node, partition), one.current_leader_epoch
        if log is None:
            return NOT_LEADER, -1
        if epoch is not None and 0 <= epoch != log.epoch:
            return (FENCED_EPOCH if epoch < log.epoch else UNKNOWN_EPOCH), -1
        if one.timestamp == _EARLIEST:
            return 0, log.start
        if request.replica_id == _ANY_READER:
            return 0, log.end
        return 0, log.last_stable if request.isolation_level else log.high_watermark

    def _epoch_at(self, node: Node, where: TopicPartition, timestamp: int) -> int:
        """The leader's own at the end of a log, though it may have no record yet."""
        partition = self.partition(where)
        if partition is None:
            return -1
        log = self._led_by(node, partition) or partition.log
        return log.epochs[0][0] if timestamp == _EARLIEST and log.epochs else log.epoch

    def has_met_cut(self, partition: Partition) -> bool:
        """Whether anybody has been told where the log ends, or has appended to it, since it was cut."""
        told = [at for (_, where), at in self.ends_told_at.items() if where == partition.where]
        return max([partition.appended_at, *told]) > partition.cut_at

    def find_coordinator(self, request: Any, version: int) -> Any:
        if not request.key_type:
            self._create_commits_topic()
        host, is_up = f"{self.alias}-{self.coordinator_node}", self.nodes[self.coordinator_node].is_up
        error = 0 if is_up else COORDINATOR_UNAVAILABLE
        told = {
            "error_code": error,
            "error_message": None,
            "node_id": self.coordinator_node,
            "host": host,
            "port": 9092,
        }
        if version < 4:
            return FindCoordinatorResponse(throttle_time_ms=0, **told)
        one = FindCoordinatorResponse.Coordinator
        return FindCoordinatorResponse(
            throttle_time_ms=0, coordinators=[one(key=key, **told) for key in request.coordinator_keys]
        )

    def initialize(self, node: Node, request: Any) -> Any:
        self.note("InitProducerId")
        if request.transactional_id is not None and node.number != self.coordinator_node:
            return InitProducerIdResponse(
                throttle_time_ms=0, error_code=NOT_COORDINATOR, producer_id=-1, producer_epoch=-1
            )
        error, producer_id, epoch = self.coordinator.initialize(
            request.transactional_id, request.transaction_timeout_ms, request.producer_id, request.producer_epoch
        )
        return InitProducerIdResponse(
            throttle_time_ms=0, error_code=error, producer_id=producer_id, producer_epoch=epoch
        )

    def add_partitions(self, node: Node, request: Any) -> Any:
        wanted = [
            TopicPartition(topic.name, number) for topic in request.v3_and_below_topics for number in topic.partitions
        ]
        absent = {where for where in wanted if self.partition(where) is None}
        codes = dict.fromkeys(wanted, NO_ERROR)
        if node.number != self.coordinator_node:
            codes = dict.fromkeys(wanted, NOT_COORDINATOR)
        elif absent:
            codes = {where: UNKNOWN_TOPIC if where in absent else 55 for where in wanted}
        else:
            error = self.coordinator.add(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                set(wanted),
                is_second=False,
            )
            codes = dict.fromkeys(wanted, error)
        kind = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
        member = kind.AddPartitionsToTxnPartitionResult
        return AddPartitionsToTxnResponse(
            throttle_time_ms=0,
            results_by_topic_v3_and_below=[
                kind(
                    name=topic.name,
                    results_by_partition=[
                        member(partition_index=number, partition_error_code=codes[TopicPartition(topic.name, number)])
                        for number in topic.partitions
                    ],
                )
                for topic in request.v3_and_below_topics
            ],
        )

    def end_transaction(self, node: Node, request: Any, version: int) -> Any:
        error, producer_id, epoch = NOT_COORDINATOR, -1, -1
        self.note("EndTxn")
        if node.number == self.coordinator_node:
            error, producer_id, epoch = self.coordinator.end(
                request.transactional_id,
                request.producer_id,
                request.producer_epoch,
                commits=request.committed,
                is_second=version >= 5,
            )
        return EndTxnResponse(throttle_time_ms=0, error_code=error, producer_id=producer_id, producer_epoch=epoch)

    def describe_transactions(self, node: Node, request: Any) -> Any:
        kind = DescribeTransactionsResponse.TransactionState
        states = []
        for name in request.transactional_ids:
            found = self.coordinator.known.get(name)
            error = NOT_COORDINATOR if node.number != self.coordinator_node else 105 if found is None else 0
            if error or found is None:
                states.append(
                    kind(
                        error_code=error,
                        transactional_id=name,
                        transaction_state="",
                        producer_id=-1,
                        producer_epoch=-1,
                        transaction_timeout_ms=0,
                        transaction_start_time_ms=-1,
                        topics=[],
                    )
                )
                continue
            members = found.awaited if found.awaited else found.partitions if found.state == ONGOING else set()
            topics: dict[str, list[int]] = {}
            for where in sorted(members):
                topics.setdefault(where.topic, []).append(where.partition)
            states.append(
                kind(
                    error_code=0,
                    transactional_id=name,
                    transaction_state=found.state,
                    producer_id=found.producer_id,
                    producer_epoch=found.epoch,
                    transaction_timeout_ms=found.timeout_ms,
                    transaction_start_time_ms=0,
                    topics=[kind.TopicData(topic=topic, partitions=numbers) for topic, numbers in topics.items()],
                )
            )
        return DescribeTransactionsResponse(throttle_time_ms=0, transaction_states=states)

    def list_transactions(self, node: Node) -> Any:
        kind = ListTransactionsResponse.TransactionState
        known = self.coordinator.known if node.number == self.coordinator_node else {}
        states = [
            kind(transactional_id=name, producer_id=one.producer_id, transaction_state=one.state)
            for name, one in known.items()
        ]
        return ListTransactionsResponse(
            throttle_time_ms=0, error_code=0, unknown_state_filters=[], transaction_states=states
        )


_ANSWERS: dict[int, Callable[[Cluster, Node, Any, int], Any]] = {
    2: lambda cluster, node, request, _: cluster.list_offsets(node, request),
    10: lambda cluster, _, request, version: cluster.find_coordinator(request, version),
    18: lambda cluster, _, request, version: cluster.versions(request, version),
    19: lambda cluster, _, request, __: cluster.create_topics(request),
    22: lambda cluster, node, request, _: cluster.initialize(node, request),
    24: lambda cluster, node, request, _: cluster.add_partitions(node, request),
    26: lambda cluster, node, request, version: cluster.end_transaction(node, request, version),
    DESCRIBE_CONFIGS: lambda cluster, node, request, _: cluster.settings.answer_describe(node.number, request),
    37: lambda cluster, _, request, __: cluster.create_partitions(request),
    ALTER_CONFIGS: lambda cluster, _, request, __: cluster.settings.answer_alter(request),
    DELETE_RECORDS: lambda cluster, node, request, _: delete_records(cluster, node.number, request),
    DESCRIBE_PRODUCERS: lambda cluster, node, request, _: describe_producers(cluster, node.number, request),
    65: lambda cluster, node, request, _: cluster.describe_transactions(node, request),
    66: lambda cluster, node, _, __: cluster.list_transactions(node),
}
_NOTED = {
    ALTER_CONFIGS: "IncrementalAlterConfigs", DELETE_RECORDS: "DeleteRecords", DESCRIBE_PRODUCERS: "DescribeProducers",
}  # fmt: skip
"""Requests that others wait for, by what they call them."""
