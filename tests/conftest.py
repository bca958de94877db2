"""Fixtures of all tests. Brokers start once a session (a worker, under xdist): tests keep apart by topic names."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from sparkmirror.testing.kafka import KafkaCluster
from sparkmirror.testing.proxy import LongLink

FAR = LongLink(round_trip_seconds=0.06, window_bytes=1 << 20)

# How long an example takes says how busy the machine is, and nothing about the code.
settings.register_profile("mirror", deadline=None)
settings.load_profile("mirror")


class OneWorkerForClusters(LoadScopeScheduling):
    """Unit tests spread by file, all others run one after another on one worker.

    Tests with brokers and Spark would fight for the same cores, and would each start the session's clusters.
    """

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0] if nodeid.startswith("tests/unit/") else "clusters"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneWorkerForClusters:
    return OneWorkerForClusters(config, log)


@pytest.fixture(scope="session")
def source_cluster() -> Iterator[KafkaCluster]:
    """One broker, shared by all tests of the session: use `unique` names, change nothing cluster-wide.

    `bootstrap_servers_far` reaches it over a long link.
    """
    with KafkaCluster(name="source", far=FAR) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def target_cluster() -> Iterator[KafkaCluster]:
    """As source_cluster, the other end."""
    with KafkaCluster(name="target", far=FAR) as cluster:
        yield cluster


@pytest.fixture
def unique() -> Callable[[str], str]:
    """`unique("orders")` is a name no other test has: for topics, groups, transactional ids."""
    return lambda name: f"{name}-{uuid4().hex[:10]}"
