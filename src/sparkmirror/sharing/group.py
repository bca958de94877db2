"""The group of the processes that share the flows into one target: one member per process, on that cluster.

Each member reports which tasks it runs. The member that Kafka makes leader plans which process may run which tasks
(`sharing.assignment`) and fences the tasks that change hands; Kafka distributes the plan. Each process sends its tasks
to its planner as a `Share` on the command topic, and joins the group again when the planner follows it. `runtime.run`
starts one thread per target cluster.
"""

import logging
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from enum import Enum, auto
from os import getpid
from uuid import uuid4

from msgspec.structs import replace

from sparkmirror.clock import to_the_second
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.commands import Began, Share, command_record, decode_command
from sparkmirror.errors import AuthorizationFailed, SparkMirrorError, describe_unexpected
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin, open_tail
from sparkmirror.kafka.fencing import (
    NoTransactionCoordinator,
    TransactionUnfinished,
    init_producer_ids,
    transactional_id,
)
from sparkmirror.kafka.known_ids import used_tasks
from sparkmirror.kafka.membership import Membership, MembershipLost, Peer
from sparkmirror.kafka.publish import Publisher
from sparkmirror.kafka.tail import TailRecord, TopicTail
from sparkmirror.ledger.positions import ALONE
from sparkmirror.ledger.topics import SHARING_GROUP
from sparkmirror.model import Connector, FlowName, TopicPartition
from sparkmirror.sharing.assignment import (
    Claim,
    MemberAssignment,
    MemberMetadata,
    decode_assignments,
    decode_metadata,
    encode_assignments,
    encode_metadata,
    plan_fencing,
    plan_shares,
)
from sparkmirror.sharing.flow_share import FlowShare
from sparkmirror.sharing.heartbeats import RECOVER_SECONDS, SHARED_HEARTBEAT_SECONDS, lone_heartbeat_seconds
from sparkmirror.sharing.same_machine import Predecessors, is_dead_neighbour, own_mark

log = logging.getLogger(__name__)

_FENCED_AT_ONCE = 16
_POLL_SECONDS = 0.05
_NEIGHBOURS_SECONDS = 0.2
_CATCH_UP_SECONDS_MAX = 10.0
_LEAVE_SECONDS_MAX = 3.0
_TELL_SECONDS = 3.0
"""The group may put this process out a moment after it has fenced the tasks."""
_WAKES_SECONDS = 30.0
"""A process that fenced as it woke joins the group again at most so long before its fence is noticed, or after."""


class FencedBy(Enum):
    """Who took a flow's tasks from this process, as far as its group knows."""

    GROUP = auto()
    OTHERS = auto()
    UNKNOWN = auto()


