"""The main program of a driver's pod: from Spark's file of settings to the arguments of `sparkmirror run`."""

from pathlib import Path

import pytest

from sparkmirror.cli.driver import main, read_settings, run_words
from sparkmirror.cli.main import build_parser
from sparkmirror.cli.run import plan_for
from sparkmirror.config.flow.flows import parse_config
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.errors import EnvironmentProblem

WRITTEN_BY_SPARK = r"""#Java properties built from Kubernetes config map with name: spark-drv-1-conf-map
#Fri Nov 27 23:00:00 UTC 2026
spark.master=k8s\://https\://host\:6443
spark.submit.deployMode=cluster
spark.kubernetes.submitInDriver=true
spark.kubernetes.container.image=mirror\:1
spark.kubernetes.driver.secrets.mirror-file=/etc/sparkmirror
spark.driver.host=sparkmirror-1-driver-svc.mirrors.svc
spark.executor.cores=2
spark.submit.pyFiles=
"""
FILE = (
    "clusters = A, B\nA.bootstrap.servers = a:9092\nB.bootstrap.servers = b:9092\nA->B.enabled = true\ntasks.max = 3\n"
)


def test_a_pod_runs_the_file_with_the_settings_that_spark_wrote(tmp_path: Path) -> None:
    (tmp_path / "spark.properties").write_text(WRITTEN_BY_SPARK)
    settings = read_settings({"SPARK_CONF_DIR": str(tmp_path), "SPARK_DRIVER_BIND_ADDRESS": "10.1.2.3"})
    words = run_words(["/etc/sparkmirror/mirror.properties", "--once"], settings)
    args = build_parser().parse_args(words)
    assert (args.file, args.once, args.master) == (words[1], True, "k8s://https://host:6443")
    cluster = plan_for(parse_config(parse_properties(FILE)), args.master, args.conf)
    assert cluster.settings["spark.driver.bindAddress"] == "10.1.2.3"
    assert cluster.settings["spark.driver.host"] == "sparkmirror-1-driver-svc.mirrors.svc"
    assert cluster.settings["spark.kubernetes.submitInDriver"] == "true"
    assert "spark.submit.deployMode" not in cluster.settings, "in the pod it is a client"


def test_elsewhere_it_says_what_to_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(EnvironmentProblem, match="no driver's pod"):
        read_settings({"SPARK_CONF_DIR": str(tmp_path)})
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert main(["m.properties"]) == EnvironmentProblem.exit_status
    assert "sparkmirror run" in capsys.readouterr().err
