"""Which permissions a running flow lacks, told in a sentence each: what is left out for want of one would be missed
too late. Run by `runtime.leader_jobs`; the sentences are those of `doctor`.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from typing import Final

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.config.flow.offsets import HeartbeatSettings
from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.admin import NEW_PARTITIONS_PER_REQUEST
from sparkmirror.kafka.clients import open_admin
from sparkmirror.operations.right_checks import check_heartbeat_rights, check_rights
from sparkmirror.views.findings import Finding, Level

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 5.0
_LACKING_SECONDS: Final = 15.0
"""Between two looks while something is missing: who grants it waits to hear that it is."""
_CONTENT_SECONDS: Final = 300.0
_GROUPS_MAX: Final = 100
"""Brokers describe a group with all its members to tell our rights on it: a few show what is granted."""


class RightsJob:
    """Looks soon after the start and every five minutes, or more often while something is missing."""

    def __init__(self, flow: FlowConfig, heartbeats: Sequence[HeartbeatSettings] = ()) -> None:
        self._flow = flow
        self._heartbeats = heartbeats
        self._lacking: set[tuple[str, str, str]] = set()
        self._unseen: set[tuple[str, str, str]] = set()
        self._due_at = 0.0

    def __call__(self) -> None:
        """A cluster that does not answer is told by the other jobs, and asked again soon. Raises ClusterError."""
        if time.monotonic() < self._due_at:
            return
        self._due_at = time.monotonic() + _LACKING_SECONDS
        try:
            found = [one for one in self._look() if one.level is not Level.OK]
        except ClusterUnreachable:
            return
        lacking = {(one.where, one.said, one.hint) for one in found if one.what == "permissions"}
        unseen = {(one.where, one.said, one.hint) for one in found if one.what == "topics"}
        for told in sorted(lacking - self._lacking):
            log.warning("%s: %s: %s; %s.", self._flow.name, *told)
        for told in sorted(unseen - self._unseen):
            log.info("%s: %s: %s; %s.", self._flow.name, *told)  # there may be none, as on a new cluster
        if self._lacking and not lacking:
            log.info("%s: all permissions are granted now.", self._flow.name)
        self._lacking, self._unseen = lacking, unseen
        if not lacking:
            self._due_at = time.monotonic() + _CONTENT_SECONDS

    def _look(self) -> Iterator[Finding]:
        flow = self._flow
        with open_admin(flow.source, "permissions") as source, open_admin(flow.target, "permissions") as target:
            yield from check_rights(
                flow, source, target, new_partitions_max=NEW_PARTITIONS_PER_REQUEST, groups_max=_GROUPS_MAX
            )
        for settings in self._heartbeats:
            with open_admin(settings.target, "permissions") as admin:
                yield from check_heartbeat_rights(settings, admin)
