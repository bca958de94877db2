"""Asks clusters side by side whether they answer: for commands that failed at one of them, or wait for one that may be
starting."""

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from sparkmirror.errors import ClusterUnreachable, SparkMirrorError
from sparkmirror.kafka.connection import ClusterConnection
from sparkmirror.kafka.settings import client_settings
from sparkmirror.model import Cluster

_SECONDS_MAX: Final = 1.5
_AT_ONCE: Final = 16


def find_unreachable(clusters: Collection[Cluster]) -> list[ClusterUnreachable]:
    """Why each cluster that does not answer does not, in their order; within two seconds or so."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return [problem for problem in pool.map(_ask, clusters) if problem is not None]


def _ask(cluster: Cluster) -> ClusterUnreachable | None:
    """A cluster that answers, if only to refuse us, can be reached."""
    try:
        ClusterConnection(client_settings(cluster, "reach"), _SECONDS_MAX).close()
    except ClusterUnreachable as problem:
        return problem
    except SparkMirrorError:
        return None
    return None
