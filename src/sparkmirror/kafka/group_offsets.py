"""Committed offsets of consumer groups: read them, and commit as a simple consumer does, without being a member.

Requests are OffsetFetch and OffsetCommit (generation -1), by kafka-python's admin client. Used by `sync.source_group`
and `cli.lag`.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from kafka import TopicPartition as ClientPartition
from kafka.structs import OffsetAndMetadata

from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.errors import NO_ERROR, refusal, translate
from sparkmirror.model import NO_EPOCH, TopicPartition

_T = TypeVar("_T")
# 14 COORDINATOR_LOAD_IN_PROGRESS, 15 COORDINATOR_NOT_AVAILABLE, 16 NOT_COORDINATOR
_PASSING = frozenset({14, 15, 16})
_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """What a group has committed: the next offset to read, and the words that its author left with it."""

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_EPOCH


def read_group_offsets(admin: Admin, group: str) -> dict[TopicPartition, GroupOffset]:
    """All that `group` has committed; empty for a group that nobody knows. Raises ClusterError."""
    found = _patiently(
        admin,
        f"reading the offsets of group {group}",
        lambda: admin.connection.client.list_group_offsets({group: None})[group],
    )
    return {
        TopicPartition(where.topic, where.partition): GroupOffset(
            stored.offset, stored.metadata or "", NO_EPOCH if stored.leader_epoch is None else stored.leader_epoch
        )
        for where, stored in found.items()
        if stored.offset >= 0
    }


def commit_group_offsets(
    admin: Admin, group: str, offsets: Mapping[TopicPartition, GroupOffset]
) -> dict[TopicPartition, SparkMirrorError | None]:
    """Commits each partition; why not, or None. A group that has members refuses (UNKNOWN_MEMBER_ID).

    Raises ClusterError when no answer comes.
    """
    doing = f"committing offsets of group {group}"
    commits = {
        ClientPartition(where.topic, where.partition): OffsetAndMetadata(one.offset, one.metadata, one.leader_epoch)
        for where, one in offsets.items()
    }
    if not commits:
        return {}
    outcome = _patiently(admin, doing, lambda: _commit(admin, group, commits))
    return {
        TopicPartition(where.topic, where.partition): (
            None if error.errno == NO_ERROR else refusal(error.errno, admin.alias, f"{doing} for {where.topic}")
        )
        for where, error in outcome.items()
    }


def _commit(admin: Admin, group: str, commits: Mapping[Any, Any]) -> Mapping[Any, Any]:
    outcome: Mapping[Any, Any] = admin.connection.client.alter_group_offsets(group, commits)
    for error in outcome.values():
        if error.errno in _PASSING:
            raise error
    return outcome


def _patiently(admin: Admin, doing: str, ask: Callable[[], _T]) -> _T:
    """What `ask` returns, asked again while the group's coordinator is on its way, up to `request.timeout.ms`.

    A cluster's first group takes a moment: the topic of all groups' offsets is created then.
    """
    ends_at = time.monotonic() + admin.connection.settings.request_timeout_seconds
    while True:
        try:
            return ask()
        except Exception as error:
            late = time.monotonic() + _PAUSE_SECONDS > ends_at
            if getattr(error, "errno", NO_ERROR) not in _PASSING or late or admin.connection.wait(_PAUSE_SECONDS):
                raise translate(error, admin.connection.settings, doing) from error
            admin.connection.forget_coordinators()
