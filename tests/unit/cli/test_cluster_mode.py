"""`sparkmirror submit --deploy-mode cluster --dry-run`: a script with all that Kubernetes is given, and no password."""

import json
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.unit.cli.dry_runs import FILE, dry_run

from sparkmirror.cli.main import build_parser

CLUSTER = ("--master", "k8s://https://h", "--deploy-mode", "cluster")


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "my mirror.properties"
    path.write_text(FILE)
    return str(path)


def test_the_script_makes_secret_account_templates_and_pod_and_has_no_password(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = dry_run(
        capsys,
        file,
        *CLUSTER,
        "--image",
        "i:1",
        "--flow",
        "A->B",
        "--once",
        "--conf",
        "spark.kubernetes.namespace=mine",
    )
    assert (status, "hunter2" in out + err) == (0, False)
    assert "pretended" in out.splitlines()[1]
    recorder = '#!/bin/sh\nprintf "%s\\n" "$(basename "$0")" "SPARK_CONF_DIR=${SPARK_CONF_DIR-}" "$@" >> "$CALLS"\n'
    for name in ("kubectl", "spark-submit"):
        (tmp_path / name).write_text(recorder)
        (tmp_path / name).chmod(0o755)
    calls = tmp_path / "calls"
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "CALLS": str(calls)}
    subprocess.run(["sh"], input=out, text=True, check=True, cwd=tmp_path, env=environment)
    words = calls.read_text().splitlines()
    assert f"--from-file=mirror.properties={file}" in words
    assert words.count("mine") == 2, "Secret and account are where the pod will be"
    at = words.index("spark-submit")
    assert Path(words[at + 1].removeprefix("SPARK_CONF_DIR=")).is_dir()
    assert words[at + 2 : at + 6] == ["--master", "k8s://https://h", "--deploy-mode", "cluster"]
    assert words[-5:] == [
        "local:///opt/sparkmirror/driver.py",
        "/etc/sparkmirror/mirror.properties",
        "--flow",
        "A->B",
        "--once",
    ]
    assert "spark.kubernetes.driver.podTemplateFile=driver.yaml" in words
    assert "spark.pyspark.python=python3" in words, "that of the image, whatever runs here"
    for template in ("driver.yaml", "executor.yaml"):
        assert yaml.safe_load((tmp_path / template).read_text())["kind"] == "Pod"


def test_the_same_as_json(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = dry_run(capsys, file, *CLUSTER, "--image", "i:1", "--format", "json", "--secret", "mine")
    shown = json.loads(out)
    assert (status, sorted(shown["files"])) == (0, ["account.yaml", "driver.yaml", "executor.yaml"])
    assert "spark.kubernetes.driver.secrets.mine=/etc/sparkmirror" in shown["command"]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ("--master k8s://https://h --deploy-mode cluster", 2, "--image IMAGE"),
        ("--master yarn --deploy-mode cluster", 2, "On YARN there is no Secret"),
        ("--master spark://h:7077 --deploy-mode cluster", 2, "runs no Python driver"),
        ("--master local[2] --deploy-mode cluster", 2, "is this machine"),
        ("--master k8s://https://h --deploy-mode cluster --installed", 2, "in the image"),
        ("--master k8s://https://h --deploy-mode cluster --image i --jars /x.jar", 2, "plugin.path"),
        ("--master k8s://https://h --deploy-mode cluster --image i --secrets-dir /x", 2, "config convert"),
        ("--master k8s://https://h --deploy-mode cluster --image i --conf spark.driver.host=h", 2, "Spark itself sets"),
        ("--master k8s://https://h --image i --secret s", 2, "goes with `--deploy-mode cluster`"),
        ("--master k8s://https://h --image i --conf spark.submit.deployMode=cluster", 2, "--deploy-mode cluster"),
    ],
)
def test_what_cannot_work_is_refused_with_what_to_do(
    file: str, arguments: str, status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _, err = dry_run(capsys, file, *shlex.split(arguments))
    assert found == status, err
    assert said in err


def test_client_mode_is_what_it_is_without_the_option() -> None:
    args = build_parser().parse_args(["submit", "m.properties", "--master", "spark://h:7077"])
    assert (args.deploy_mode, args.secret) == ("client", None)
