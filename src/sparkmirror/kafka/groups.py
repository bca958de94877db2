"""Lists the groups of a cluster, tells which are active and what they committed, and commits for them.

Called by the offset job, `sync.source_group`, the CLI, and `runtime.run` before it starts a flow. Requests go to each
group's coordinator, many groups in one where the brokers know that (OffsetFetch v8, FindCoordinator v4: KIP-709,
KIP-699). States come from ListGroups v5, since kafka-python describes a live KIP-848 group as dead.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest

from sparkmirror.errors import ClusterError, SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.connection import portions, waits_within
from sparkmirror.kafka.coordinators import (
    BROKER_SECONDS_MAX,
    GROUP,
    ask_every_broker,
    find_coordinators,
    keys_per_search,
)
from sparkmirror.kafka.errors import (
    COORDINATOR_NOT_AVAILABLE,
    COORDINATOR_PASSING,
    NO_ERROR,
    RequestRefused,
    error_name,
    refusal,
)
from sparkmirror.kafka.group_answers import Committed, GroupListing, GroupOffsets
from sparkmirror.model import NO_EPOCH, TopicPartition

_OFFSET_FETCH = 9
_GROUPS_PER_REQUEST = 200
_PATIENCE_SECONDS = 0.4
_PAUSE_SECONDS = 0.1
UNKNOWN_MEMBER_ID = 25
_LISTING = "listing groups"
_NO_GROUP = frozenset({69})  # GROUP_ID_NOT_FOUND: nothing committed
_HAS_MEMBERS = frozenset({68, 86})  # NON_EMPTY_GROUP, GROUP_SUBSCRIBED_TO_TOPIC


class GroupIsActive(ClusterError):
    """The group has members: only they commit its offsets."""


class ListedGroups(NamedTuple):
    """The groups that their coordinators list, and for each coordinator that is loading what says that its own are
    missing."""

    groups: dict[str, GroupListing]
    missing: tuple[SparkMirrorError, ...]


def has_members(admin: Admin, group: str) -> bool:
    """Whether the group has live members; a coordinator that has just started and still loads the group is waited for.
    Raises ClusterError."""
    found = list_all_groups(admin).get(group)
    return found is not None and found.is_active


def list_members(admin: Admin, group: str) -> list[str]:
    """A classic group's members by client id and address, `connect-1 at 10.0.0.7`. Raises what `describe_group`
    raises."""
    members = describe_group(admin, group)
    return sorted(f"{member.client_id} at {member.client_host.removeprefix('/')}" for member in members)


def describe_group(admin: Admin, group: str) -> list[Any]:
    """A classic group's members as DescribeGroups has them, [] where it has none or is none.

    Its coordinator is waited for, `request.timeout.ms` at most: one that does not say is no empty group. Raises
    ClusterError.
    """
    doing = f"describing group {group}"
    ends_at = time.monotonic() + admin.connection.settings.request_timeout_seconds
    while True:
        home = find_coordinator(admin, group)
        described = admin.connection.ask(partial(_describe_request, group), doing, home)
        codes = {one.error_code for one in described.groups} - {NO_ERROR} - _NO_GROUP
        if not codes:
            return [member for one in described.groups for member in one.members]
        if codes - COORDINATOR_PASSING or not waits_within(admin.connection, _PAUSE_SECONDS, ends_at):
            raise refusal(max(codes), admin.alias, doing)


def find_coordinator(admin: Admin, group: str) -> int:
    """The node that coordinates the group, waited for where the topic of groups is made now. Raises ClusterError."""
    doing = f"looking for the coordinator of group {group}"
    ends_at = time.monotonic() + admin.connection.settings.request_timeout_seconds
    while True:
        home = _coordinators(admin, [group])[0]
        if home.error_code == NO_ERROR:
            return int(home.node_id)
        late = time.monotonic() > ends_at
        if home.error_code not in COORDINATOR_PASSING or late or admin.connection.wait(_PAUSE_SECONDS):
            raise refusal(home.error_code, admin.alias, doing, home.error_message)


def list_groups(admin: Admin) -> dict[str, GroupListing]:
    """All groups of the cluster, as their coordinators have them now; those of one that is loading may be missing.

    Raises ClusterError.
    """
    return list_groups_now(admin).groups


def list_groups_now(admin: Admin) -> ListedGroups:
    """As `list_groups`, for who says what is missing. Raises ClusterError."""
    return _list_everywhere(admin, _PATIENCE_SECONDS)


def list_all_groups(admin: Admin) -> dict[str, GroupListing]:
    """As `list_groups`, for who looks once: a coordinator that is loading is waited for, `request.timeout.ms` at most.

    Raises ClusterError, which names the broker whose groups would be missing.
    """
    found = _list_everywhere(admin, admin.connection.settings.request_timeout_seconds)
    for problem in found.missing:
        raise problem
    return found.groups


def _list_everywhere(admin: Admin, patience_seconds: float) -> ListedGroups:
    def ask(node_id: int) -> tuple[int, Any]:
        return node_id, _listed(admin, node_id, patience_seconds)

    groups: dict[str, GroupListing] = {}
    missing: list[SparkMirrorError] = []
    for node_id, answer in ask_every_broker(admin, ask, _LISTING):
        if answer.error_code in COORDINATOR_PASSING:
            missing.append(_is_loading(admin, node_id, answer.error_code))
        elif answer.error_code != NO_ERROR:
            raise refusal(answer.error_code, admin.alias, _LISTING)
        # A group that moves meanwhile may be listed twice: it has members if either broker says so.
        groups |= {one.name: one for one in _listings(answer) if one.is_active or one.name not in groups}
    return ListedGroups(groups, tuple(missing))


def _is_loading(admin: Admin, node_id: int, code: int) -> SparkMirrorError:
    host, port = admin.brokers().get(node_id, ("?", 0))
    return RequestRefused(
        f"Cluster {admin.alias}: broker {node_id} ({host}:{port}) does not list the groups that it coordinates "
        f"({error_name(code)}).",
        "It may still read its partitions of __consumer_offsets: run this again when its log says that it has.",
        code,
    )


def _listed(admin: Admin, node_id: int, patience_seconds: float) -> Any:
    """A broker's answer, which may have an error code; a passing one only when patience is at its end."""
    ends_at = time.monotonic() + patience_seconds
    while True:
        answer = admin.connection.ask(lambda: ListGroupsRequest(max_version=5), _LISTING, node_id, BROKER_SECONDS_MAX)
        if answer.error_code not in COORDINATOR_PASSING or not waits_within(admin.connection, _PAUSE_SECONDS, ends_at):
            return answer


