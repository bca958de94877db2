"""The group of the processes that share the flows into one target: one member per process, on that cluster.

Each member reports which tasks it runs. The member that Kafka makes leader plans which process may run which tasks
(`sharing.assignment`) and fences the tasks that change hands; Kafka hands the plan out. Each process sends its tasks to
its planner as a `Share` on the command topic, and tells the group when the planner keeps to it. Started by
`runtime.run`, one thread per target cluster.
"""

import logging
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from os import getpid
from uuid import uuid4

from msgspec.structs import replace

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.commands import Began, Share, command_record, decode_command
from sparkmirror.errors import AuthorizationFailed, SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin, open_tail
from sparkmirror.kafka.fencing import (
    NoTransactionCoordinator,
    TransactionUnfinished,
    init_producer_ids,
    transactional_id,
    used_tasks,
)
from sparkmirror.kafka.membership import Membership, MembershipLost, Peer
from sparkmirror.kafka.publish import Publisher
from sparkmirror.kafka.tail import TailRecord, TopicTail
from sparkmirror.ledger.topics import SHARING_GROUP
from sparkmirror.model import Connector, FlowName, TopicPartition
from sparkmirror.sharing.assignment import (
    Claim,
    MemberAssignment,
    MemberMetadata,
    decode_card,
    decode_grants,
    encode_card,
    encode_grants,
    plan_fencing,
    plan_shares,
)
from sparkmirror.sharing.flow_share import FlowShare
from sparkmirror.sharing.same_machine import Predecessors, is_dead_neighbour, own_mark

log = logging.getLogger(__name__)

_BEAT_SECONDS = 1.0
"""A beat costs two milliseconds of CPU over two threads, and nobody waits for this one but a process that joins."""
_SHARED_BEAT_SECONDS = 0.2
"""Where others run some of the tasks: they may leave theirs at any time, which stand still until this one knows."""
_FENCED_AT_ONCE = 16
_HEAR_SECONDS = 0.05
_NEIGHBOURS_SECONDS = 0.2
_CATCH_UP_SECONDS_MAX = 10.0
_LEAVE_SECONDS_MAX = 3.0


