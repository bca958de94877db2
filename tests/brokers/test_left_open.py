"""What a log does with a transaction whose marker was left out, and what its leader says of it.

Brokers that verify no partitions (`transaction.partition.verification.enable`) take records of a transaction for a
partition that its coordinator does not know: that one gets no marker when the transaction ends.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import pytest
from tests.faults.one_task import Mirrored, OneTask
from tests.flows import flow_of
from tests.scenarios.mirror import flow_file
from tests.waiting import wait_until

from sparkmirror.batch.header import parse_header, stamp
from sparkmirror.batch.records import NO_TIMESTAMP, Record, encode_batch
from sparkmirror.config.flow.flows import parse_config
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.control.assignment import Assigned
from sparkmirror.errors import ClusterError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.kafka.clients import open_admin, open_tail
from sparkmirror.kafka.errors import NO_ERROR
from sparkmirror.kafka.fencing import ProducerIdentity, init_producer_ids, transactional_id
from sparkmirror.kafka.settings import ClientSettings, client_settings
from sparkmirror.kafka.wire.coordinator import AddPartitions, EndTransaction, Question, find
from sparkmirror.kafka.wire.data_requests import (
    FIRST_TRANSACTIONS,
    decode_produce,
    encode_produce,
    frame,
    request_header,
)
from sparkmirror.kafka.wire.leader_epochs import LeaderEpochs
from sparkmirror.kafka.wire.lookup import dial_leader, look_up
from sparkmirror.kafka.wire.open_transactions import Looked, OpenTransaction, look
from sparkmirror.kafka.wire.transaction import Transaction
from sparkmirror.ledger import positions
from sparkmirror.ledger.committed_end import CommittedEnd
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.ledger.setup import ensure_ledger_topics
from sparkmirror.model import Cluster, Position, TopicPartition
from sparkmirror.planning.fencing import take_over
from sparkmirror.planning.left_behind import LeftBehind
from sparkmirror.planning.left_in_ledger import LeftInLedger, read_through
from sparkmirror.records.left_open import LeftOpen
from sparkmirror.testing.kafka import KafkaCluster

_PRODUCE = 0


@pytest.fixture(scope="module", params=[0, 2], ids=["first protocol", "second protocol"])
def credulous(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    config = {"transaction.partition.verification.enable": "false"}
    with KafkaCluster(name="open", config=config, features={"transaction.version": request.param}) as cluster:
        yield Cluster("B", {"bootstrap.servers": cluster.bootstrap_servers})


class Holder:
    """Of a transactional id, that sends to `left` without its coordinator's knowledge, and to `known` with it."""

    def __init__(self, cluster: Cluster, admin: Admin, name: str, left: TopicPartition | None = None) -> None:
        self.admin = admin
        self.settings: ClientSettings = client_settings(cluster, "test")
        self.name = name
        self.left, self.known = left or TopicPartition(f"{name}-left", 0), TopicPartition(f"{name}-known", 0)
        admin.create_topics([NewTopic(where.topic, 1, 1) for where in {self.left, self.known} - {left}])
        self.identity = init_producer_ids(admin, [name])[name]
        self.sequence = 0
        self.look()

    def begin_again(self) -> None:
        """As a take-over does."""
        self.identity, self.sequence = init_producer_ids(self.admin, [self.name])[self.name], 0

    def ask(self, question: Question) -> ProducerIdentity | None:
        link = find(self.settings, self.name)
        try:
            answer = question.decode(link, link.exchange(question.encode(link)))
        finally:
            link.close()
        assert (answer.error, dict(answer.refused)) == (NO_ERROR, {})
        return answer.identity

    def write(self, *values: bytes) -> int:
        """To `left`; returns where they stand."""
        return self.write_records([Record(0, 1_700_000_000_000, b"k", value) for value in values])

    def write_records(self, records: Sequence[Record]) -> int:
        batch = bytearray(encode_batch(records, base_offset=0))
        stamp(memoryview(batch), 0, parse_header(batch, 0), *self.identity, self.sequence, True)
        self.sequence += len(records)
        link, _ = dial_leader(self.settings, self.left)
        try:
            version = link.version(_PRODUCE, FIRST_TRANSACTIONS)
            body = encode_produce([(self.left.topic, 0, memoryview(batch))], transactional_id=self.name)
            asked = b"".join(map(bytes, frame(request_header(_PRODUCE, version, 1, "test"), *body)))
            (answer,) = decode_produce(version, memoryview(link.exchange(asked))).partitions
        finally:
            link.close()
        assert answer.error == NO_ERROR, answer
        return answer.base_offset

    def end(self, where: TopicPartition, *, commits: bool) -> None:
        """A transaction over `where`, empty there, ends. Identities of the second protocol are not used here.

        The coordinator answers when the end is decided; its marker comes later, the stable end behind it.
        """
        self.ask(AddPartitions(self.name, self.identity, (where,)))
        self.ask(EndTransaction(self.name, self.identity, second_protocol=False, commits=commits))

    def look(self) -> OpenTransaction | None:
        """A broker may not know for a moment that it leads a new topic."""
        found: list[Looked] = []

        def answers() -> bool:
            found.append(look(self.settings, LeaderEpochs(), [self.left], self.identity.producer_id))
            return not found[-1].problem

        wait_until(answers, "its leader says what is open")
        return found[-1].open[self.left]

    def stable_end(self) -> int:
        return self.admin.latest_offsets([self.left], read_committed=True).known[self.left]