def _listings(answer: Any) -> Iterator[GroupListing]:
    for group in answer.groups:
        kind, state = group.group_type or "", group.group_state or ""
        yield GroupListing(group.group_id, group.protocol_type or "", state, kind)


def read_group_offsets(admin: Admin, group: str) -> GroupOffsets:
    """The committed offsets of `group`; empty for a group that does not exist. Raises ClusterError.

    The first group of a cluster takes a moment, because the topic of all groups' offsets is created then.
    """
    found, failed = GroupOffsetsClient(admin, admin.connection.settings.request_timeout_seconds).committed([group])
    for problem in failed.values():
        raise problem
    return found[group]


def commit_group_offsets(admin: Admin, group: str, offsets: GroupOffsets) -> dict[TopicPartition, SparkMirrorError]:
    """Commits all of `offsets`; what was refused, per partition. Raises GroupIsActive and ClusterError."""
    if not offsets:
        return {}
    return GroupOffsetsClient(admin, admin.connection.settings.request_timeout_seconds).commit(group, offsets)


def delete_group_offsets(admin: Admin, group: str, partitions: Iterable[TopicPartition]) -> None:
    """Forgets what the group has committed for `partitions`. Raises GroupIsActive where it has members, and
    ClusterError."""
    wanted = sorted(set(partitions))
    if not wanted:
        return
    doing = f"deleting offsets of group {group}"
    home = _coordinators(admin, [group])[0]
    if home.error_code != NO_ERROR:
        raise refusal(home.error_code, admin.alias, doing, home.error_message)
    deleted = admin.connection.ask(partial(_delete_request, group, wanted), doing, home.node_id)
    codes = {deleted.error_code, *(code for _, code in _codes(deleted))} - {NO_ERROR} - _NO_GROUP
    if codes & _HAS_MEMBERS:
        raise _is_active(admin, group)
    if codes:
        raise refusal(min(codes), admin.alias, doing)


