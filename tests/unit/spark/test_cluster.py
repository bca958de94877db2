"""What Spark is told for a cluster: executors for the tasks, memory for their Python, nothing that breaks a mirror."""

import pytest

from sparkmirror.errors import ConfigError
from sparkmirror.spark.cluster import (
    Demand,
    SparkCluster,
    master_kind,
    needs_encryption,
    needs_key,
    plan_cluster,
    read_settings,
)

STANDALONE, KUBERNETES = "spark://host:7077", "k8s://https://host:6443"
FIXED = {"spark.speculation": "false", "spark.driver.memory": "512m"}
DEMAND = Demand(tasks=5, ring_bytes=32 << 20)
IMAGE = {"spark.kubernetes.container.image": "mirror:1"}


def settings(master: str, demand: Demand = DEMAND, **own: str) -> dict[str, str]:
    written = {key.replace("_", "."): value for key, value in own.items()}
    return dict(plan_cluster(master, IMAGE | written, FIXED, demand).settings)


def test_a_standalone_cluster_gives_no_more_cores_than_there_are_tasks() -> None:
    assert settings(STANDALONE)["spark.cores.max"] == "5"
    assert settings(STANDALONE, spark_cores_max="3")["spark.cores.max"] == "3"
    assert settings(STANDALONE, spark_executor_cores="2")["spark.cores.max"] == "6", "whole executors"


def test_elsewhere_as_many_executors_are_asked_for_as_the_tasks_need_with_room_for_python() -> None:
    told = settings("yarn")
    assert (told["spark.executor.instances"], told["spark.executor.cores"]) == ("3", "2")
    assert told["spark.executor.memoryOverhead"] == f"{384 + 2 * (192 + 2 * 32)}m"
    assert settings("yarn", Demand(1, 0))["spark.executor.memoryOverhead"] == f"{384 + 192}m"
    assert settings("yarn", spark_executor_cores="5")["spark.executor.instances"] == "1"


def test_executors_lost_long_ago_do_not_add_up_to_the_end_of_the_application() -> None:
    assert settings("yarn")["spark.executor.failuresValidityInterval"] == "1h"
    assert settings(KUBERNETES)["spark.executor.failuresValidityInterval"] == "1h"


def test_dynamic_allocation_starts_with_all_executors_and_keeps_them() -> None:
    assert settings("yarn")["spark.dynamicAllocation.minExecutors"] == "3"
    limited = settings("yarn", spark_dynamicAllocation_maxExecutors="2")
    assert limited["spark.dynamicAllocation.minExecutors"] == "2"


def test_on_kubernetes_an_image_is_needed() -> None:
    with pytest.raises(ConfigError, match="--image"):
        plan_cluster(KUBERNETES, {}, FIXED, DEMAND)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("spark.speculation", "true", "rests on spark.speculation=false"),
        ("spark.submit.deployMode", "cluster", "driver is this command"),
        ("spark.master", "yarn", "Leave it out"),
        ("spark.executor.cores", "two", "whole number"),
    ],
)
def test_what_would_break_a_mirror_is_refused(key: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        plan_cluster(STANDALONE, {key: value}, FIXED, DEMAND)


def test_what_a_person_says_beyond_that_holds() -> None:
    own = {"spark.driver.memory": "1g", "spark.speculation": "false", "spark.executor.memory": "2g"}
    assert plan_cluster(STANDALONE, own, FIXED, DEMAND).settings.items() >= own.items()
    assert plan_cluster("local[2]", own, FIXED, DEMAND) == SparkCluster("local[2]", own)


def test_the_same_settings_given_back_give_the_same_plan() -> None:
    for master in (STANDALONE, "yarn", KUBERNETES):
        once = plan_cluster(master, IMAGE, FIXED, DEMAND)
        assert plan_cluster(master, once.settings, FIXED, DEMAND) == once


def test_a_cluster_that_hands_out_keys_is_encrypted_and_another_if_configured_so() -> None:
    assert not needs_encryption(plan_cluster(KUBERNETES, IMAGE, FIXED, DEMAND))
    assert not needs_encryption(SparkCluster("local[2]"))
    assert needs_encryption(plan_cluster(STANDALONE, {}, FIXED, DEMAND))
    assert not needs_encryption(plan_cluster(STANDALONE, {"spark.network.crypto.enabled": "true"}, FIXED, DEMAND))


@pytest.mark.parametrize("master", ["mesos://host", "host:7077", ""])
def test_a_master_that_spark_does_not_know_is_refused(master: str) -> None:
    with pytest.raises(ConfigError, match="no Spark master"):
        master_kind(master)


def test_settings_are_written_as_for_spark_submit() -> None:
    assert read_settings(["spark.a=b=c", "spark.d="]) == {"spark.a": "b=c", "spark.d": ""}
    for wrong in ("spark.a", "a=b", "=b"):
        with pytest.raises(ConfigError, match=r"spark\.KEY=VALUE"):
            read_settings([wrong])


def test_passwords_among_the_settings_are_not_shown() -> None:
    assert "hunter2" not in repr(SparkCluster(STANDALONE, {"spark.authenticate.secret": "hunter2"}))


@pytest.mark.parametrize(
    "key",
    [
        "spark.authenticate.secret",
        "spark.ssl.keyStorePassword",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.access.key",
        "spark.executorEnv.API_TOKEN",
    ],
)
def test_secrets_in_a_command_line_are_refused_with_where_to_put_them(key: str) -> None:
    with pytest.raises(ConfigError, match=key) as refused:
        read_settings([f"{key}=hunter2"])
    assert "hunter2" not in f"{refused.value} {refused.value.hint}"
    assert "spark-defaults.conf" in refused.value.hint and "_SPARK_AUTH_SECRET" in refused.value.hint


@pytest.mark.parametrize(
    "key",
    [
        "spark.authenticate.secret.file",
        "spark.authenticate.secretBitLength",
        "spark.kubernetes.executor.secrets.stores",
        "spark.kubernetes.executor.secretKeyRef.PASSWORD",
        "spark.kubernetes.authenticate.driver.oauthTokenFile",
        "spark.security.credentials.hbase.enabled",
        "spark.hadoop.fs.s3a.aws.credentials.provider",
        "spark.executor.cores",
    ],
)
def test_what_only_sounds_like_a_secret_is_taken(key: str) -> None:
    assert read_settings([f"{key}=x"]) == {key: "x"}


def test_where_passwords_travel_a_standalone_cluster_is_encrypted_unless_a_person_says_otherwise() -> None:
    told = plan_cluster(STANDALONE, {}, FIXED, DEMAND, carries_secrets=True)
    assert not needs_encryption(told) and needs_key(told)
    open_ones = {"spark.authenticate": "false", "spark.network.crypto.enabled": "false"}
    opened = plan_cluster(STANDALONE, open_ones, FIXED, DEMAND, carries_secrets=True)
    assert needs_encryption(opened) and not needs_key(opened)
    assert not needs_key(plan_cluster(KUBERNETES, IMAGE, FIXED, DEMAND, carries_secrets=True))
    assert not needs_key(plan_cluster("local[2]", {}, FIXED, DEMAND, carries_secrets=True))
