"""The group coordinator of a simulated cluster: the classic protocol with member ids that are given (KIP-62, KIP-394),
and who may commit offsets.

Source of the rules: org.apache.kafka.coordinator.group.classic of Apache Kafka 4.3.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kafka.protocol.admin import DescribeGroupsResponse, ListGroupsResponse
from kafka.protocol.consumer import HeartbeatResponse, JoinGroupResponse, LeaveGroupResponse, SyncGroupResponse
from tests.simulation.commits import GROUP_NOT_FOUND, CommittedOffsets
from tests.simulation.scheduler import World

Answer = Callable[[Any], None]
COMMIT, FETCH_OFFSETS, DELETE_OFFSETS = 8, 9, 47
JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE, LIST = 11, 12, 13, 14, 15, 16
GROUP_APIS = frozenset({JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE, LIST, COMMIT, FETCH_OFFSETS, DELETE_OFFSETS})
_OFFSET_APIS = frozenset({LIST, COMMIT, FETCH_OFFSETS, DELETE_OFFSETS})
LOADING_SECONDS = 0.15
"""How long a coordinator that has just become one reads its log."""
LOADING, COORDINATOR_UNAVAILABLE = 14, 15
NO_ERROR, NOT_COORDINATOR, ILLEGAL_GENERATION, UNKNOWN_MEMBER, REBALANCING, ID_REQUIRED = 0, 16, 22, 25, 27, 79
_FIRST_DELAY_SECONDS = 0.2
_EMPTY, _PREPARING, _COMPLETING, _STABLE = "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"


@dataclass(slots=True, eq=False)
class _Member:
    member_id: str
    client_id: str
    session_seconds: float
    rebalance_seconds: float
    metadata: bytes
    seen_at: float
    assignment: bytes = b""
    joining: Answer | None = None
    syncing: Answer | None = None


@dataclass(slots=True, eq=False)
class _Group:
    generation: int = 0
    state: str = _EMPTY
    leader: str = ""
    round: int = 0
    members: dict[str, _Member] = field(default_factory=dict)
    given: set[str] = field(default_factory=set)
    protocol_type: str = ""
    protocol: str = ""

    @property
    def is_there(self) -> bool:
        """Whether anybody has joined it; a group that only commits is one too."""
        return bool(self.generation or self.members or self.given)


class Groups:
    """All groups of a cluster. Answers through a function, since a join waits for the others."""

    def __init__(self, world: World, offsets: CommittedOffsets, note: Callable[[str], None]) -> None:
        """`offsets` are what they have committed; `note` hears of a `rebalance`."""
        self._note = note
        self._world = world
        self.offsets = offsets
        self.loading_until = self.commits_wait_until = 0.0
        """Until when the coordinator reads its log, and takes no commit of a client that is no member."""
        self._groups: dict[str, _Group] = {}
        self._ids = 0

    def handle(self, api: int, request: Any, client_id: str, answer: Answer) -> None:
        is_loading = self._world.now < self.loading_until
        if api == DESCRIBE:
            answer(refuse(api, request, LOADING) if is_loading else self._describe(request))
            return
        if api in _OFFSET_APIS:
            answer(self._answer_offsets(api, request, client_id, LOADING if is_loading else NO_ERROR))
            return
        group = self._groups.setdefault(request.group_id, _Group())
        if api == JOIN:
            self._join(group, request, client_id, answer)
        elif api == SYNC:
            self._sync(group, request, answer)
        elif api == HEARTBEAT:
            answer(HeartbeatResponse(throttle_time_ms=0, error_code=self._beat(group, request)))
        else:
            answer(self._leave(group, request))

    # Offsets.

    def _answer_offsets(self, api: int, request: Any, client_id: str, error: int) -> Any:
        if api == LIST:
            return self._list(error)
        if api == FETCH_OFFSETS:
            return self.offsets.fetch(request, client_id, error)
        if api == COMMIT:
            return self.offsets.commit(request, client_id, error or self._may_commit(request))
        group = self._groups.get(request.group_id, _Group())
        is_there = group.is_there or self.offsets.of(request.group_id)
        return self.offsets.delete(
            request, error or (NO_ERROR if is_there else GROUP_NOT_FOUND), is_subscribed=bool(group.members)
        )

    def _may_commit(self, request: Any) -> int:
        """A client that is no member may while there is none."""
        group = self._groups.get(request.group_id)
        generation = request.generation_id_or_member_epoch
        if generation < 0 and self._world.now < self.commits_wait_until:
            return COORDINATOR_UNAVAILABLE
        if group is None or not group.is_there:
            if generation < 0:
                return NO_ERROR
            return UNKNOWN_MEMBER if self.offsets.of(request.group_id) else ILLEGAL_GENERATION
        if generation < 0 and group.state == _EMPTY:
            return NO_ERROR
        if request.member_id not in group.members:
            return UNKNOWN_MEMBER
        if generation != group.generation:
            return ILLEGAL_GENERATION
        return REBALANCING if group.state == _COMPLETING else NO_ERROR

    def is_active(self, name: str) -> bool:
        return name in self._groups and bool(self._groups[name].members)

    def _list(self, error: int) -> Any:
        kind = ListGroupsResponse.ListedGroup
        names = {name for name, group in self._groups.items() if group.is_there}
        names |= {name for name in self.offsets.groups if self.offsets.of(name)}
        told = []
        for name in sorted(names) if not error else ():
            group = self._groups.get(name, _Group())
            told.append(
                kind(group_id=name, protocol_type=group.protocol_type, group_state=group.state, group_type="classic")
            )
        return ListGroupsResponse(throttle_time_ms=0, error_code=error, groups=told)

    # Joining.

    def _join(self, group: _Group, request: Any, client_id: str, answer: Answer) -> None:
        member = group.members.get(request.member_id)
        if member is None:
            if not request.member_id:
                self._ids += 1
                given = f"{client_id}-{self._ids:08x}"
                group.given.add(given)
                answer(_joined(ID_REQUIRED, member_id=given))
                return
            if request.member_id not in group.given:
                answer(_joined(UNKNOWN_MEMBER, member_id=request.member_id))
                return
            group.given.discard(request.member_id)
            group.protocol_type, group.protocol = request.protocol_type, request.protocols[0].name
            member = group.members[request.member_id] = _Member(
                request.member_id, client_id, request.session_timeout_ms / 1000, request.rebalance_timeout_ms / 1000,
                b"", self._world.now,
            )  # fmt: skip
            self._watch(group, member)
        metadata = bytes(request.protocols[0].metadata)
        is_known = metadata == member.metadata
        member.metadata, member.seen_at = metadata, self._world.now
        if group.state == _PREPARING:
            member.joining = answer
            self._complete_join(group)
        elif is_known and (group.state == _COMPLETING or (group.state == _STABLE and member.member_id != group.leader)):
            answer(self._join_answer(group, member))
        else:
            member.joining = answer
            self._prepare(group)

    def _prepare(self, group: _Group) -> None:
        """All are to join again, within the longest time that any of them has for it."""
        is_first = group.state == _EMPTY
        group.state = _PREPARING
        group.round += 1
        number = group.round
        for member in group.members.values():
            if member.syncing is not None:
                syncing, member.syncing = member.syncing, None
                syncing(_synced(REBALANCING))
        longest = max((one.rebalance_seconds for one in group.members.values()), default=0.0)
        if is_first:
            self._world.after(_FIRST_DELAY_SECONDS, lambda: self._complete_join(group, number))
        else:
            self._world.after(longest, lambda: self._complete_join(group, number))
            self._complete_join(group)

    def _complete_join(self, group: _Group, number: int = 0) -> None:
        """Once all have joined; or at the end of the time of round `number`, without those that have not."""
        if group.state != _PREPARING or (number and number != group.round):
            return
        if not number and (group.round == 1 or any(one.joining is None for one in group.members.values())):
            return
        group.members = {name: one for name, one in group.members.items() if one.joining is not None}
        group.generation += 1
        if not group.members:
            group.state = _EMPTY
            return
        group.state = _COMPLETING
        if group.leader not in group.members:
            group.leader = next(iter(group.members))
        for member in group.members.values():
            joining, member.joining, member.seen_at = member.joining, None, self._world.now
            assert joining is not None
            joining(self._join_answer(group, member))
        self._note("rebalance")

    def _join_answer(self, group: _Group, member: _Member) -> Any:
        kind = JoinGroupResponse.JoinGroupResponseMember
        is_leader = member.member_id == group.leader
        members = [
            kind(member_id=one.member_id, group_instance_id=None, metadata=one.metadata)
            for one in group.members.values()
        ]
        told = members if is_leader else []
        return _joined(NO_ERROR, group.generation, group.leader, member.member_id, told, group)

    def _sync(self, group: _Group, request: Any, answer: Answer) -> None:
        error = self._judge(group, request)
        if not error and group.state == _PREPARING:
            error = REBALANCING
        if error:
            answer(_synced(error))
            return
        member = group.members[request.member_id]
        if group.state == _STABLE:
            answer(_synced(NO_ERROR, member.assignment, group))
            return
        member.syncing = answer
        if member.member_id != group.leader:
            return
        planned = {one.member_id: bytes(one.assignment) for one in request.assignments}
        group.state = _STABLE
        for one in group.members.values():
            one.assignment = planned.get(one.member_id, b"")
            if one.syncing is not None:
                syncing, one.syncing = one.syncing, None
                syncing(_synced(NO_ERROR, one.assignment, group))

    # Staying and leaving.

    def _judge(self, group: _Group, request: Any) -> int:
        member = group.members.get(request.member_id)
        if member is None:
            return UNKNOWN_MEMBER
        if request.generation_id != group.generation:
            return ILLEGAL_GENERATION
        member.seen_at = self._world.now
        return NO_ERROR

    def _beat(self, group: _Group, request: Any) -> int:
        error = self._judge(group, request)
        return error or (REBALANCING if group.state == _PREPARING else NO_ERROR)

    def _leave(self, group: _Group, request: Any) -> Any:
        kind = LeaveGroupResponse.MemberResponse
        told = []
        for one in request.members:
            is_known = group.members.pop(one.member_id, None) is not None
            error = NO_ERROR if is_known or one.member_id in group.given else UNKNOWN_MEMBER
            group.given.discard(one.member_id)
            told.append(kind(member_id=one.member_id, group_instance_id=None, error_code=error))
            if is_known:
                self._gone(group)
        return LeaveGroupResponse(throttle_time_ms=0, error_code=NO_ERROR, members=told)

    def _gone(self, group: _Group) -> None:
        if not group.members:
            group.state, group.leader = _EMPTY, ""
            group.generation += 1
        elif group.state == _PREPARING:
            self._complete_join(group)
        else:
            self._prepare(group)

    def _watch(self, group: _Group, member: _Member) -> None:
        """A member that is not heard of for its session's time is put out."""

        def look() -> None:
            if group.members.get(member.member_id) is not member:
                return
            left = member.seen_at + member.session_seconds - self._world.now
            if left <= 0 and member.joining is None:
                del group.members[member.member_id]
                self._gone(group)
            else:
                self._world.after(max(left, 0.5), look)

        self._world.after(member.session_seconds, look)

    def _describe(self, request: Any) -> Any:
        kind = DescribeGroupsResponse.DescribedGroup
        told = []
        for name in request.groups:
            group = self._groups.get(name, _Group(state="Dead"))
            is_stable = group.state == _STABLE
            members = [
                kind.DescribedGroupMember(
                    member_id=one.member_id, group_instance_id=None, client_id=one.client_id, client_host="/localhost",
                    member_metadata=one.metadata if is_stable else b"",
                    member_assignment=one.assignment if is_stable else b"",
                )
                for one in group.members.values()
            ]  # fmt: skip
            told.append(
                kind(error_code=NO_ERROR, group_id=name, group_state=group.state, protocol_type=group.protocol_type,
                     protocol_data="", members=members, authorized_operations=set())
            )  # fmt: skip
        return DescribeGroupsResponse(throttle_time_ms=0, groups=told)


