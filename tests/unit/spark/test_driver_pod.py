"""What a driver's pod on Kubernetes is made of: the settings of a driver outside, nothing secret, no more rights."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from sparkmirror.errors import ConfigError
from sparkmirror.spark.cluster import Demand, SparkCluster, plan_cluster
from sparkmirror.spark.driver_pod import (
    EXECUTOR_TEMPLATE,
    DriverPod,
    Ports,
    account_manifest,
    driver_template,
    plan_driver,
    refuse_cluster_mode,
)
from sparkmirror.spark.spark_submit import exit_status, failure_reason, template_name

DEPLOY = Path(__file__).parents[3] / "deploy"
MASTER = "k8s://https://host:6443"
IMAGE = {"spark.kubernetes.container.image": "mirror:1"}


def planned(**own: str) -> SparkCluster:
    written = {key.replace("_", "."): value for key, value in own.items()}
    return plan_cluster(MASTER, IMAGE | written, {}, Demand(tasks=3, ring_bytes=32 << 20))


def pod(**own: str) -> DriverPod:
    return plan_driver(planned(**own), "mirror-file", ["--once"], Ports(8080, 8081))


def on_spark(kind: str) -> Any:
    objects = yaml.safe_load_all((DEPLOY / "kubernetes" / "on-spark.yaml").read_text())
    return next(one for one in objects if one["kind"] == kind)


def test_executors_are_those_of_a_driver_outside() -> None:
    assert pod().settings.items() >= planned().settings.items()
    assert pod(spark_driver_memory="1g").settings["spark.driver.memory"] == "1g", "a person's own holds"


def test_the_file_comes_from_the_secret_and_its_place_is_the_driver_s_argument() -> None:
    assert pod().settings["spark.kubernetes.driver.secrets.mirror-file"] == "/etc/sparkmirror"
    assert pod().words({})[-3:] == [
        "local:///opt/sparkmirror/driver.py", "/etc/sparkmirror/mirror.properties", "--once",
    ]  # fmt: skip


def test_pods_and_account_are_those_of_the_manifest() -> None:
    assert yaml.safe_load(EXECUTOR_TEMPLATE) == yaml.safe_load(on_spark("ConfigMap")["data"]["executor.yaml"])
    template, spec = yaml.safe_load(driver_template(Ports(8080, 8081))), on_spark("Deployment")["spec"]["template"]
    assert template["metadata"]["labels"] == spec["metadata"]["labels"], "network policies and the service find it"
    assert template["spec"]["securityContext"] == spec["spec"]["securityContext"]
    (made,), (known,) = template["spec"]["containers"], spec["spec"]["containers"]
    assert made["securityContext"] == known["securityContext"]
    assert (made["ports"], made["readinessProbe"]) == (known["ports"], known["readinessProbe"])
    assert not {"ports", "readinessProbe"} & set(yaml.safe_load(driver_template(Ports()))["spec"]["containers"][0])
    account, role, binding = yaml.safe_load_all(account_manifest(pod(spark_kubernetes_namespace="mirrors")))
    assert (account, role) == (on_spark("ServiceAccount"), on_spark("Role"))
    (subject,) = binding["subjects"]
    assert subject == on_spark("RoleBinding")["subjects"][0] | {"namespace": "mirrors"}
    told = dict(one.removeprefix("--conf=").split("=", 1) for one in known["args"] if one.startswith("--conf="))
    for key in ("spark.driver.port", "spark.driver.blockManager.port", "spark.blockManager.port"):
        assert pod().settings[key] == told[key]


def test_a_person_s_own_template_is_used() -> None:
    own = {"spark_kubernetes_driver_podTemplateFile": "/mine.yaml"}
    assert [template_name(key) for key in pod(**own).templates] == ["executor.yaml"]
    assert [template_name(key) for key in pod().templates] == ["driver.yaml", "executor.yaml"]


@pytest.mark.parametrize("key", ["spark.driver.host", "spark.driver.bindAddress"])
def test_what_spark_itself_sets_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        pod(**{key: "10.0.0.1"})


@pytest.mark.parametrize("secret", ["", "My", "a.b", "a/b", "-a", "a" * 64])
def test_a_name_that_no_secret_has_is_refused(secret: str) -> None:
    with pytest.raises(ConfigError, match="--secret"):
        plan_driver(planned(), secret, [], Ports())


@pytest.mark.parametrize("master", ["yarn", "spark://host:7077", "local[2]"])
def test_elsewhere_cluster_mode_is_refused_with_what_to_do(master: str) -> None:
    with pytest.raises(ConfigError, match="is for Kubernetes") as refused:
        refuse_cluster_mode(master)
    assert "Leave --deploy-mode out" in refused.value.hint
    refuse_cluster_mode(MASTER)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["26/11/27 INFO a: b", 'Exception in thread "main" io.K8sException: no such namespace', "\tat a.b(C.java)"],
         "no such namespace"),
        (["a.SparkException: bad", "Caused by: java.net.ConnectException: refused", "\t... 3 more"], "refused"),
        (["Error: no", ""], "Error: no"),
        ([], "it said nothing"),
    ],
)  # fmt: skip
def test_the_reason_of_spark_s_client_is_found_among_its_lines(lines: list[str], reason: str) -> None:
    assert failure_reason(lines) == reason


def test_the_driver_s_exit_status_is_what_the_client_writes() -> None:
    assert exit_status(["\t container state: terminated", "\t exit code: 2", "\t termination reason: Error"]) == 2
    assert exit_status(["INFO Client: Deployed Spark application"]) == 0