def _is_active(admin: Admin, group: str) -> GroupIsActive:
    return GroupIsActive(f"Group {group} is active on {admin.alias}: only its members commit its offsets.")


class GroupOffsetsClient:
    """Reads and commits offsets of groups; remembers their coordinators. May be used by several threads."""

    def __init__(self, admin: Admin, patience_seconds: float = _PATIENCE_SECONDS) -> None:
        """A coordinator that is on its way is waited for so long. A round of many groups better comes again."""
        self._admin = admin
        self._patience_seconds = patience_seconds
        self._coordinators: dict[str, int] = {}
        versions = admin.api_versions()
        self._groups_per_fetch = _GROUPS_PER_REQUEST if versions[_OFFSET_FETCH][1] >= 8 else 1
        self._groups_per_search = keys_per_search(admin, _GROUPS_PER_REQUEST)

    def committed(self, groups: Iterable[str]) -> tuple[dict[str, GroupOffsets], dict[str, SparkMirrorError]]:
        """Committed offsets per group ({} where there are none), and what kept us from reading the others."""
        waiting = sorted(set(groups))
        found: dict[str, GroupOffsets] = {}
        failed: dict[str, SparkMirrorError] = {}
        for _ in self._attempts() if waiting else ():
            failed.update(self._find_coordinators(waiting))
            waiting = [group for group in waiting if group not in failed]
            again: list[str] = []
            for node_id, some in self._by_coordinator(waiting):
                for group, code, offsets in self._fetch(node_id, some):
                    if code in COORDINATOR_PASSING:
                        self._coordinators.pop(group, None)
                        again.append(group)
                    elif code in _NO_GROUP or code == NO_ERROR:
                        found[group] = offsets
                    else:
                        failed[group] = refusal(code, self._admin.alias, f"reading the offsets of group {group}")
            waiting = again + [group for group in waiting if group not in self._coordinators and group not in again]
            if not waiting:
                break
        for group in waiting:
            doing = f"reading the offsets of group {group}"
            failed.setdefault(group, refusal(COORDINATOR_NOT_AVAILABLE, self._admin.alias, doing))
        return found, failed

    def commit(self, group: str, offsets: GroupOffsets) -> dict[TopicPartition, SparkMirrorError]:
        """Commits without being a member, which brokers allow while the group has none; returns the refusals by
        partition.

        Raises GroupIsActive, and ClusterError for the whole.
        """
        doing = f"committing offsets of group {group}"
        code = NO_ERROR
        for _ in self._attempts():
            for problem in self._find_coordinators([group]).values():
                raise problem
            if group not in self._coordinators:
                code = COORDINATOR_NOT_AVAILABLE
                continue
            answer = self._admin.connection.ask(
                partial(_commit_request, group, offsets), doing, self._coordinators[group]
            )
            codes = dict(_codes(answer))
            if not set(codes.values()) & COORDINATOR_PASSING:
                return self._refusals(group, codes, doing)
            code = next(iter(set(codes.values()) & COORDINATOR_PASSING))
            self._coordinators.pop(group, None)
        raise refusal(code, self._admin.alias, doing)

    def _attempts(self) -> Iterator[None]:
        ends_at = time.monotonic() + self._patience_seconds
        yield
        while waits_within(self._admin.connection, _PAUSE_SECONDS, ends_at):
            yield

    def _refusals(
        self, group: str, codes: Mapping[TopicPartition, int], doing: str
    ) -> dict[TopicPartition, SparkMirrorError]:
        if UNKNOWN_MEMBER_ID in codes.values():
            raise _is_active(self._admin, group)
        return {
            partition: refusal(code, self._admin.alias, f"{doing} ({partition})")
            for partition, code in codes.items()
            if code != NO_ERROR
        }

    def _find_coordinators(self, groups: Sequence[str]) -> dict[str, SparkMirrorError]:
        """Looks up coordinators that are not known yet; one that is away for the moment is left for the next
        attempt."""
        unknown = [group for group in groups if group not in self._coordinators]
        failed: dict[str, SparkMirrorError] = {}
        for some in portions(unknown, self._groups_per_search):
            for group, found in zip(some, _coordinators(self._admin, some), strict=False):
                name = getattr(found, "key", None) or group
                if found.error_code == NO_ERROR:
                    self._coordinators[name] = found.node_id
                elif found.error_code not in COORDINATOR_PASSING:
                    doing = f"looking for the coordinator of group {name}"
                    failed[name] = refusal(found.error_code, self._admin.alias, doing, found.error_message)
        return failed

    def _by_coordinator(self, groups: Iterable[str]) -> Iterator[tuple[int, Sequence[str]]]:
        homes: dict[int, list[str]] = defaultdict(list)
        for group in groups:
            if group in self._coordinators:
                homes[self._coordinators[group]].append(group)
        for node_id, some in homes.items():
            for portion in portions(some, self._groups_per_fetch):
                yield node_id, portion

    def _fetch(self, node_id: int, groups: Sequence[str]) -> Iterator[tuple[str, int, dict[TopicPartition, Committed]]]:
        answer = self._admin.connection.ask(partial(_fetch_request, groups), "reading groups' offsets", node_id)
        if not answer.groups:
            yield groups[0], answer.error_code or NO_ERROR, _offsets(answer.topics)
        for group in answer.groups or ():
            yield group.group_id, group.error_code, _offsets(group.topics)


