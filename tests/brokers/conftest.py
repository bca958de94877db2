"""Control-plane connections to the session's two clusters, for the jobs between them; and Spark, for flows with
transforms."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin
from sparkmirror.model import Cluster
from sparkmirror.spark.session import launch_context, open_record_session, open_session
from sparkmirror.testing.kafka import KafkaCluster


@pytest.fixture
def source(source_cluster: KafkaCluster) -> Iterator[Admin]:
    with open_admin(Cluster("A", {"bootstrap.servers": source_cluster.bootstrap_servers}), "test") as opened:
        yield opened


@pytest.fixture
def target(target_cluster: KafkaCluster) -> Iterator[Admin]:
    with open_admin(Cluster("B", {"bootstrap.servers": target_cluster.bootstrap_servers}), "test") as opened:
        yield opened


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    context = launch_context(1, tmp_path_factory.mktemp("spark"))
    try:
        yield open_record_session(open_session(context))
    finally:
        context.stop()
