"""One member of a group of Kafka's classic group protocol (KIP-62, KIP-394), with a protocol type of our own.

Used by `sharing.group` to share flows between processes, and by callers that list the processes.
Requests are JoinGroup, SyncGroup, Heartbeat, LeaveGroup and DescribeGroups, to the group's coordinator.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from kafka.protocol.consumer import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

from sparkmirror.errors import ClusterError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.errors import COORDINATOR_PASSING, NO_ERROR, refusal
from sparkmirror.kafka.groups import describe_group, find_coordinator

PROTOCOL_TYPE = "sparkmirror"
_PROTOCOL = "shares-1"
_LOST = frozenset({22, 25})  # ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID
_REBALANCE_IN_PROGRESS = 27
_MEMBER_ID_REQUIRED = 79
_PAUSE_SECONDS = 0.1
_PATIENCE_SECONDS = 30.0
_HEARTBEAT_SECONDS_MAX = 3.0

Planner = Callable[[Mapping[str, bytes]], Mapping[str, bytes]]
"""Plans from every member's metadata its assignment, both by member id; called in one member only."""


class MembershipLost(ClusterError):
    """The group has gone on without this member."""


class Peer(NamedTuple):
    """A member as the coordinator describes it; without metadata and assignment while the group is rebalanced."""

    member_id: str
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class Membership:
    """Joins a group, heartbeats and leaves. For one thread; it has a connection of its own, since a join may take
    seconds."""

    def __init__(self, admin: Admin, group: str, session_timeout_ms: int) -> None:
        self._admin = admin
        self._group = group
        self._session_timeout_ms = session_timeout_ms
        self._coordinator: int | None = None
        self._generation = -1
        self.member_id = ""

    def reconnect(self, admin: Admin) -> None:
        """Go on over another connection: the member stays the same."""
        self._admin, self._coordinator = admin, None

    def join(self, metadata: bytes, plan: Planner) -> bytes:
        """A round of the group: returns this member's assignment. Raises MembershipLost and ClusterError."""
        doing = f"joining group {self._group}"
        seconds = max(_PATIENCE_SECONDS, 2 * self._session_timeout_ms / 1000)  # a dead member is waited for
        while True:
            joined = self._ask(partial(self._join_request, metadata), doing, seconds)
            if joined.error_code == _MEMBER_ID_REQUIRED:
                self.member_id = joined.member_id
                continue
            self._check(joined.error_code, doing)
            self.member_id, self._generation = joined.member_id, joined.generation_id
            planned: Mapping[str, bytes] = {}
            if joined.leader == self.member_id:
                planned = plan({member.member_id: bytes(member.metadata) for member in joined.members})
            synced = self._ask(partial(self._sync_request, planned), doing, seconds)
            if synced.error_code != _REBALANCE_IN_PROGRESS:
                self._check(synced.error_code, doing)
                return bytes(synced.assignment)

    def heartbeat(self) -> bool:
        """Tells that this member lives; False when the group is being rebalanced, so that it must join again.

        Raises MembershipLost and ClusterError.
        """
        doing = f"staying in group {self._group}"
        answer = self._ask(self._heartbeat_request, doing, wait_seconds_max=_HEARTBEAT_SECONDS_MAX)
        if answer.error_code == _REBALANCE_IN_PROGRESS:
            return False
        self._check(answer.error_code, doing)
        return True

    def leave(self, member_id: str = "") -> None:
        """Takes this member out of the group at once, or another one that is known to be dead. Raises ClusterError."""
        leaving = member_id or self.member_id
        if not leaving:
            return
        answer = self._ask(partial(self._leave_request, leaving), f"leaving group {self._group}", wait_seconds_max=2.0)
        if not member_id:
            self.member_id, self._generation = "", -1
        codes = {answer.error_code, *(member.error_code for member in answer.members or ())}
        if unexpected := codes - _LOST - {NO_ERROR}:
            raise refusal(min(unexpected), self._admin.alias, f"leaving group {self._group}")

    def peers(self) -> list[Peer]:
        """All members of the group now. Raises ClusterError."""
        return list_peers(self._admin, self._group)

    def _check(self, code: int, doing: str) -> None:
        if code in _LOST:
            self.member_id, self._generation = "", -1
            raise MembershipLost(f"{doing}: the group has gone on without this process.")
        if code != NO_ERROR:
            raise refusal(code, self._admin.alias, doing)

    def _ask(self, make_request: Callable[[], Any], doing: str, wait_seconds_max: float = _PATIENCE_SECONDS) -> Any:
        """Asks the coordinator, and looks it up again where it has moved."""
        ends_at = time.monotonic() + wait_seconds_max
        while True:
            if self._coordinator is None:
                self._coordinator = find_coordinator(self._admin, self._group)
            try:
                answer = self._admin.connection.ask(make_request, doing, self._coordinator, wait_seconds_max)
            except ClusterError:
                self._coordinator = None
                raise
            if answer.error_code not in COORDINATOR_PASSING or time.monotonic() > ends_at:
                return answer
            self._coordinator = None
            if self._admin.connection.wait(_PAUSE_SECONDS):
                return answer

    def _join_request(self, metadata: bytes) -> Any:
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name=_PROTOCOL, metadata=metadata)
        return JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._session_timeout_ms,
            member_id=self.member_id,
            group_instance_id=None,
            protocol_type=PROTOCOL_TYPE,
            protocols=[protocol],
            max_version=7,
        )

    def _sync_request(self, planned: Mapping[str, bytes]) -> Any:
        one = SyncGroupRequest.SyncGroupRequestAssignment
        return SyncGroupRequest(
            group_id=self._group,
            generation_id=self._generation,
            member_id=self.member_id,
            group_instance_id=None,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=_PROTOCOL,
            assignments=[one(member_id=member, assignment=data) for member, data in planned.items()],
            max_version=5,
        )

    def _heartbeat_request(self) -> Any:
        return HeartbeatRequest(
            group_id=self._group,
            generation_id=self._generation,
            member_id=self.member_id,
            group_instance_id=None,
            max_version=4,
        )

    def _leave_request(self, member_id: str) -> Any:
        member = LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=None)
        return LeaveGroupRequest(group_id=self._group, member_id=member_id, members=[member], max_version=4)


def list_peers(admin: Admin, group: str) -> list[Peer]:
    """All members of one of our groups now, [] when it has none. Raises ClusterError where its coordinator does not
    say."""
    return [
        Peer(
            one.member_id,
            one.client_id,
            one.client_host.removeprefix("/"),
            bytes(one.member_metadata),
            bytes(one.member_assignment),
        )
        for one in describe_group(admin, group)
    ]
