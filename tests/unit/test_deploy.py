"""What deploy/ says agrees with the product: version, probes, files that can be used, commands that are understood."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from sparkmirror import __version__
from sparkmirror.cli import submit
from sparkmirror.cli.main import build_parser
from sparkmirror.config.files import read_mirror_file
from sparkmirror.config.flows import parse_config
from sparkmirror.config.properties import parse_properties
from sparkmirror.engine.cluster import master_kind, read_settings
from sparkmirror.errors import ConfigError, EnvironmentProblem

DEPLOY = Path(__file__).parents[2] / "deploy"
UNIT = (DEPLOY / "systemd" / "sparkmirror@.service").read_text()


MANIFESTS = ("sparkmirror.yaml", "on-spark.yaml")


def manifest(kind: str, file: str = MANIFESTS[0]) -> Any:
    (found,) = (one for one in yaml.safe_load_all((DEPLOY / "kubernetes" / file).read_text()) if one["kind"] == kind)
    return found


def container_of(file: str) -> Any:
    (found,) = manifest("Deployment", file)["spec"]["template"]["spec"]["containers"]
    return found


@pytest.mark.parametrize("file", MANIFESTS)
def test_the_image_has_the_version_of_the_package(file: str) -> None:
    assert container_of(file)["image"] == f"sparkmirror:{__version__}"
    assert f"-t sparkmirror:{__version__} " in (DEPLOY / "container" / "Containerfile").read_text()


@pytest.mark.parametrize("file", MANIFESTS)
def test_the_file_in_the_manifest_can_be_used_and_serves_what_the_probes_ask_for(file: str, tmp_path: Path) -> None:
    container = container_of(file)
    secrets = tmp_path / "secrets.properties"
    secrets.write_text(manifest("Secret", file)["stringData"]["secrets.properties"])
    text = manifest("ConfigMap", file)["data"]["mirror.properties"]
    mounted = f"{container['volumeMounts'][1]['mountPath']}/secrets.properties"
    assert mounted in text
    config = parse_config(parse_properties(text.replace(mounted, str(secrets)).encode(), "mirror.properties"))
    assert config.warnings == ()
    assert config.status.listen.port == container["ports"][0]["containerPort"]
    probes = {container[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert probes == {"/healthz", "/readyz"}


def test_a_new_pod_is_ready_before_an_old_one_goes() -> None:
    spec = manifest("Deployment")["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] >= 30


def test_systemd_starts_again_unless_that_would_not_help() -> None:
    assert f"RestartPreventExitStatus={ConfigError.exit_status} {EnvironmentProblem.exit_status}\n" in UNIT
    assert "ExecStart=/opt/sparkmirror/bin/sparkmirror run /etc/sparkmirror/%i.properties\n" in UNIT
    assert "Restart=always\n" in UNIT


def test_the_driver_on_kubernetes_is_told_what_submit_understands() -> None:
    container = container_of("on-spark.yaml")
    args = build_parser().parse_args(container["args"])
    assert (args.command, args.image) == (submit.execute, container["image"])
    assert master_kind(args.master) == "k8s"
    told = read_settings(args.conf)
    known = {one["name"] for one in container["env"]}
    assert {value[2:-1] for value in told.values() if value.startswith("$(")} <= known
    account = manifest("ServiceAccount", "on-spark.yaml")["metadata"]["name"]
    assert manifest("Deployment", "on-spark.yaml")["spec"]["template"]["spec"]["serviceAccountName"] == account
    assert manifest("RoleBinding", "on-spark.yaml")["subjects"][0]["name"] == account


def test_the_strimzi_resource_can_be_used_and_only_what_is_for_connect_has_no_effect(tmp_path: Path) -> None:
    for secret, key in (("a-mirror", "password"), ("b-mirror", "password"), ("a-cluster-ca-cert", "ca.crt")):
        (tmp_path / secret).mkdir()
        (tmp_path / secret / key).write_text("secret")
    (tmp_path / "b-cluster-ca-cert").mkdir()
    (tmp_path / "b-cluster-ca-cert" / "ca.crt").write_text("secret")
    config = parse_config(read_mirror_file(str(DEPLOY / "strimzi" / "mirror.yaml"), str(tmp_path)))
    assert all("has no effect: there is no Kafka Connect worker" in warning for warning in config.warnings)
    assert [str(flow.name) for flow in config.flows] == ["a->b"]
