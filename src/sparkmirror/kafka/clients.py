"""Opens the clients of a cluster: `open_admin` for the control plane, `open_tail` and `TopicFollower` for small
topics."""

import time
from collections.abc import Sequence

from sparkmirror.errors import ClusterError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.connection import ClusterConnection
from sparkmirror.kafka.settings import client_settings
from sparkmirror.kafka.tail import FOLLOWING_WAIT_SECONDS, WAIT_SECONDS, TailRecord, TopicTail
from sparkmirror.model import Cluster, TopicPartition


def open_admin(cluster: Cluster, role: str) -> Admin:
    """Connects to `cluster`; `role` names the caller, such as `topics`, and ends the client id.

    Raises ConfigError at once, AuthenticationFailed as soon as TLS or SASL refuses us, and ClusterUnreachable after 10
    s. A caller that lives long reopens it after ClusterUnreachable: that is how moved addresses are found again.
    """
    return Admin(ClusterConnection(client_settings(cluster, role)))


class OpenAdmins:
    """The connections of one `role` to clusters, each opened when it is first asked for, as by `open_admin`."""

    def __init__(self, role: str) -> None:
        self._role = role
        self._open: dict[str, Admin] = {}

    def of(self, cluster: Cluster) -> Admin:
        admin = self._open.get(cluster.alias)
        if admin is None:
            admin = self._open[cluster.alias] = open_admin(cluster, self._role)
        return admin

    def close(self) -> None:
        """They are opened again when they are asked for: addresses may have moved."""
        for admin in self._open.values():
            admin.close()
        self._open.clear()


def open_tail(
    cluster: Cluster,
    role: str,
    partitions: Sequence[TopicPartition],
    wait_seconds: float = WAIT_SECONDS,
    *,
    is_internal: bool = True,
    read_committed: bool = True,
) -> TopicTail:
    """Reads `partitions` from the beginning; raises what `open_admin` raises.

    `wait_seconds`, `is_internal` and `read_committed` are as in TopicTail; FOLLOWING_WAIT_SECONDS suits callers that
    poll now and then and never seek.
    """
    settings = client_settings(cluster, role)
    return TopicTail(settings, partitions, wait_seconds, is_internal=is_internal, read_committed=read_committed)


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
        """All records at first, later the new ones; a missing topic is looked for every five seconds.

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
        try:
            while self._tail.may_have_news and (some := self._tail.poll(0.0)):
                found += some
        except ClusterError:
            if not found:
                raise  # else the next call does: the tail is behind what was found
        return found
