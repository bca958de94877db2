"""What deploy/ says agrees with the product: version, probes, files that can be used, commands that are understood."""

import json
import re
import subprocess
import sys
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
import yaml
from tests.programs import program

from sparkmirror import __version__
from sparkmirror.cli import submit
from sparkmirror.cli.main import build_parser
from sparkmirror.config.flow.flows import parse_config
from sparkmirror.config.formats.files import read_mirror_file
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.errors import ConfigError, EnvironmentProblem
from sparkmirror.spark.cluster import master_kind, read_settings
from sparkmirror.spark.driver_pod import MAIN

DEPLOY = Path(__file__).parents[2] / "deploy"
CONTAINERFILE = (DEPLOY / "container" / "Containerfile").read_text()
UID = 10001
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
    assert f"-t sparkmirror:{__version__} " in CONTAINERFILE


@pytest.mark.parametrize("file", MANIFESTS)
def test_the_file_in_the_manifest_can_be_used_and_serves_what_the_probes_ask_for(file: str, tmp_path: Path) -> None:
    container = container_of(file)
    secrets = tmp_path / "secrets.properties"
    secrets.write_text(f"token = {token_hex(24)}\n")
    text = manifest("ConfigMap", file)["data"]["mirror.properties"]
    mounted = f"{container['volumeMounts'][1]['mountPath']}/secrets.properties"
    assert mounted in text
    config = parse_config(parse_properties(text.replace(mounted, str(secrets)).encode(), "mirror.properties"))
    assert config.warnings == ()
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert ports == {"http": config.status.listen.port, "probes": config.status.probes_listen.port}
    probes = [container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert {probe["path"] for probe in probes} == {"/healthz", "/readyz"}
    assert {probe["port"] for probe in probes} == {"probes"}, "a port that the page's viewers cannot keep busy"


@pytest.mark.parametrize("file", MANIFESTS)
def test_no_manifest_brings_a_secret_and_the_token_of_none_would_be_taken(file: str) -> None:
    text = (DEPLOY / "kubernetes" / file).read_text()
    assert all(one["kind"] != "Secret" for one in yaml.safe_load_all(text))
    (volume,) = (one for one in manifest("Deployment", file)["spec"]["template"]["spec"]["volumes"] if "secret" in one)
    name = volume["secret"]["secretName"]
    assert "openssl rand -hex 24" in text and f"create secret generic {name} --from-file=secrets.properties" in text
    assert volume["secret"]["defaultMode"] == 0o440


def test_a_pod_that_waits_for_a_cluster_is_not_started_again_and_its_page_can_be_reached() -> None:
    for file in MANIFESTS:
        container = container_of(file)
        assert [container[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe")] == ["/healthz"] * 2
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
        assert manifest("Service", file)["spec"]["publishNotReadyAddresses"] is True


def test_the_chart_has_the_version_of_the_package_and_its_file_is_that_of_the_manifests() -> None:
    """`make manifests` renders the chart and compares all of it; here is no Helm."""
    chart = yaml.safe_load((DEPLOY / "helm" / "sparkmirror" / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    values = yaml.safe_load((DEPLOY / "helm" / "sparkmirror" / "values.yaml").read_text())
    for file in MANIFESTS:
        assert manifest("ConfigMap", file)["data"]["mirror.properties"] == values["mirror"]
    schema = json.loads((DEPLOY / "helm" / "sparkmirror" / "values.schema.json").read_text())
    assert set(values) | {"global"} == set(schema["properties"])


def pods(file: str) -> list[Any]:
    """The specifications of all pods that a manifest makes, or has Spark make."""
    made = [manifest("Deployment", file)["spec"]["template"]["spec"]]
    template = manifest("ConfigMap", file)["data"].get("executor.yaml")
    return made + ([yaml.safe_load(template)["spec"]] if template else [])


@pytest.mark.parametrize("file", MANIFESTS)
def test_a_pod_has_no_more_than_it_needs(file: str) -> None:
    for spec in pods(file):
        secured = spec["securityContext"]
        assert secured["runAsNonRoot"] and secured["runAsUser"] == secured["runAsGroup"] == UID
        assert secured["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = spec["containers"]
        allowed = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
        assert container["securityContext"] == allowed
        assert {"name": "scratch", "mountPath": "/tmp"} in container["volumeMounts"]
        assert {"name": "scratch", "emptyDir": {}} in spec["volumes"]
        assert spec["automountServiceAccountToken"] is ("serviceAccountName" in spec)


def test_the_driver_may_make_pods_and_nothing_else() -> None:
    """`tests/faults/test_spark_cluster.py` compares the verbs with what Spark asks for."""
    assert manifest("ServiceAccount", "on-spark.yaml")["automountServiceAccountToken"] is False
    rules = manifest("Role", "on-spark.yaml")["rules"]
    assert {kind for rule in rules for kind in rule["resources"]} == {"pods", "configmaps"}
    assert all("*" not in (*rule["verbs"], *rule["resources"], *rule["apiGroups"]) for rule in rules)


@pytest.mark.parametrize("file", MANIFESTS)
def test_every_pod_has_a_policy_for_both_ways_and_viewers_reach_the_page_alone(file: str) -> None:
    objects = list(yaml.safe_load_all((DEPLOY / "kubernetes" / file).read_text()))
    policies = {
        one["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/name"]: one["spec"]
        for one in objects
        if one["kind"] == "NetworkPolicy"
    }
    labels = [manifest("Deployment", file)["spec"]["template"]["metadata"]["labels"]]
    if template := manifest("ConfigMap", file)["data"].get("executor.yaml"):
        labels.append(yaml.safe_load(template)["metadata"]["labels"])
    assert {one["app.kubernetes.io/name"] for one in labels} == set(policies)
    for spec in policies.values():
        assert spec["policyTypes"] == ["Ingress", "Egress"]
        assert all(rule.get("from") and rule["ports"] for rule in spec["ingress"]), "nobody from everywhere"
        assert all(rule["ports"] for rule in spec["egress"]), "nowhere by every port"
        opened = [
            port["port"] for rule in spec["ingress"] if "namespaceSelector" in rule["from"][0] for port in rule["ports"]
        ]
        assert opened in ([], ["http"])


def test_the_compose_file_has_a_mirror_that_can_be_used_between_its_two_brokers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    composed = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    mirror = composed["services"]["mirror"]
    assert mirror["image"] == f"sparkmirror:{__version__}"
    assert (DEPLOY / "compose" / mirror["build"]["context"] / mirror["build"]["dockerfile"]).resolve().exists()
    assert mirror["configs"] == [{"source": "mirror", "target": "/etc/sparkmirror/mirror.properties"}]
    monkeypatch.setenv("STATUS_TOKEN", token_hex(24))
    text = composed["configs"]["mirror"]["content"].replace("$$", "$")
    config = parse_config(parse_properties(text.encode(), "mirror.properties"))
    assert config.warnings == ()
    for alias, cluster in config.clusters.items():
        settings = composed["services"][alias]["environment"]
        assert f"INSIDE://{cluster.bootstrap_servers}," in settings["KAFKA_ADVERTISED_LISTENERS"]
        listeners = {one.partition(":")[0] for one in settings["KAFKA_LISTENERS"].split(",")}
        protocols = dict(one.split(":") for one in settings["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(","))
        assert listeners == set(protocols)
    published = [port for one in composed["services"].values() for port in one["ports"]]
    assert all(port.startswith("127.0.0.1:") for port in published), "nothing is open to other machines"


def test_the_image_is_made_of_what_has_a_sum() -> None:
    """Not built here: what can be read of it is."""
    steps = CONTAINERFILE.replace("\\\n", " ").splitlines()
    froms = [one.split()[1] for one in steps if one.startswith("FROM")]
    assert froms == ["${BASE_IMAGE}"] * 2, "no image but the one that is given by its digest"
    assert "ARG BASE_IMAGE" in steps and not any(one.startswith("ARG BASE_IMAGE=") for one in steps)
    installs = [part for one in steps if one.startswith("RUN") for part in one.split("&&") if "pip " in part]
    assert len(installs) == 4
    for one in installs:
        assert (
            "--require-hashes" in one or "--no-index" in one or ("--no-deps" in one and "--no-build-isolation" in one)
        )
    users = [one.removeprefix("USER ") for one in steps if one.startswith("USER")]
    assert users == [f"{UID}:{UID}"], "its number, so that Kubernetes can tell that it is not root"
    assert steps.index(f"USER {UID}:{UID}") < next(at for at, one in enumerate(steps) if one.startswith("ENTRYPOINT"))


@pytest.mark.parametrize(
    ("image", "status"),
    [("python:3.12-slim-bookworm", 1), ("", 1), (f"python@sha256:{'0' * 63}", 1), (f"python@sha256:{'0' * 64}", 0)],
)
def test_a_base_image_that_is_named_by_a_tag_ends_the_build(image: str, status: int) -> None:
    (step,) = (one for one in CONTAINERFILE.replace("\\\n", " ").splitlines() if one.startswith("RUN case"))
    run = subprocess.run(["sh", "-c", step.removeprefix("RUN ")], env={"BASE_IMAGE": image}, capture_output=True)
    assert run.returncode == status


@pytest.mark.parametrize("file", ["requirements.lock", "build.lock"])
def test_every_package_of_a_lock_has_one_version_and_its_sums(file: str) -> None:
    blocks = (DEPLOY / "container" / file).read_text().replace("\\\n", " ").splitlines()
    packages = [one for one in blocks if not one.startswith("#")]
    assert packages and all(
        re.fullmatch(r"[\w.-]+==[\w.]+( ;[^-]*)?( +--hash=sha256:[0-9a-f]{64})+ *", one) for one in packages
    )


def test_the_lock_of_the_image_is_that_of_the_project_without_its_tests() -> None:
    script = DEPLOY / "container" / "lock.py"
    made = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True).stdout
    assert made == (DEPLOY / "container" / "requirements.lock").read_text(), "run `make lock`"
    assert "pyspark==" in made and "pytest==" not in made


def test_a_new_pod_is_ready_before_an_old_one_goes() -> None:
    spec = manifest("Deployment")["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] >= 30


def directive(name: str) -> list[str]:
    """The values of a directive of the unit."""
    return [line.partition("=")[2] for line in UNIT.splitlines() if line.startswith(f"{name}=")]


def test_systemd_starts_again_unless_that_would_not_help() -> None:
    assert directive("RestartPreventExitStatus") == [f"{ConfigError.exit_status} {EnvironmentProblem.exit_status}"]
    assert directive("ExecStart") == ["/opt/sparkmirror/bin/sparkmirror run /etc/sparkmirror/%i.properties"]
    assert directive("Restart") == ["always"]


def test_a_bad_file_is_not_started_again_for_ever(tmp_path: Path) -> None:
    """RestartPreventExitStatus looks at the main process alone: nothing that systemd runs before may judge the file."""
    assert [name for name in ("ExecCondition", "ExecStartPre", "ExecStartPost") if directive(name)] == []
    (tmp_path / "bad.properties").write_text("clusters = A\nA.bootstrap.servers = nowhere\n")
    verb = directive("ExecStart")[0].split()[1]
    program = "import sys; from sparkmirror.cli.main import main; sys.exit(main())"
    ended = subprocess.run(
        [sys.executable, "-c", program, verb, str(tmp_path / "bad.properties")], capture_output=True, text=True
    )
    assert str(ended.returncode) in directive("RestartPreventExitStatus")[0].split(), ended.stderr


def test_systemd_understands_the_unit_and_finds_little_exposed(tmp_path: Path) -> None:
    program("systemd-analyze")
    unit = tmp_path / "sparkmirror@.service"  # verify looks for the program and the user, which are not here
    unit.write_text(
        UNIT.replace("/opt/sparkmirror/bin/sparkmirror", "/bin/true").replace("User=sparkmirror", "User=root")
    )
    verified = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert (verified.returncode, [line for line in verified.stderr.splitlines() if "sparkmirror@" in line]) == (0, [])
    unit.write_text(UNIT)
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=30", str(unit)],
        capture_output=True,
        text=True,
    )
    if "unrecognized option" not in judged.stderr:  # before systemd 250
        assert judged.returncode == 0, judged.stdout[-300:]


def test_the_driver_on_kubernetes_gets_the_settings_that_submit_understands() -> None:
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


def test_a_driver_s_pod_starts_the_program_of_the_image_that_cluster_mode_names(tmp_path: Path) -> None:
    """With the arguments that Spark 4.3 gives the pod."""
    main = MAIN.removeprefix("local://")
    assert f"COPY --chmod=644 deploy/container/driver.py {main}\n" in CONTAINERFILE
    (python := tmp_path / "python3").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    python.chmod(0o755)
    of_spark = [
        "--properties-file",
        "/opt/spark/conf/spark.properties",
        "--class",
        "org.apache.spark.deploy.PythonRunner",
    ]
    entry = str(DEPLOY / "container" / "entrypoint.sh")
    shown = subprocess.run(
        ["sh", entry, "driver", *of_spark, MAIN, "/etc/my file", "--once"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert shown.stdout.splitlines() == [main, "/etc/my file", "--once"]


def test_the_strimzi_resource_can_be_used_and_only_what_is_for_connect_has_no_effect(tmp_path: Path) -> None:
    for secret, key in (("a-mirror", "password"), ("b-mirror", "password"), ("a-cluster-ca-cert", "ca.crt")):
        (tmp_path / secret).mkdir()
        (tmp_path / secret / key).write_text("secret")
    (tmp_path / "b-cluster-ca-cert").mkdir()
    (tmp_path / "b-cluster-ca-cert" / "ca.crt").write_text("secret")
    config = parse_config(read_mirror_file(str(DEPLOY / "strimzi" / "mirror.yaml"), str(tmp_path)))
    assert all("has no effect: there is no Kafka Connect worker" in one for one in config.warnings), config.warnings
    assert [str(flow.name) for flow in config.flows] == ["a->b"]
