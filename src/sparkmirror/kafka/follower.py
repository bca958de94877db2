"""Follows a topic of one partition that may come into being later. Used by `sync.offset_state` and `web.watchers`."""

import time
from collections.abc import Sequence

from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_tail
from sparkmirror.kafka.tail import FOLLOWING_WAIT_SECONDS, TailRecord, TopicTail
from sparkmirror.model import Cluster, TopicPartition

_DRAIN_SECONDS = 0.05
_LOOK_SECONDS = 5.0


class TopicFollower:
    """For one thread. `admin`, which stays the caller's, says whether the topic is there."""

    def __init__(self, cluster: Cluster, admin: Admin, topic: str, role: str) -> None:
        self._cluster = cluster
        self._admin = admin
        self._topic = topic
        self._role = role
        self._tail: TopicTail | None = None
        self._look_at = 0.0

    def close(self) -> None:
        if self._tail is not None:
            self._tail.close()

    def read(self) -> Sequence[TailRecord]:
        """At first all there is, later what is new; a topic that is not there is looked for every five seconds.

        Raises ClusterError.
        """
        if self._tail is None:
            if time.monotonic() < self._look_at:
                return ()
            self._look_at = time.monotonic() + _LOOK_SECONDS
            if not self._admin.list_topics([self._topic]):
                return ()
            where = [TopicPartition(self._topic, 0)]
            self._tail = open_tail(self._cluster, self._role, where, FOLLOWING_WAIT_SECONDS)
            return self._tail.read_to_end()
        found: list[TailRecord] = []
        while some := self._tail.poll(_DRAIN_SECONDS):
            found += some
        return found
