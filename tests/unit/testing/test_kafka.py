"""KafkaCluster before it starts: what it says to those who are too early, or have no Java."""

from pathlib import Path

import pytest

from sparkmirror.errors import EnvironmentProblem, SparkMirrorError
from sparkmirror.testing import jars, warm_start
from sparkmirror.testing.kafka import KafkaCluster


def test_a_cluster_that_is_not_started_has_no_address() -> None:
    cluster = KafkaCluster(name="early")
    with pytest.raises(SparkMirrorError, match="embedded cluster early is not started"):
        _ = cluster.bootstrap_servers
    cluster.close()


def test_a_cluster_without_tls_has_no_authority() -> None:
    with pytest.raises(SparkMirrorError, match="has no TLS") as caught:
        _ = KafkaCluster().ca_file
    assert caught.value.hint == "pass tls=True"


def test_without_java_a_cluster_is_an_environment_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for cached in (jars.fetch, warm_start.warm_start):
        cached.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(EnvironmentProblem, match="No Java was found") as caught, KafkaCluster():
        pass
    assert "install a Java 17" in caught.value.hint


def test_every_cluster_has_an_id_of_its_own_that_no_tool_takes_for_an_option() -> None:
    ids = {KafkaCluster().cluster_id for _ in range(200)}
    assert len(ids) == 200
    assert all(len(id_) == 22 and not id_.startswith("-") for id_ in ids)