def refuse(api: int, request: Any, error: int) -> Any:
    """The answer of a broker that does not coordinate the group."""
    if api == JOIN:
        return _joined(error)
    if api == SYNC:
        return _synced(error)
    if api == HEARTBEAT:
        return HeartbeatResponse(throttle_time_ms=0, error_code=error)
    if api == LEAVE:
        return LeaveGroupResponse(throttle_time_ms=0, error_code=error, members=[])
    if api == LIST:  # each broker lists its own
        return ListGroupsResponse(throttle_time_ms=0, error_code=NO_ERROR, groups=[])
    if api in _OFFSET_APIS:
        nothing = CommittedOffsets(lambda _: UUID(int=0), lambda *_: None, lambda: 0.0)
        if api == COMMIT:
            return nothing.commit(request, "", error)
        if api == FETCH_OFFSETS:
            return nothing.fetch(request, "", error)
        return nothing.delete(request, error, is_subscribed=False)
    kind = DescribeGroupsResponse.DescribedGroup
    groups = [
        kind(error_code=error, group_id=name, group_state="", protocol_type="", protocol_data="", members=[],
             authorized_operations=set())
        for name in request.groups
    ]  # fmt: skip
    return DescribeGroupsResponse(throttle_time_ms=0, groups=groups)


def _joined(
    error: int, generation: int = -1, leader: str = "", member_id: str = "", members: list[Any] | None = None,
    group: _Group | None = None,
) -> Any:  # fmt: skip
    named = group or _Group()
    return JoinGroupResponse(
        throttle_time_ms=0, error_code=error, generation_id=generation, protocol_type=named.protocol_type,
        protocol_name=named.protocol, leader=leader, skip_assignment=False, member_id=member_id, members=members or [],
    )  # fmt: skip


def _synced(error: int, assignment: bytes = b"", group: _Group | None = None) -> Any:
    named = group or _Group()
    return SyncGroupResponse(
        throttle_time_ms=0, error_code=error, protocol_type=named.protocol_type, protocol_name=named.protocol,
        assignment=assignment,
    )  # fmt: skip