class ProcessGroup:
    """This process in the group of one target cluster. Its methods may be called from any thread."""

    def __init__(self, flow_shares: Sequence[FlowShare], file: str) -> None:
        """`flow_shares` are the flows into one cluster, whose ledger topics exist."""
        self._flow_shares = {str(flow_share.flow.name): flow_share for flow_share in flow_shares}
        self._target = flow_shares[0].flow.target
        self._session_timeout_ms = flow_shares[0].flow.session_timeout_ms
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
        self._heartbeat_at = 0.0
        self._confirmed_at = self._joined_at = self._shared_at = 0.0
        self._last_problem = ""
        self._refused: SparkMirrorError | None = None
        self._predecessors = Predecessors()
        self._have_ended = False
        self.is_alone = False
        self._thread = threading.Thread(target=self._run, name=f"sharing {self._target.alias}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wait_until_joined(self, seconds_max: float) -> None:
        """Waits for the group's first assignment. Raises SparkMirrorError with the reason when that takes longer."""
        if not self._first.wait(seconds_max):
            raise self._refused or SparkMirrorError(
                f"The processes that share the flows into {self._target.alias} did not agree in {seconds_max:.0f} s.",
                f"List the members of the group {SHARING_GROUP} on {self._target.alias}: each is one process.",
            )

    def assignment(self, flow: FlowName) -> MemberAssignment:
        """The tasks of the flow that this process may run now."""
        with self._lock:
            return self._flow_shares[str(flow)].assignment

    def fenced_by(self, flow: FlowName, begun_at: float, fenced_at: float) -> FencedBy:
        """Who has fenced a query of the flow; both times in monotonic seconds.

        Others have, where the group says after the fencing that this process is a member still, and nobody has joined
        it lately: a process that the group puts out while it stands still between its look at the group and its fence
        (`planning.ownership`) fences as it wakes, and joins again, or ends. A group that cannot be reached says
        nothing: UNKNOWN, for the caller to ask again.
        """
        if self.is_alone:
            return FencedBy.OTHERS
        with self._lock:
            if self._flow_shares[str(flow)].lost_at > begun_at:
                return FencedBy.GROUP
        if self._confirmed_at <= fenced_at + _TELL_SECONDS:
            return FencedBy.UNKNOWN
        lately = max(begun_at, fenced_at - _WAKES_SECONDS)
        return FencedBy.GROUP if min(self._shared_at, self._joined_at) > lately else FencedBy.OTHERS

    def begin_query(self, flow: FlowName, run: str, process: str) -> None:
        """A new query, of that `run` and `process` id, waits for its share of the flow."""
        with self._lock:
            self._flow_shares[str(flow)].begin_query(run, process)
        self._wake.set()

    def replace_run(self, flow: FlowName, run: str) -> bool:
        """Have the group go on as another run, since a later one has replaced this one by the ledger; True once it
        does."""
        with self._lock:
            flow_share = self._flow_shares[str(flow)]
            is_news = flow_share.on_run_replaced(run)
            self._due |= is_news
            is_over = flow_share.assignment.run != run
        if is_news:
            log.info("%s: a later run has replaced this one; the group of processes begins another", flow)
            self._wake.set()
        return is_over

    def leave(self, *, have_ended: bool = False) -> None:
        """Leaves the group, so that others can take this process's tasks at once; `have_ended` says that none of them
        still runs."""
        self._have_ended = have_ended
        self._stopping.set()
        self._wake.set()
        self._thread.join(_LEAVE_SECONDS_MAX)

    # On the group's own thread.

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._poll()
                self._last_problem = ""
            except MembershipLost:
                self._on_membership_lost()
            except AuthorizationFailed as problem:
                if not self._first.is_set():
                    self._work_alone(problem)
                    return
                self._recover(problem)
            except SparkMirrorError as problem:
                self._recover(problem)
            except Exception as problem:  # a thread that ended here would neither take tasks nor let them go
                self._recover(SparkMirrorError(describe_unexpected(problem)))
            self._wake.wait(self._pause_seconds())
            self._wake.clear()
        if self._membership is not None:
            with suppress(SparkMirrorError):
                self._send_final_shares(self._membership)
            with suppress(SparkMirrorError):
                self._membership.leave()
        self._open.close()

    def _pause_seconds(self) -> float:
        if self._awaits_planner():
            return _POLL_SECONDS
        seconds = self._heartbeat_seconds()
        return to_the_second(min(seconds, RECOVER_SECONDS) if self._last_problem else seconds)

    def _send_final_shares(self, membership: Membership) -> None:
        for flow_share in self._flow_shares.values() if self._have_ended else ():
            with self._lock:
                share = flow_share.final_share(membership.member_id)
            if share is not None:
                self._publish(flow_share.flow, share)

    def _poll(self) -> None:
        membership = self._connect()
        self._remove_dead_neighbours(membership)
        if not membership.member_id:
            self._send_shares(membership)
        if self._due or not self._heartbeat(membership):
            self._join(membership)
        self._send_shares(membership)
        self._read_answers()

    def _heartbeat(self, membership: Membership) -> bool:
        """Send a heartbeat where one is due; False when the group is rebalancing and this process must join again."""
        if time.monotonic() - self._heartbeat_at < self._heartbeat_seconds() / 2:
            return True
        asked_at = self._heartbeat_at = time.monotonic()
        may_stay = membership.heartbeat()
        self._confirmed_at = asked_at
        return may_stay

    def _heartbeat_seconds(self) -> float:
        with self._lock:
            is_whole = all(
                len(flow_share.assignment.tasks) == flow_share.flow.tasks_max
                for flow_share in self._flow_shares.values()
            )
        return lone_heartbeat_seconds(self._session_timeout_ms) if is_whole else SHARED_HEARTBEAT_SECONDS

    def _connect(self) -> Membership:
        if self._admin is None:
            self._admin = self._open.enter_context(open_admin(self._target, own_mark()))
            if self._membership is None:
                self._membership = Membership(self._admin, SHARING_GROUP, self._session_timeout_ms)
            self._membership.reconnect(self._admin)
        assert self._membership is not None
        return self._membership

    def _recover(self, problem: SparkMirrorError) -> None:
        """Close all connections, to connect again at the next poll. The tasks keep running: if the group removes this
        process meanwhile, it learns so when it reaches the cluster again."""
        self._open.close()
        self._admin = self._publisher = self._tail = None
        self._heartbeat_at = 0.0  # the next one is due at once: the session goes on
        self._refused = problem
        if str(problem) != self._last_problem:
            self._last_problem = str(problem)
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
            for flow_share in self._flow_shares.values():
                flow_share.assignment = MemberAssignment(
                    str(flow_share.flow.name), f"{ALONE}{uuid4().hex[:12]}", frozenset(range(flow_share.flow.tasks_max))
                )
        self._first.set()

    def _remove_dead_neighbours(self, membership: Membership) -> None:
        """Removes members whose process on this machine has died, so that nobody waits for their session to time out.
        Each member that joins makes all others join again, so the list of members is read only then."""
        if time.monotonic() - self._looked_at < _NEIGHBOURS_SECONDS:
            return
        self._looked_at = time.monotonic()
        if self._peers is None or not membership.member_id:
            self._peers = membership.peers()
        if len(self._peers) > 1:
            self._shared_at = self._looked_at
        for peer in [one for one in self._peers if is_dead_neighbour(one.client_id)]:
            log.info("%s: %s has died; its tasks are free", self._target.alias, peer.client_id)
            membership.leave(peer.member_id)
            self._peers.remove(peer)

    def _join(self, membership: Membership) -> None:
        with self._lock:
            claims = tuple(flow_share.claim() for flow_share in self._flow_shares.values())
        self._due = False
        self._peers = None
        metadata = MemberMetadata(socket.gethostname(), getpid(), self._file, claims)
        try:
            assignments = decode_assignments(membership.join(encode_metadata(metadata), self._plan))
        except SparkMirrorError:
            self._due = True
            raise
        self._joined_at = time.monotonic()
        with self._lock:
            by_flow = {one.flow: one for one in assignments}
            for name, flow_share in self._flow_shares.items():
                assignment = by_flow.get(name, MemberAssignment(name, flow_share.assignment.run))
                for sentence in flow_share.on_assignment(assignment):
                    log.info("%s: %s", name, sentence)
        self._first.set()

    def _plan(self, joined: Mapping[str, bytes]) -> dict[str, bytes]:
        """As the group's leader: assignments by member id, from the members' metadata."""
        decoded = {member: decode_metadata(data) for member, data in joined.items()}
        members = {member: metadata for member, metadata in decoded.items() if metadata is not None}
        assignments = plan_shares(members, uuid4().hex[:12])
        for claim, held in plan_fencing(members, assignments).items():
            self._fence(claim, held)
        return {member: encode_assignments(some) for member, some in assignments.items()}

    def _fence(self, claim: Claim, held: frozenset[int]) -> None:
        """Fence the transactional ids of all tasks but `held`, so that a process that was asleep or cut off, and still
        runs them, can no longer write."""
        assert self._admin is not None
        connector = Connector(claim.flow.partition("->")[0], claim.group, claim.connector)
        with suppress(AuthorizationFailed, NoTransactionCoordinator):  # the planner or `sync.fencing_job` reports these
            known = used_tasks(self._admin, connector) | set(range(claim.tasks))
            # A task also writes under the higher numbers congruent to its own modulo `tasks.max` (`planning.fencing`).
            tasks = {number for number in known if number % claim.tasks not in held}
            with ThreadPoolExecutor(_FENCED_AT_ONCE) as pool:  # all within the session timeout of the group's leader
                names = [transactional_id(connector, task) for task in sorted(tasks)]
                for _ in pool.map(lambda name: self._fence_id(name, claim.transaction_timeout_ms), names):
                    pass

    def _fence_id(self, name: str, timeout_ms: int) -> None:
        assert self._admin is not None
        with suppress(TransactionUnfinished):  # the abort that is under way fences too
            init_producer_ids(self._admin, [name], timeout_ms)

    def _send_shares(self, membership: Membership) -> None:
        for flow_share in self._flow_shares.values():
            with self._lock:
                share = flow_share.next_share(membership.member_id)
                added = flow_share.added(share) if share is not None else frozenset()
            if share is not None:
                if added:
                    self._apply(self._follow().read_to_end(_CATCH_UP_SECONDS_MAX))
                    is_free = self._predecessors.have_ended(_commands(flow_share.flow), share, added)
                    share = replace(share, at_once=is_free)
                self._publish(flow_share.flow, share)
                with self._lock:
                    flow_share.mark_sent(share)

    def _publish(self, flow: FlowConfig, share: Share) -> None:
        if self._publisher is None:
            self._publisher = self._open.enter_context(Publisher(self._target, "commands", 5.0))
        self._publisher.write(_commands(flow), [command_record(share)])

    def _read_answers(self) -> None:
        """Read which shares the planners follow by now, while one is awaited; the tasks that they have released are
        free for others."""
        if not self._awaits_planner():
            return
        self._apply(self._follow().poll(_POLL_SECONDS))
        if self._due:
            self._wake.set()

    def _follow(self) -> TopicTail:
        if self._tail is None:
            topics = [TopicPartition(_commands(flow_share.flow), 0) for flow_share in self._flow_shares.values()]
            self._tail = self._open.enter_context(open_tail(self._target, "sharing", topics))
        return self._tail

    def _apply(self, records: Sequence[TailRecord]) -> None:
        for record in records:
            command = decode_command(record.value)
            if isinstance(command, Share):
                self._predecessors.note(record.partition.topic, command)
            elif isinstance(command, Began):
                self._predecessors.note_began(record.partition.topic, command)
                with self._lock:
                    for flow_share in self._flow_shares.values():
                        self._due |= flow_share.on_began(command)

    def _awaits_planner(self) -> bool:
        with self._lock:
            return any(flow_share.awaits_planner for flow_share in self._flow_shares.values())

    def _on_membership_lost(self) -> None:
        """The group has removed this process; others have fenced its tasks and run them. Stop them and join again."""
        log.warning(
            "%s: the group of processes has gone on without this one, which stops its tasks and joins again",
            self._target.alias,
        )
        self._due = True
        with self._lock:
            for flow_share in self._flow_shares.values():
                flow_share.on_membership_lost(time.monotonic())
        self._wake.set()


def _commands(flow: FlowConfig) -> str:
    return flow.ledger_topics.commands
