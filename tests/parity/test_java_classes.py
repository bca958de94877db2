"""A person's own Java classes, compiled against MirrorMaker 2 4.3: the same file means the same to it and to us."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError
from tests.faults.tree import is_gone
from tests.parity.mirror_maker import mirror_maker_flows
from tests.parity.plugin_jar import compile_classes, kafka_libs
from tests.waiting import wait_until

from sparkmirror.config.flow.flows import MirrorConfig, load_config, parse_config
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.errors import ConfigError, SparkMirrorError
from sparkmirror.plugins import ClassPath
from sparkmirror.policy.java_classes import PROVIDER, JavaInstance
from sparkmirror.spark.session import launch_context, open_session
from sparkmirror.sync.flow import config_rules

FILE = """clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
"""
NAMING = ["replication.policy.class = acme.Suffixed", "replication.policy.acme.between = _from_"]
FILTERS = [
    *(f"{kind}.filter.class = acme.Tagged" for kind in ("topic", "group", "config.property")),
    "A->B.acme.word = gold",
]
TOPICS = ("gold", "golden.eggs", "silver", "__gold", "gold_from_B", "gold_from_C", "heartbeats", "gold_from_C_from_B")


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_classes(tmp_path_factory.mktemp("classes"))


@pytest.fixture(autouse=True)
def _only_what_the_file_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLASSPATH", raising=False)


def plugin_path(*places: Path) -> str:
    return f"plugin.path = {', '.join(map(str, places))}"


def understood(*lines: str) -> MirrorConfig:
    return parse_config(parse_properties((FILE + "\n".join(lines)).encode(), "mm2"))


def test_the_same_topics_get_the_same_names_as_with_mirrormaker(classes: Path, tmp_path: Path) -> None:
    file = tmp_path / "own.properties"
    file.write_text(FILE + "\n".join([plugin_path(classes, kafka_libs()), *NAMING, *FILTERS]))
    real = mirror_maker_flows([file], TOPICS, {}, classes)["own"]["A->B"]
    (flow,) = load_config(file).flows
    assert real["topics"] == {topic: flow.remote_topic(topic) for topic in TOPICS if flow.should_replicate(topic)}
    assert real["topics"]["gold"] == "gold_from_A"
    assert {"silver", "__gold", "gold_from_B", "gold_from_C_from_B"}.isdisjoint(real["topics"])
    assert real["offset_syncs_topic"] == flow.policy.offset_syncs_topic("B")
    assert real["checkpoints_topic"] == flow.policy.checkpoints_topic("A")
    rules = config_rules(flow.sync)
    assert [key for key in ("retention.ms", "segment.ms") if rules.is_copied(key)] == ["retention.ms"]
    assert [group for group in ("gold-1", "other") if flow.offsets.groups.accepts(group)] == ["gold-1"]


def test_a_circle_of_flows_that_keep_names_is_refused_for_a_class_of_java_too(classes: Path) -> None:
    where, kept = plugin_path(classes, kafka_libs()), "replication.policy.class = acme.Kept"
    assert understood(where, kept).flows[0].remote_topic("orders") == "orders"
    with pytest.raises(ConfigError, match="round and round"):
        understood(where, kept, "B->A.enabled = true")


def test_what_a_config_provider_of_java_has_is_used_and_never_shown(classes: Path) -> None:
    provider = ["config.providers = v", "config.providers.v.class = acme.Vault", "config.providers.v.param.answer = 42"]
    where = plugin_path(classes, kafka_libs())
    config = understood(where, *provider, "A->B.offsets.storage.topic = ${v:here:it}")
    assert config.flows[0].offset_storage_topic == "42-here-it"
    assert "acme.Vault" not in config.text
    for key, words in (("nothing", "acme.Vault has no such key"), ("sealed", "IllegalStateException: the vault is")):
        with pytest.raises(ConfigError, match=f"mm2:9: .*leads nowhere: .*{words}"):
            understood(where, *provider, f"A->B.offsets.storage.topic = ${{v:here:{key}}}")


def test_what_a_class_throws_is_reported_also_where_spark_runs(classes: Path, tmp_path: Path) -> None:
    context = launch_context(1, tmp_path)
    try:
        open_session(
            context
        )  # PySpark then asks Spark's JVM about exceptions of all, whose objects have numbers there too
        vault = JavaInstance("acme.Vault", PROVIDER, {"answer": "42"}, ClassPath((str(classes), str(kafka_libs()))))
        for _ in range(40):
            with pytest.raises(SparkMirrorError, match=r"threw java.lang.IllegalStateException: the vault is sealed"):
                vault.provided("here", "sealed")
    finally:
        context.stop()


def jvm_of_plugins() -> psutil.Process:
    """A child of this process, which may have others, and some that have just ended."""
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            found += [child] if "py4j.GatewayServer" in child.cmdline() else []
    (java,) = found
    return java


def test_a_jvm_that_was_killed_is_replaced_by_another(classes: Path) -> None:
    (flow,) = understood(plugin_path(classes, kafka_libs()), *NAMING).flows
    assert flow.remote_topic("before") == "before_from_A"
    java = jvm_of_plugins()
    os.kill(java.pid, signal.SIGKILL)
    java.wait(60)
    assert flow.remote_topic("after") == "after_from_A"


def test_its_port_is_on_loopback_and_refuses_who_lacks_the_secret(classes: Path) -> None:
    understood(plugin_path(classes, kafka_libs()), *NAMING)
    port = int(os.environ["_SPARKMIRROR_PLUGINS"].partition(":")[0])
    java = jvm_of_plugins()
    listening = {one.laddr for one in java.net_connections() if one.status == psutil.CONN_LISTEN}
    assert {(one.ip.removeprefix("::ffff:"), one.port) for one in listening} == {("127.0.0.1", port)}
    for secret in (None, "guessed"):
        stranger = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=secret, read_timeout=30))
        with pytest.raises(Py4JError):
            stranger.jvm.java.lang.System.currentTimeMillis()


def test_a_child_process_asks_the_same_jvm_which_ends_with_its_owner(classes: Path, tmp_path: Path) -> None:
    file, program = tmp_path / "own.properties", tmp_path / "program.py"
    file.write_text(FILE + "\n".join([plugin_path(classes, kafka_libs()), *NAMING]))
    program.write_text(
        "import json, subprocess, sys, psutil\n"
        "from sparkmirror.config.flow.flows import load_config\n"
        f"flow = load_config({str(file)!r}).flows[0]\n"
        "if sys.argv[1:]:\n"
        "    print(flow.remote_topic('x'), len(psutil.Process().children()))\n"
        "    sys.exit()\n"
        "child = subprocess.run([sys.executable, __file__, 'child'], capture_output=True, text=True)\n"
        "found = [one for one in psutil.Process().children() if 'py4j.GatewayServer' in one.cmdline()]\n"
        "print(json.dumps([child.stdout.strip(), [one.pid for one in found]]))\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "_SPARKMIRROR_PLUGINS"}
    command = [sys.executable, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, env=environment)
    said, jvms = json.loads(done.stdout)
    assert said == "x_from_A 0"
    assert len(jvms) == 1
    wait_until(lambda: is_gone(jvms[0]), "the JVM ends with the process that launched it")


@pytest.mark.parametrize(
    ("line", "libs", "words"),
    [
        ("replication.policy.class = acme.Missing", True, "names a Java class that is not in /.*, /.*: its jar, and"),
        ("replication.policy.class = acme.Tagged", True, "does not implement org.apache.kafka.connect.mirror.Replic"),
        ("replication.policy.class = acme.Suffixed", True, "threw java.lang.IllegalArgumentException: replication.po"),
        ("replication.policy.class = acme.Suffixed", False, "needs org.apache.kafka.connect.mirror.ReplicationPolicy"),
        ("topic.filter.class = java.lang.Integer", True, "it threw java.lang.NoSuchMethodException"),
        ("forwarding.admin.class = acme.Admin", True, "names a class that cannot be used here; known are org.apache"),
    ],
)
def test_a_class_that_cannot_be_used_is_reported_with_its_line(
    classes: Path, line: str, words: str, *, libs: bool
) -> None:
    places = [classes, kafka_libs()] if libs else [classes]
    with pytest.raises(ConfigError, match=f"^mm2:6: `{line}` .*{words}"):
        understood(plugin_path(*places), line)


def test_the_command_line_and_the_environment_name_jars_too(classes: Path, tmp_path: Path) -> None:
    file = tmp_path / "own.properties"
    file.write_text(FILE + "\n".join(NAMING))
    command = [str(Path(sys.executable).with_name("sparkmirror")), "config", "check", str(file)]

    def check(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env=os.environ | environment,
        )

    alone = check()
    assert alone.returncode == 2
    assert (
        "own.properties:5: `replication.policy.class = acme.Suffixed` names a Java class, and nothing says where"
        in (alone.stdout + alone.stderr)
    )
    assert check("--jars", f"{classes},{kafka_libs()}").returncode == 0
    assert check(CLASSPATH=f"{classes}:{kafka_libs()}/*").returncode == 0