@pytest.fixture
def holder(credulous: Cluster, unique: Callable[[str], str]) -> Iterator[Holder]:
    with open_admin(credulous, "test") as admin:
        yield Holder(credulous, admin, unique("holder"))


@pytest.mark.parametrize("commits", [True, False])
def test_a_marker_of_a_newer_epoch_ends_what_an_older_one_has_left_open(
    holder: Holder, credulous: Cluster, commits: bool
) -> None:
    epoch = holder.identity.epoch
    assert holder.look() is None
    assert holder.write(b"1", b"2", b"3") == 0
    holder.end(holder.known, commits=True)
    assert holder.look() == OpenTransaction(0, epoch, 2), "its marker was left out"
    assert holder.stable_end() == 0
    holder.begin_again()
    assert holder.identity.epoch > epoch
    assert holder.look() == OpenTransaction(0, epoch, 2), "a take-over that aborts nothing there changes nothing"
    holder.end(holder.left, commits=commits)
    wait_until(lambda: holder.look() is None, "nothing is open")
    wait_until(lambda: holder.stable_end() >= 4, "the stable end is behind the marker")
    assert _read(credulous, holder.left) == ([b"1", b"2", b"3"] if commits else [])


def test_a_later_transaction_joins_what_lies_open(holder: Holder) -> None:
    """The leader tells where the first begins, and of the last batch its epoch and sequence number."""
    holder.write(b"1", b"2", b"3")
    holder.end(holder.known, commits=True)
    holder.begin_again()
    holder.write(b"4", b"5")
    assert holder.look() == OpenTransaction(0, holder.identity.epoch, 1)


def test_what_is_not_there_is_not_known_to_have_nothing_open(holder: Holder) -> None:
    gone = TopicPartition("gone", 0)
    holder.write(b"1")
    holder.end(holder.left, commits=True)
    wait_until(lambda: holder.look() is None, "nothing is open")
    looked = look(holder.settings, LeaderEpochs(), [holder.left, gone], holder.identity.producer_id)
    assert looked.open == {holder.left: None}
    assert "gone-0 has no leader" in looked.problem


def test_a_leader_of_an_epoch_that_is_over_is_not_believed(holder: Holder) -> None:
    """It may be cut off from the others, and gets no marker that ends what its log has open."""
    epochs, seen = LeaderEpochs(), look_up(holder.settings, {holder.left.topic})
    epochs.sift(replace(seen, epochs={holder.left: 99}))
    looked = look(holder.settings, epochs, [holder.left], holder.identity.producer_id)
    assert not looked.open and not looked.refused
    assert f"{holder.left} has no leader" in looked.problem


@pytest.mark.parametrize("was_committed", [True, False])
def test_a_transactional_write_ends_what_an_earlier_one_has_left_open(
    holder: Holder, credulous: Cluster, was_committed: bool
) -> None:
    earlier = holder.identity
    holder.write(b"1", b"2")
    holder.end(holder.known, commits=was_committed)
    with closing(_begun(holder)) as transaction:
        committed = [earlier] if was_committed else [ProducerIdentity(earlier.producer_id, earlier.epoch - 1)]
        LeftOpen(holder.settings, transaction, committed, 30.0).clear(holder.left.topic)
    assert holder.look() is None
    wait_until(lambda: holder.stable_end() >= 3, "the stable end is behind the marker")  # one more where it asked twice
    assert _read(credulous, holder.left) == ([b"1", b"2"] if was_committed else [])


def test_a_transactional_write_that_meets_it_late_is_aborted_and_can_be_repeated(holder: Holder) -> None:
    holder.write(b"1", b"2")
    holder.end(holder.known, commits=False)
    with closing(_begun(holder)) as transaction:
        transaction.add({holder.known})
        left_open = LeftOpen(holder.settings, transaction, [], 30.0)
        with pytest.raises(ClusterError, match=r"lay open in .*-left-0"):
            left_open.clear(holder.left.topic)
        assert not transaction.is_begun
        left_open.clear(holder.left.topic)


def _begun(holder: Holder) -> Transaction:
    transaction = Transaction(holder.settings, holder.name, 60_000, 30.0)
    transaction.begin()
    return transaction


