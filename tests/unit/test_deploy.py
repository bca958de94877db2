"""What deploy/ says agrees with the product: version, probes, a file that can be used, exit statuses."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from sparkmirror import __version__
from sparkmirror.config.flows import parse_config
from sparkmirror.config.properties import parse_properties
from sparkmirror.errors import ConfigError, EnvironmentProblem

DEPLOY = Path(__file__).parents[2] / "deploy"
UNIT = (DEPLOY / "systemd" / "sparkmirror@.service").read_text()


def manifest(kind: str) -> Any:
    (found,) = (
        one
        for one in yaml.safe_load_all((DEPLOY / "kubernetes" / "sparkmirror.yaml").read_text())
        if one["kind"] == kind
    )
    return found


@pytest.fixture(scope="module")
def container() -> Any:
    (found,) = manifest("Deployment")["spec"]["template"]["spec"]["containers"]
    return found


def test_the_image_has_the_version_of_the_package(container: Any) -> None:
    assert container["image"] == f"sparkmirror:{__version__}"
    assert f"-t sparkmirror:{__version__} " in (DEPLOY / "container" / "Containerfile").read_text()


def test_the_file_in_the_manifest_can_be_used_and_serves_what_the_probes_ask_for(
    container: Any, tmp_path: Path
) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text(manifest("Secret")["stringData"]["secrets.properties"])
    text = manifest("ConfigMap")["data"]["mirror.properties"]
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
