"""The same run on a Spark standalone cluster, whose workers and executors are lost and added while it mirrors."""

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from tests.faults.numbered import create_topic
from tests.faults.pretended_kubernetes import PretendedKubernetes
from tests.faults.standalone import LOCAL, Standalone
from tests.faults.story import Story
from tests.faults.tree import Run

from sparkmirror.errors import EnvironmentProblem

DEPLOY = Path(__file__).parents[2] / "deploy"
PARTITIONS = 6
SECONDS_MAX = 240.0
DRIVER = {**os.environ, **LOCAL}


def slots_of(run: Run) -> int:
    """How many the mirror has said last that it has for four tasks."""
    said = re.findall(r" (\d) slots? for 4 tasks", run.errors)
    return int(said[-1]) if said else 0


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[Standalone]:
    with Standalone(tmp_path) as cluster:
        yield cluster


def test_a_bounded_run_mirrors_on_the_executors_of_a_cluster_that_has_fewer_slots_than_tasks(
    story: Story, spark: Standalone
) -> None:
    for _ in range(2):
        spark.add_worker()
    writer = story.writer()
    writer.write(5000)
    with story.run("--once", "--master", spark.url, lines=["tasks.max = 3"], environment=DRIVER) as run:
        ended = run.finish(150)
        assert ended.status == 0, ended.errors
    said = re.search(r"has (\d) slots? for 3 tasks: \S+->backup (\d) of 3 run\.", ended.errors)
    assert said is not None, ended.errors
    assert said[1] == said[2] in ("1", "2"), "one, where the second executor was late"
    for worker in spark.workers:
        assert worker.log.count("Asked to launch executor") == 1, "one executor on each worker, which stayed alive"
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    assert arrival.repeats() == 0


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_file_with_passwords_goes_to_executors_encrypted_by_a_secret_in_no_command_line(
    story: Story, tmp_path: Path
) -> None:
    secret = {"_SPARK_AUTH_SECRET": "swordfish"}
    options = ["-Dspark.authenticate=true", "-Dspark.network.crypto.enabled=true"]
    writer = story.writer()
    writer.write(1000)
    lines = ["ssl.key.password = hunter2"]
    with Standalone(tmp_path, environment={**os.environ, **secret}, java_options=options) as spark:
        spark.add_worker()
        with story.run("--once", "--master", spark.url, lines=lines, environment=DRIVER) as run:
            refused = run.finish(150)
        assert refused.status == EnvironmentProblem.exit_status and "_SPARK_AUTH_SECRET" in refused.errors
        with story.run("--once", "--master", spark.url, lines=lines, environment=DRIVER | secret) as run:
            run.wait_until(lambda: slots_of(run) or spark.workers[0].executors(), "an executor comes", SECONDS_MAX)
            commands = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
            ended = run.finish(SECONDS_MAX)
        assert ended.status == 0, ended.errors
        assert "unencrypted" not in ended.errors
    assert not [command for command in commands if "swordfish" in command or "hunter2" in command]
    story.arrival().assert_complete(writer.produced)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("exactly_once", [False, True])