@pytest.fixture
def flow(credulous: Cluster, unique: Callable[[str], str]) -> Mirrored:
    flow = Mirrored(credulous.client["bootstrap.servers"], unique("A"), unique("numbers"), partitions=1)
    flow.create()
    return flow


def test_what_a_predecessors_aborted_transaction_has_left_does_not_come_twice(flow: Mirrored) -> None:
    with OneTask(flow, exactly_once=True) as task:
        task.give(100)
        task.wait_for_ledger(100)
    _leave_open(flow, 100, 110)
    with OneTask(flow, exactly_once=True, starts=[100], ends=flow.committed_ends()) as task:
        task.give(200)
        task.wait_for_ledger(200)
    _assert_each_came_once(flow, 200)


def test_what_a_predecessors_committed_transaction_has_left_is_not_lost(flow: Mirrored) -> None:
    with OneTask(flow, exactly_once=True) as task:
        task.give(100)
        task.wait_for_ledger(100)
    end = _leave_open(flow, 100, 110)
    with OneTask(flow, exactly_once=True, starts=[110], ends=[end]) as task:
        task.give(111)
        task.wait_for_ledger(111)
    _assert_each_came_once(flow, 111)


def test_what_nobody_knows_is_committed_and_a_warning_says_so(flow: Mirrored, caplog: pytest.LogCaptureFixture) -> None:
    _leave_open(flow, 0, 10)
    with OneTask(flow, exactly_once=True) as task:
        task.give(20)
        task.wait_for_ledger(20)
    assert "nobody knows whether it was committed" in caplog.text
    arrival = flow.arrival()
    arrival.assert_complete([20])
    assert arrival.repeats() == 10


def _leave_open(flow: Mirrored, first: int, following: int) -> CommittedEnd:
    """A transaction of the task with these records has ended, and brokers have left its marker out."""
    remote = TopicPartition(flow.remote, 0)
    with open_admin(flow.target, "test") as admin:
        holder = Holder(flow.target, admin, transactional_id(flow.connector, 0), remote)
        holder.write(*(b"%011d " % number for number in range(first, following)))
        assert holder.look() is not None
    return CommittedEnd(*holder.identity, holder.sequence)


@pytest.fixture
def planned(credulous: Cluster, unique: Callable[[str], str]) -> Iterator["Planned"]:
    with open_admin(credulous, "test") as admin:
        yield Planned(credulous, admin, unique("orders"))


class Planned:
    """A flow of two tasks, and the partition `where` of it. `former` has the transactional id of task 1, and has left
    `values` open there; task 0 is to go on."""

    values = (b"1", b"2", b"3")

    def __init__(self, cluster: Cluster, admin: Admin, topic: str) -> None:
        lines = "tasks.max = 2", "B.exactly.once.source.support = enabled"
        self.flow = replace(flow_of(*lines), target=cluster)
        self.admin, self.cluster, self.where = admin, cluster, TopicPartition(topic, 0)
        self.waits: dict[TopicPartition, str] = {}
        self.left_behind = LeftBehind(self.flow, self.waits.update)
        ensure_ledger_topics(admin, self.flow.ledger_topics)
        remote = TopicPartition(self.flow.remote_topic(topic), 0)
        admin.create_topics([NewTopic(remote.topic, 1, 1)])
        self.former = Holder(cluster, admin, transactional_id(self.flow.connector, 1), remote)

    def leave_open(self, *, was_committed: bool) -> list[Assigned]:
        """What task 0 is given then."""
        end = CommittedEnd(*self.former.identity, len(self.values) if was_committed else 0)
        self.former.write(*self.values)
        self.former.end(self.former.known, commits=was_committed)
        assert self.former.look() is not None
        return [Assigned(self.where, 3 if was_committed else 0, committed_end=end)]

    def begin_epoch(self, items: Sequence[Assigned] = ()) -> list[TopicPartition]:
        """The partitions that begin, all in task 0."""
        assigned = {one.partition: one for one in items}
        with LedgerReader(self.cluster, self.flow.ledger_topics, self.flow.connector) as ledger:
            ledger.read_to_end()
            taken = take_over(self.flow, self.admin, ledger, [0, 1])
            assignment = {0: frozenset(assigned), 1: frozenset[TopicPartition]()}
            return list(self.left_behind.begin(self.admin, taken, assignment, assigned, {}, {}))

    def assert_seen(self, *values: bytes) -> None:
        """By a consumer that reads what is committed, to the log's end."""
        assert self.former.look() is None
        wait_until(lambda: self.former.stable_end() > len(self.values), "the stable end is behind the marker")
        assert _read(self.cluster, self.former.left) == list(values)


