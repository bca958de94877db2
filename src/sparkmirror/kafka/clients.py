"""Opens the clients of a cluster: `open_admin` for the control plane, `open_tail` to read internal topics."""

from collections.abc import Sequence

from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.connection import ClusterConnection
from sparkmirror.kafka.settings import client_settings
from sparkmirror.kafka.tail import WAIT_SECONDS, TopicTail
from sparkmirror.model import Cluster, TopicPartition


def open_admin(cluster: Cluster, role: str) -> Admin:
    """Connects to `cluster`; `role` says who asks and ends the client id, such as `topics`.

    Raises ConfigError at once, AuthenticationFailed as soon as TLS or SASL refuses us, and ClusterUnreachable after
    10 s. A caller that lives long reopens it after ClusterUnreachable: that is how moved addresses are found again.
    """
    return Admin(ClusterConnection(client_settings(cluster, role)))


def open_tail(
    cluster: Cluster,
    role: str,
    partitions: Sequence[TopicPartition],
    wait_seconds: float = WAIT_SECONDS,
    *,
    is_internal: bool = True,
) -> TopicTail:
    """Reads `partitions` from the beginning, committed records only; raises what `open_admin` raises.

    `wait_seconds` and `is_internal` are as in TopicTail; FOLLOWING_WAIT_SECONDS suits who polls now and then and never
    seeks.
    """
    return TopicTail(client_settings(cluster, role), partitions, wait_seconds, is_internal=is_internal)
