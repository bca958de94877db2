"""`sparkmirror submit --dry-run`: the command that it stands for, which says how far it was tried and hides secrets."""

import json
import shlex
from pathlib import Path

import pytest
from tests.unit.cli import dry_runs

from sparkmirror.cli import submit
from sparkmirror.cli.main import build_parser, main
from sparkmirror.cli.run import plan_for
from sparkmirror.config.flow.flows import load_config


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "mirror.properties"
    path.write_text(dry_runs.FILE)
    return str(path)


def dry_run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    return dry_runs.dry_run(capsys, *arguments, "--installed")


def test_the_command_that_is_shown_does_the_same(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = dry_run(
        capsys, file, "--flow", "A->B", "--master", "spark://h:7077", "--conf", "spark.executor.cores=2"
    )
    words = shlex.split(out.replace("\\\n", " "))
    assert words[:2] == ["sparkmirror", "run"]
    args = build_parser().parse_args(words[1:])
    assert (args.file, args.flow, args.once) == (file, ["A->B"], False)
    settings = plan_for(load_config(file), args.master, args.conf).settings
    assert settings["spark.cores.max"] == "4"
    assert sorted(f"{key}={value}" for key, value in settings.items()) == sorted(args.conf)


def test_what_was_not_run_on_a_real_cluster_is_said(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    assert dry_run(capsys, file, "--master", "yarn")[1].startswith("# Not run on YARN")
    image = ["--conf", "spark.kubernetes.container.image=mirror:1"]
    status, out, _ = dry_run(capsys, file, "--master", "k8s://https://h", *image, "--format", "json")
    assert status == 0
    assert "pretended" in json.loads(out)["caution"]
    assert dry_run(capsys, file, "--master", "spark://h:7077")[1].startswith("sparkmirror run")


def test_passwords_travel_encrypted_unless_a_person_says_otherwise_and_are_never_shown(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = [file, "--master", "spark://h:7077"]
    _, out, err = dry_run(capsys, *cluster)
    assert "spark.network.crypto.enabled=true" in out and "unencrypted" not in err
    in_the_open = ["--conf", "spark.authenticate=false", "--conf", "spark.network.crypto.enabled=false"]
    assert "unencrypted" in dry_run(capsys, *cluster, *in_the_open)[2]
    status, out, err = dry_run(capsys, *cluster, "--conf", "spark.authenticate.secret=swordfish")
    assert status == 2
    assert "swordfish" not in out + err and "_SPARK_AUTH_SECRET" in err


def test_without_the_cluster_s_secret_the_driver_does_not_start_and_says_what_to_do(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_SPARK_AUTH_SECRET", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    assert main(["run", file, "--master", "spark://h:7077"]) == 3
    assert "_SPARK_AUTH_SECRET" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("master", "status", "said"),
    [
        ("mesos://h", 2, "no Spark master"),
        ("yarn", 3, "HADOOP_CONF_DIR"),
        ("k8s://https://h", 2, "--image IMAGE"),
    ],
)
def test_what_cannot_work_is_refused_with_what_to_do(
    file: str, master: str, status: int, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    found, _, err = dry_run(capsys, file, "--master", master)
    assert found == status
    assert said in err


def test_executors_get_what_logs_in_to_msk_where_a_cluster_asks_for_it(file: str) -> None:
    assert submit._extras(load_config(file)) == frozenset()
    with Path(file).open("a") as mirror:
        mirror.write("B.security.protocol = SASL_SSL\nB.sasl.mechanism = AWS_MSK_IAM\n")
    assert submit._extras(load_config(file)) == {"msk"}
