"""Spark's cluster mode on a pretended Kubernetes: its client makes the driver's pod, whose file is in a Secret.

All is Spark's own but Kubernetes: client, driver and executors; and the image's entry point.
"""

import base64
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from tests.faults.pretended_kubernetes import PretendedKubernetes
from tests.faults.pretended_pods import IMAGE, NAMESPACE
from tests.faults.standalone import LOCAL
from tests.faults.story import Story
from tests.faults.tree import Run
from tests.scenarios.mirror import flow_file
from tests.waiting import wait_until

from sparkmirror.errors import ConfigError
from sparkmirror.spark.driver_pod import KEY
from sparkmirror.testing.ports import PortReservation

SECONDS_MAX = 240.0
SECRET = "mirror-file"
PASSWORD = "hunter2"
LINES = [f"ssl.key.password = {PASSWORD}"]
CLIENT = {**os.environ, **LOCAL}
DRIVER_HOST = "localhost"
"""The API server by another name than Spark's client uses: the requests of the two are counted apart."""


@pytest.fixture
def kubernetes(tmp_path: Path) -> Iterator[PretendedKubernetes]:
    with PretendedKubernetes(tmp_path, f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}") as cluster:
        yield cluster


@pytest.fixture
def arguments(kubernetes: PretendedKubernetes) -> Iterator[list[str]]:
    """Of `submit`; ports and addresses are those of one machine, which no cluster has to be given."""
    with PortReservation(3) as reserved:
        names = ("spark.driver.port", "spark.driver.blockManager.port", "spark.blockManager.port")
        settings = {
            **{name: str(port) for name, port in zip(names, reserved.ports, strict=True)},
            "spark.kubernetes.namespace": NAMESPACE,
            "spark.kubernetes.driver.master": kubernetes.url(DRIVER_HOST),
            "spark.kubernetes.trust.certificates": "true",  # that of the account is not here
            "spark.kubernetes.executor.enableApiWatcher": "false",
        }
        place = [f"--master={kubernetes.master}", "--deploy-mode=cluster", "--image=sparkmirror:test"]
        yield [*place, f"--secret={SECRET}", *(f"--conf={key}={value}" for key, value in settings.items())]


def put_file(kubernetes: PretendedKubernetes, text: str) -> None:
    """As `kubectl create secret generic` does."""
    data = {KEY: base64.b64encode(text.encode()).decode()}
    kubernetes.create("secrets", {"metadata": {"name": SECRET}, "data": data})


def settings_of(kubernetes: PretendedKubernetes, pod: dict[str, Any]) -> str:
    """The text that Spark's client wrote for the driver."""
    maps = [one["configMap"]["name"] for one in pod["spec"]["volumes"] if "configMap" in one]
    found = [kubernetes.find("configmaps", name) for name in maps]
    (text,) = (one["data"]["spark.properties"] for one in found if one and "spark.properties" in one["data"])
    return str(text)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_driver_s_pod_mirrors_a_file_that_only_a_secret_holds_and_stops_in_order_when_it_is_deleted(
    story: Story, kubernetes: PretendedKubernetes, arguments: list[str]
) -> None:
    writer = story.writer()
    writer.write(5000)
    put_file(kubernetes, story.text(*LINES))
    with story.run(*arguments, verb="submit", lines=LINES, environment=CLIENT) as run:
        ended = run.finish(SECONDS_MAX)
    assert ended.status == 0, ended.errors
    named = re.search(r"The driver is the pod (\S+)", ended.output)
    assert named is not None, ended.output
    driver, *_ = kubernetes.made
    assert driver["metadata"]["name"] == named[1]

    wait_until(
        lambda: story.target_has_ledger() and story.positions() == writer.produced, "all is mirrored", SECONDS_MAX
    )
    commands = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    text = settings_of(kubernetes, driver)
    kubernetes.delete("pods", named[1])
    assert kubernetes.statuses[named[1]] == 0, kubernetes.said()[-4000:]
    left = [one["metadata"]["name"] for kind in ("pods", "services", "configmaps") for one in kubernetes.list(kind)]
    assert left == []

    everything = [*kubernetes.requests, *commands, kubernetes.said(), ended.output, ended.errors]
    assert not [one for one in everything if PASSWORD in one]
    check_pods(driver, kubernetes.made[1:], text)
    check_rights(kubernetes, story, arguments)
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    assert arrival.repeats() == 0


