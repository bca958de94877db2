"""Control-plane connections to the session's two clusters, for the jobs between them."""

from collections.abc import Iterator

import pytest

from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin
from sparkmirror.model import Cluster
from sparkmirror.testing.kafka import KafkaCluster


@pytest.fixture
def source(source_cluster: KafkaCluster) -> Iterator[Admin]:
    with open_admin(Cluster("A", {"bootstrap.servers": source_cluster.bootstrap_servers}), "test") as opened:
        yield opened


@pytest.fixture
def target(target_cluster: KafkaCluster) -> Iterator[Admin]:
    with open_admin(Cluster("B", {"bootstrap.servers": target_cluster.bootstrap_servers}), "test") as opened:
        yield opened