def test_executors_and_workers_that_are_lost_and_added_in_mid_copy_lose_nothing(
    story: Story, tmp_path: Path, exactly_once: bool
) -> None:
    """Exactly once, the executors' Python has no packages but those that `sparkmirror submit` brings."""
    wide = replace(story, topic=f"{story.topic}-wide", partitions=PARTITIONS)
    create_topic(wide.source, wide.topic, PARTITIONS)
    support = f"backup.exactly.once.source.support = {'enabled' if exactly_once else 'disabled'}"
    verb, arguments = ("submit", [f"--python={sys.__dict__['_base_executable']}"]) if exactly_once else ("run", [])
    bare = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    with Standalone(tmp_path, environment=bare if exactly_once else os.environ) as spark:
        for _ in range(3):
            spark.add_worker()
        lines = ["tasks.max = 4", "tasks.min = 4", support]
        with wide.run(f"--master={spark.url}", *arguments, verb=verb, lines=lines, environment=DRIVER) as run:
            run.wait_until(lambda: slots_of(run) == 3, "executors come", SECONDS_MAX)
            writer = wide.writer(per_second=200)
            writer.start()
            wide.wait_until_passed(run, writer.produced, SECONDS_MAX)

            (executor,) = spark.workers[0].executors()
            executor.kill()
            wide.wait_until_passed(run, writer.produced, SECONDS_MAX)

            spark.workers[1].kill()
            run.wait_until(lambda: slots_of(run) == 2, "the lost worker is missed", SECONDS_MAX)
            wide.wait_until_passed(run, writer.produced, SECONDS_MAX)

            spark.add_worker(cores=2)
            run.wait_until(lambda: slots_of(run) == 4, "the new worker is used", SECONDS_MAX)
            wide.wait_until_passed(run, writer.produced, SECONDS_MAX)
            wide.wait_for_all(run, writer, SECONDS_MAX)
    arrival = wide.arrival()
    arrival.assert_complete(writer.produced)
    if exactly_once:
        assert arrival.repeats() == 0


def of_kind(kind: str) -> Any:
    """The object of the manifest for Spark on Kubernetes."""
    objects = yaml.safe_load_all((DEPLOY / "kubernetes" / "on-spark.yaml").read_text())
    return next(one for one in objects if one["kind"] == kind)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_on_kubernetes_spark_makes_pods_of_the_image_that_mirror_and_get_no_password(
    story: Story, tmp_path: Path
) -> None:
    """A pretended Kubernetes, whose pods are processes: all else is Spark's own, and the image's entry point."""
    writer = story.writer()
    writer.write(5000)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    template = tmp_path / "executor.yaml"
    template.write_text(of_kind("ConfigMap")["data"]["executor.yaml"])
    with PretendedKubernetes(tmp_path, path) as kubernetes:
        arguments = [f"--master={kubernetes.master}", "--image=sparkmirror:test", "--once"]
        place = ["--conf=spark.kubernetes.namespace=mirrors", "--conf=spark.driver.host=127.0.0.1"]
        watch = ["--conf=spark.kubernetes.executor.enableApiWatcher=false"]
        watch.append(f"--conf=spark.kubernetes.executor.podTemplateFile={template}")
        (driver,) = of_kind("Deployment")["spec"]["template"]["spec"]["containers"]
        watch += [one for one in driver["args"] if one.endswith("=false") and "spark.kubernetes.driver." in one]
        with story.run(
            *arguments, *place, *watch, verb="submit", lines=["ssl.key.password = hunter2"], environment=DRIVER
        ) as run:
            ended = run.finish(SECONDS_MAX)
            assert ended.status == 0, f"{ended.errors}\n{kubernetes.said()[-4000:]}"
    (pod,) = kubernetes.made
    (container,) = pod["spec"]["containers"]
    assert container["image"] == "sparkmirror:test"
    assert container["args"] == ["executor"]
    assert container["resources"]["limits"]["memory"] == f"{512 + 384 + 2 * (192 + 2 * 32)}Mi"
    assert "hunter2" not in str(pod)
    assert container["securityContext"]["readOnlyRootFilesystem"] and pod["spec"]["securityContext"]["runAsNonRoot"]
    assert pod["spec"]["automountServiceAccountToken"] is False
    allowed = {
        (verb, kind) for rule in of_kind("Role")["rules"] for kind in rule["resources"] for verb in rule["verbs"]
    }
    (asked,) = kubernetes.asked.values()
    assert asked <= allowed
    # What a driver asks besides: for its own pod, which is not one here, twice a minute, and where an executor is lost.
    assert allowed - asked <= {("get", "pods"), ("watch", "pods"), ("list", "pods"), ("delete", "pods")}
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    assert arrival.repeats() == 0