@pytest.mark.parametrize("was_committed", [True, False])
def test_what_a_former_task_has_left_is_ended_before_another_task_has_the_partition(
    planned: Planned, was_committed: bool
) -> None:
    items = planned.leave_open(was_committed=was_committed)
    assert planned.begin_epoch(items) == [planned.where]
    planned.assert_seen(*planned.values if was_committed else ())
    assert not planned.waits


def test_what_a_task_that_runs_has_left_is_ended_by_the_next_epoch(planned: Planned) -> None:
    planned.begin_epoch()
    planned.former.identity = init_producer_ids(planned.admin, [planned.former.name])[planned.former.name]
    items = planned.leave_open(was_committed=True)
    assert planned.left_behind.give(planned.admin, 0, items) == []
    assert "which the next epoch ends" in planned.waits[planned.where] and planned.left_behind.asks_for_epoch
    assert planned.former.look() is not None
    assert planned.begin_epoch(items) == [planned.where]
    planned.assert_seen(*planned.values)
    assert not planned.left_behind.asks_for_epoch


@pytest.fixture
def in_ledger(credulous: Cluster, unique: Callable[[str], str]) -> Iterator["InLedger"]:
    with open_admin(credulous, "test") as admin:
        yield InLedger(credulous, admin, unique("A"))


class InLedger:
    """A flow with the ledger of its own. Its former task has stored a position, and the transaction's marker was left
    out there."""

    def __init__(self, cluster: Cluster, admin: Admin, alias: str) -> None:
        lines = ["tasks.max = 2", "backup.exactly.once.source.support = enabled"]
        text = flow_file({"bootstrap.servers": "nowhere:9"}, cluster.client, alias=alias, topics="orders", lines=lines)
        (self.flow,) = parse_config(parse_properties(text.encode(), "mm2")).flows
        self.admin, self.orders = admin, TopicPartition("orders", 0)
        topics = self.flow.ledger_topics
        ensure_ledger_topics(admin, topics)
        home = TopicPartition(topics.positions, 0)
        self.former = Holder(cluster, admin, transactional_id(self.flow.connector, 1), home)

    def leave_open(self, holder: Holder | None = None, *, was_committed: bool) -> None:
        holder = holder or self.former
        record = PositionRecord(Position(42), generation=3, task=1)
        key = positions.encode_key(self.flow.name.source, self.orders)
        holder.write_records([Record(0, NO_TIMESTAMP, key, positions.encode_value(record))])
        holder.end(holder.known, commits=was_committed)
        assert holder.look() is not None

    def begin(self) -> dict[TopicPartition, Position]:
        """The positions that a process finds which takes the flow over."""
        with LedgerReader(self.flow.target, self.flow.ledger_topics, self.flow.connector) as ledger:
            taken = take_over(self.flow, self.admin, ledger, [0, 1])
            return read_through(self.flow, self.admin, ledger, taken)


@pytest.mark.parametrize("was_committed", [True, False])
def test_what_lies_open_in_the_ledger_is_aborted_and_a_warning_says_what_that_may_mean(
    in_ledger: InLedger, was_committed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Its position may be of records that were aborted elsewhere: committed, they would never come."""
    in_ledger.leave_open(was_committed=was_committed)
    assert in_ledger.begin() == {}
    assert in_ledger.former.look() is None
    assert "lay open in" in caplog.text and "nobody knows whether" in caplog.text


def test_what_a_later_holder_of_the_id_has_open_in_the_ledger_is_its_own(in_ledger: InLedger) -> None:
    flow, admin = in_ledger.flow, in_ledger.admin
    with LedgerReader(flow.target, flow.ledger_topics, flow.connector) as ledger:
        taken = take_over(flow, admin, ledger, [0, 1])
        in_ledger.former.begin_again()
        in_ledger.leave_open(was_committed=True)
        LeftInLedger(flow, admin, taken, ledger.partitions).end()
    assert in_ledger.former.look() is not None


def test_what_others_have_open_in_the_ledger_is_theirs_to_end(
    in_ledger: InLedger, unique: Callable[[str], str]
) -> None:
    other = Holder(in_ledger.flow.target, in_ledger.admin, unique("other"), in_ledger.former.left)
    in_ledger.leave_open(other, was_committed=True)
    with LedgerReader(in_ledger.flow.target, in_ledger.flow.ledger_topics, in_ledger.flow.connector) as ledger:
        taken = take_over(in_ledger.flow, in_ledger.admin, ledger, [0, 1])
        LeftInLedger(in_ledger.flow, in_ledger.admin, taken, ledger.partitions).end()
    assert other.look() is not None


def _assert_each_came_once(flow: Mirrored, end: int) -> None:
    arrival = flow.arrival()
    arrival.assert_complete([end])
    assert arrival.repeats() == 0


def _read(cluster: Cluster, where: TopicPartition) -> list[bytes]:
    with open_tail(cluster, "test", [where]) as tail:
        return [record.value or b"" for record in tail.read_to_end()]