def _offsets(topics: Iterable[Any]) -> dict[TopicPartition, Committed]:
    """Offsets that a foreign client reset to -1 are none."""
    return {
        TopicPartition(topic.name, one.partition_index): Committed(
            one.committed_offset,
            one.metadata or "",
            NO_EPOCH if one.committed_leader_epoch is None else one.committed_leader_epoch,
        )
        for topic in topics or ()
        for one in topic.partitions
        if one.error_code == NO_ERROR and one.committed_offset >= 0
    }


def _coordinators(admin: Admin, groups: Sequence[str]) -> Sequence[Any]:
    return find_coordinators(admin, GROUP, groups, "looking for coordinators")


def _describe_request(group: str) -> Any:
    return DescribeGroupsRequest(groups=[group], include_authorized_operations=False, max_version=5)


def _fetch_request(groups: Sequence[str]) -> Any:
    # Version 10 would ask by topic id.
    wanted = OffsetFetchRequest.OffsetFetchRequestGroup
    return OffsetFetchRequest(
        group_id=groups[0],
        topics=None,
        groups=[wanted(group_id=group, topics=None) for group in groups],
        require_stable=False,
        max_version=9,
    )


def _commit_request(group: str, offsets: GroupOffsets) -> Any:
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = topic.OffsetCommitRequestPartition
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for where, committed in offsets.items():
        by_topic[where.topic].append(
            partition(
                partition_index=where.partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[topic(name=name, partitions=some) for name, some in by_topic.items()],
        max_version=9,
    )


def _delete_request(group: str, partitions: Iterable[TopicPartition]) -> Any:
    topic = OffsetDeleteRequest.OffsetDeleteRequestTopic
    partition = topic.OffsetDeleteRequestPartition
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for where in partitions:
        by_topic[where.topic].append(partition(partition_index=where.partition))
    topics = [topic(name=name, partitions=some) for name, some in by_topic.items()]
    return OffsetDeleteRequest(group_id=group, topics=topics)


def _codes(answer: Any) -> Iterator[tuple[TopicPartition, int]]:
    for topic in answer.topics:
        for one in topic.partitions:
            yield TopicPartition(topic.name, one.partition_index), one.error_code