def check_pods(driver: dict[str, Any], executors: list[dict[str, Any]], settings: str) -> None:
    """As the driver outside of the cluster has them; and no more than they need."""
    (container,) = driver["spec"]["containers"]
    assert container["args"][-2:] == ["local:///opt/sparkmirror/driver.py", f"/etc/sparkmirror/{KEY}"]
    assert container["resources"]["limits"]["memory"] == "2048Mi"
    assert {"name": f"{SECRET}-volume", "secret": {"secretName": SECRET}} in driver["spec"]["volumes"]
    assert driver["spec"]["serviceAccountName"] == "sparkmirror-on-spark-driver"
    assert "spark.authenticate=true" in settings and "spark.network.crypto.enabled=true" in settings
    for pod in (driver, *executors):
        (one,) = pod["spec"]["containers"]
        assert one["securityContext"]["readOnlyRootFilesystem"] and pod["spec"]["securityContext"]["runAsNonRoot"]
        assert pod["spec"]["automountServiceAccountToken"] is (pod is driver)
    (executor,) = executors
    (one,) = executor["spec"]["containers"]
    assert one["args"] == ["executor"]
    assert one["resources"]["limits"]["memory"] == f"{512 + 384 + 2 * (192 + 2 * 32)}Mi"
    assert not [volume for volume in executor["spec"]["volumes"] if "secret" in volume]


def check_rights(kubernetes: PretendedKubernetes, story: Story, arguments: list[str]) -> None:
    """Those that the script of `--dry-run` gives the driver's account suffice."""
    with story.run(*arguments, "--dry-run", verb="submit", lines=LINES, environment=CLIENT) as run:
        shown = run.finish(SECONDS_MAX)
    assert shown.status == 0 and PASSWORD not in shown.output + shown.errors
    account = shown.output.split("<<'END'\n")[1].partition("END")[0]
    (role,) = (one for one in yaml.safe_load_all(account) if one["kind"] == "Role")
    allowed = {(verb, kind) for rule in role["rules"] for kind in rule["resources"] for verb in rule["verbs"]}
    asked = kubernetes.asked[DRIVER_HOST]
    assert asked <= allowed
    assert allowed - asked <= {("watch", "pods"), ("delete", "pods")}, "what is for a lost executor"
    words = shlex.split(shown.output.rpartition("spark-submit ")[2].replace("\\\n", " "))
    assert words[-2:] == ["local:///opt/sparkmirror/driver.py", f"/etc/sparkmirror/{KEY}"]


@pytest.mark.timeout(400)
def test_a_client_that_waits_ends_with_the_status_of_a_driver_whose_file_cannot_be_used(
    kubernetes: PretendedKubernetes, arguments: list[str], tmp_path: Path
) -> None:
    """`spark-submit` ends with 0. The file here is good, that of the Secret is not: no broker is asked."""
    put_file(kubernetes, "clusters = A\n")
    clusters = {alias: {"bootstrap.servers": "127.0.0.1:9"} for alias in "AB"}
    text = flow_file(clusters["A"], clusters["B"], alias="A", topics=".*")
    waits = "--conf=spark.kubernetes.submission.waitAppCompletion=true"
    with Run(tmp_path, text, [*arguments, "--once", waits], verb="submit", environment=CLIENT) as run:
        ended = run.finish(SECONDS_MAX)
    assert ended.status == ConfigError.exit_status, ended.errors
    assert "has ended with status 2" in ended.output
    assert list(kubernetes.statuses.values()) == [ConfigError.exit_status], kubernetes.said()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_under_spark_s_own_entry_point_the_mirror_uses_the_jvm_that_started_it(story: Story, tmp_path: Path) -> None:
    """As an image of Spark's does in a driver's pod: `spark-submit` in client mode, whose JVM starts Python."""
    writer = story.writer()
    writer.write(1000)
    (settings := tmp_path / "conf").mkdir()
    (settings / "spark.properties").write_text("spark.master=local[2]\n")
    (file := tmp_path / KEY).write_text(story.text(*LINES))
    submit = str(Path(sys.executable).with_name("spark-submit"))
    program = [submit, "--master", "local[2]", str(IMAGE / "driver.py"), str(file)]
    environment = {**CLIENT, "SPARK_CONF_DIR": str(settings), "PYSPARK_PYTHON": sys.executable}
    with Run(tmp_path, "", program=program, environment=environment) as run:
        run.wait_until(
            lambda: story.target_has_ledger() and story.positions() == writer.produced, "all is mirrored", SECONDS_MAX
        )
        assert run.jvm()
    story.arrival().assert_complete(writer.produced)