class ProcessGroup:
    """This process in the group of one target cluster. Its methods may be called from any thread."""

    def __init__(self, parts: Sequence[FlowShare], file: str) -> None:
        """`parts` are the flows into one cluster, whose ledger topics exist."""
        self._parts = {str(part.flow.name): part for part in parts}
        self._target = parts[0].flow.target
        self._session_timeout_ms = parts[0].flow.session_timeout_ms
        self._file = file
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._first = threading.Event()
        self._stopping = threading.Event()
        self._open = ExitStack()
        self._membership: Membership | None = None
        self._admin: Admin | None = None
        self._publisher: Publisher | None = None
        self._tail: TopicTail | None = None
        self._due = True
        self._looked_at = 0.0
        self._peers: list[Peer] | None = None
        self._beat_at = 0.0
        self._told = ""
        self._refused: SparkMirrorError | None = None
        self._predecessors = Predecessors()
        self._have_ended = False
        self.is_alone = False
        self._thread = threading.Thread(target=self._run, name=f"crew {self._target.alias}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wait_until_joined(self, seconds_max: float) -> None:
        """Waits until the group has said for the first time which tasks this process may run. Raises the reason when
        that takes longer."""
        if not self._first.wait(seconds_max):
            raise self._refused or SparkMirrorError(
                f"The processes that share the flows into {self._target.alias} did not agree in {seconds_max:.0f} s.",
                f"List the members of the group {SHARING_GROUP} on {self._target.alias}: each is one process.",
            )

    def grant(self, flow: FlowName) -> MemberAssignment:
        """The tasks of the flow that this process may run now."""
        with self._lock:
            return self._parts[str(flow)].grant

    def lost_at(self, flow: FlowName) -> float:
        """When the group went on without this process (monotonic), until the flow's tasks have begun again; else 0."""
        with self._lock:
            return self._parts[str(flow)].lost_at

    def engage(self, flow: FlowName, run: str, process: str) -> None:
        """A query of that run and process waits for its share of the flow."""
        with self._lock:
            self._parts[str(flow)].engage(run, process)
        self._wake.set()

    def leave(self, *, have_ended: bool = False) -> None:
        """Leaves the group, so that others can take this process's tasks at once; `have_ended` says that none of them
        still runs."""
        self._have_ended = have_ended
        self._stopping.set()
        self._wake.set()
        self._thread.join(_LEAVE_SECONDS_MAX)

    # On the crew's own thread.

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._turn()
                self._told = ""
            except MembershipLost:
                self._lose()
            except AuthorizationFailed as problem:
                if not self._first.is_set():
                    self._work_alone(problem)
                    return
                self._recover(problem)
            except SparkMirrorError as problem:
                self._recover(problem)
            self._wake.wait(_HEAR_SECONDS if self._is_awaited() else self._beat_seconds())
            self._wake.clear()
        if self._membership is not None:
            with suppress(SparkMirrorError):
                self._take_leave(self._membership)
            with suppress(SparkMirrorError):
                self._membership.leave()
        self._open.close()

    def _take_leave(self, membership: Membership) -> None:
        for part in self._parts.values() if self._have_ended else ():
            with self._lock:
                share = part.farewell(membership.member_id)
            if share is not None:
                self._publish(part.flow, share)

    def _turn(self) -> None:
        membership = self._connect()
        self._put_out_dead_neighbours(membership)
        if not membership.member_id:
            self._tell_shares(membership)
        if self._due or not self._beat(membership):
            self._join(membership)
        self._tell_shares(membership)
        self._hear()

    def _beat(self, membership: Membership) -> bool:
        """A heartbeat where one is due; False when the group is shared out again."""
        if time.monotonic() - self._beat_at < self._beat_seconds() / 2:
            return True
        self._beat_at = time.monotonic()
        return membership.heartbeat()

    def _beat_seconds(self) -> float:
        with self._lock:
            is_whole = all(len(part.grant.tasks) == part.flow.tasks_max for part in self._parts.values())
        return _BEAT_SECONDS if is_whole else _SHARED_BEAT_SECONDS

    def _connect(self) -> Membership:
        if self._admin is None:
            self._admin = self._open.enter_context(open_admin(self._target, own_mark()))
            if self._membership is None:
                self._membership = Membership(self._admin, SHARING_GROUP, self._session_timeout_ms)
            self._membership.reconnect(self._admin)
        assert self._membership is not None
        return self._membership

    def _recover(self, problem: SparkMirrorError) -> None:
        """The cluster does not answer: nobody there can put us out, or we shall learn it when it does."""
        self._open.close()
        self._admin = self._publisher = self._tail = None
        self._refused = problem
        if str(problem) != self._told:
            self._told = str(problem)
            if self._first.is_set():
                log.warning("%s: sharing flows between processes: %s", self._target.alias, problem)

    def _work_alone(self, problem: SparkMirrorError) -> None:
        log.warning(
            "%s: this process cannot share its flows with others, a later one takes them over: %s",
            self._target.alias,
            problem,
        )
        self._open.close()
        self._membership = None
        self.is_alone = True
        with self._lock:
            for part in self._parts.values():
                part.grant = MemberAssignment(
                    str(part.flow.name), uuid4().hex[:12], frozenset(range(part.flow.tasks_max))
                )
        self._first.set()

    def _put_out_dead_neighbours(self, membership: Membership) -> None:
        """Removes members whose process on this machine has died, so that nobody waits for their session to time out.
        Each member that joins makes all others join again, so the list of members is read only then."""
        if time.monotonic() - self._looked_at < _NEIGHBOURS_SECONDS:
            return
        self._looked_at = time.monotonic()
        if self._peers is None or not membership.member_id:
            self._peers = membership.peers()
        for peer in [one for one in self._peers if is_dead_neighbour(one.client_id)]:
            log.info("%s: %s has died; its tasks are free", self._target.alias, peer.client_id)
            membership.leave(peer.member_id)
            self._peers.remove(peer)

    def _join(self, membership: Membership) -> None:
        with self._lock:
            stakes = tuple(part.stake() for part in self._parts.values())
        self._due = False
        self._peers = None
        card = MemberMetadata(socket.gethostname(), getpid(), self._file, stakes)
        try:
            grants = decode_grants(membership.join(encode_card(card), self._plan))
        except SparkMirrorError:
            self._due = True
            raise
        with self._lock:
            by_flow = {grant.flow: grant for grant in grants}
            for name, part in self._parts.items():
                for sentence in part.take(by_flow.get(name, MemberAssignment(name, part.grant.run))):
                    log.info("%s: %s", name, sentence)
        self._first.set()

    def _plan(self, members: Mapping[str, bytes]) -> dict[str, bytes]:
        cards = {member: card for member, data in members.items() if (card := decode_card(data)) is not None}
        grants = plan_shares(cards, uuid4().hex[:12])
        for stake, held in plan_fencing(cards, grants).items():
            self._fence(stake, held)
        return {member: encode_grants(some) for member, some in grants.items()}

    def _fence(self, stake: Claim, held: frozenset[int]) -> None:
        """What nobody runs: a process that sleeps, or lost the group, cannot write with these ids any more."""
        assert self._admin is not None
        connector = Connector(stake.flow.partition("->")[0], stake.group, stake.connector)
        with suppress(AuthorizationFailed, NoTransactionCoordinator):  # the planner says so, or `sync.fencing_job`
            known = used_tasks(self._admin, connector) | set(range(stake.tasks))
            # A process that runs a task may write under the numbers beyond that share its own, too
            # (`planning.fencing`).
            tasks = {number for number in known if number % stake.tasks not in held}
            with ThreadPoolExecutor(_FENCED_AT_ONCE) as pool:  # all before the group takes its leader for dead
                names = [transactional_id(connector, task) for task in sorted(tasks)]
                for _ in pool.map(lambda name: self._fence_id(name, stake.transaction_timeout_ms), names):
                    pass

    def _fence_id(self, name: str, timeout_ms: int) -> None:
        assert self._admin is not None
        with suppress(TransactionUnfinished):  # an abort fences, too
            init_producer_ids(self._admin, [name], timeout_ms)

    def _tell_shares(self, membership: Membership) -> None:
        for part in self._parts.values():
            with self._lock:
                share = part.next_share(membership.member_id)
                added = part.added(share) if share is not None else frozenset()
            if share is not None:
                if added:
                    self._take_in(self._follow().read_to_end(_CATCH_UP_SECONDS_MAX))
                    is_free = self._predecessors.have_ended(_commands(part.flow), share, added)
                    share = replace(share, at_once=is_free)
                self._publish(part.flow, share)
                with self._lock:
                    part.told(share)

    def _publish(self, flow: FlowConfig, share: Share) -> None:
        if self._publisher is None:
            self._publisher = self._open.enter_context(Publisher(self._target, "commands", 5.0))
        self._publisher.write(_commands(flow), [command_record(share)])

    def _hear(self) -> None:
        """Planners that have begun to keep to their share; what they have let go of is free for others."""
        if not self._is_awaited():
            return
        self._take_in(self._follow().poll(_HEAR_SECONDS))
        if self._due:
            self._wake.set()

    def _follow(self) -> TopicTail:
        if self._tail is None:
            topics = [TopicPartition(_commands(part.flow), 0) for part in self._parts.values()]
            self._tail = self._open.enter_context(open_tail(self._target, "crew", topics))
        return self._tail

    def _take_in(self, records: Sequence[TailRecord]) -> None:
        for record in records:
            command = decode_command(record.value)
            if isinstance(command, Share):
                self._predecessors.note(record.partition.topic, command)
            elif isinstance(command, Began):
                with self._lock:
                    for part in self._parts.values():
                        self._due |= part.hear(command)

    def _is_awaited(self) -> bool:
        with self._lock:
            return any(part.is_awaited for part in self._parts.values())

    def _lose(self) -> None:
        """Others run our tasks now, and have fenced them: stop, and ask for a new share."""
        log.warning(
            "%s: the group of processes has gone on without this one, which stops its tasks and joins again",
            self._target.alias,
        )
        self._due = True
        with self._lock:
            for part in self._parts.values():
                part.lose(time.monotonic())
        self._wake.set()


def _commands(flow: FlowConfig) -> str:
    return flow.ledger_topics.commands
