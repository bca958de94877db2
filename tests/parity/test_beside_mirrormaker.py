"""MirrorMaker 2 4.3 and we run beside each other with one file but for the source's alias: its user's own Java classes
name and choose topics, and a Java client reads the MBeans of both.
"""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient
from tests.oracle import DEADLINE_SECONDS_LEAST, Client, count_records, list_topics
from tests.parity.mirror_maker import mirror_maker
from tests.parity.plugin_jar import compile_classes, kafka_libs
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import Mirror

from sparkmirror.client import MirrorClient
from sparkmirror.java import find_java
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.group_answers import Committed
from sparkmirror.kafka.groups import commit_group_offsets
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.policy.naming import DefaultReplicationPolicy
from sparkmirror.testing.kafka import KafkaCluster
from sparkmirror.testing.ports import PortReservation
from sparkmirror.testing.process import QUICK_START

pytestmark = pytest.mark.long

PROGRAM = Path(__file__).with_name("Beans.java")
SECONDS_MAX = max(180.0, DEADLINE_SECONDS_LEAST)
MIRROR_BEANS, CONNECT_BEANS = "kafka.connect.mirror:type=Mirror*,*", "kafka.connect:type=*-task-metrics,*"
NEW_BEANS = "kafka.connect:type=plugins,*"
FILE = """clusters = {alias}, backup
{alias}.bootstrap.servers = {source}
backup.bootstrap.servers = {target}
{alias}->backup.enabled = true
{alias}->backup.acme.word = {word}
replication.policy.class = acme.Suffixed
replication.policy.acme.between = _from_
topic.filter.class = acme.Tagged
group.filter.class = acme.Tagged
config.property.filter.class = acme.Tagged
emit.heartbeats.enabled = false
heartbeats.replication.enabled = false
sync.topic.acls.enabled = false
replication.factor = 1
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
offset.storage.replication.factor = 1
config.storage.replication.factor = 1
status.storage.replication.factor = 1
refresh.topics.interval.seconds = 1
refresh.groups.interval.seconds = 1
sync.topic.configs.interval.seconds = 1
emit.checkpoints.interval.seconds = 1
offset.lag.max = 0
metric.names.formats = legacy, new
"""


@dataclass(frozen=True)
class Pair:
    """Both mirrors, by the alias that each has for the source, with JMX ports. `word` begins every wanted name."""

    source: Client
    target: Client
    word: str
    ports: dict[str, int]
    ours: str
    mirror: Mirror

    def await_that(self, what: str, is_met: Callable[[str], object]) -> None:
        """That it is so for both."""
        for alias in self.ports:
            self.mirror.wait_until(lambda alias=alias: is_met(alias), f"{what} ({alias})", SECONDS_MAX)

    def beans(self, alias: str, pattern: str) -> dict[str, dict[str, str]]:
        """Attributes by name, both as of an alias that is nobody's."""
        java = [
            str(find_java()),
            *QUICK_START,
            "-cp",
            f"{kafka_libs()}/*",
            str(PROGRAM),
            str(self.ports[alias]),
            pattern,
        ]
        done = subprocess.run(java, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        lines = (line.replace(alias, "S").split("\t") for line in done.stdout.splitlines())
        return {name: dict(pair.split("=", 1) for pair in values[1:-1].split(", ")) for name, values in lines}


@pytest.fixture(scope="module")
def pair(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    directory = tmp_path_factory.mktemp("beside")
    (directory / "classes").mkdir()
    classes = compile_classes(directory / "classes")
    mark = directory.name.replace("-", "") + str(os.getpid())
    word, theirs, ours = f"gold{mark}", f"theirs{mark}", f"ours{mark}"
    source = {"bootstrap.servers": source_cluster.bootstrap_servers}
    target = {"bootstrap.servers": target_cluster.bootstrap_servers}
    make_topics(source, {f"{word}-orders": 2, f"{word}-empty": 1, f"silver{mark}": 1}, {"retention.ms": "86400000"})
    write(source, f"{word}-orders", numbered(0, 300, partitions=2))
    write(source, f"silver{mark}", numbered(0, 5))
    commit(source, {f"{word}-billing": f"{word}-orders", f"other{mark}": f"{word}-orders"})
    where = {"source": source["bootstrap.servers"], "target": target["bootstrap.servers"], "word": word}
    remote = "-Dcom.sun.management.jmxremote"
    with ExitStack() as cleanup:
        ports = dict(zip((theirs, ours), cleanup.enter_context(PortReservation(2)).ports, strict=True))
        options = [f"{remote}.port={ports[theirs]}", f"{remote}.authenticate=false", f"{remote}.ssl=false"]
        real = cleanup.enter_context(
            mirror_maker(directory, FILE.format(alias=theirs, **where), classes=classes, options=options)
        )
        real.launch()
        plugins = f"plugin.path = {classes}\n"
        environment = {**os.environ, "JMX_PORT": str(ports[ours])}
        mirror = Mirror(
            directory,
            plugins + FILE.format(alias=ours, **where),
            ["--jars", str(kafka_libs())],
            environment=environment,
        )
        cleanup.callback(mirror.close)
        found = Pair(source, target, word, ports, ours, mirror)
        real.wait_until(lambda: has_records(target, f"{word}-orders_from_{theirs}", 300), "mirrors", SECONDS_MAX)
        found.await_that("mirrors", lambda alias: has_records(target, f"{word}-orders_from_{alias}", 300))
        yield found
        mirror.stop()


def commit(source: Client, groups: dict[str, str]) -> None:
    """Each has read partition 0 of its topic to the end: MirrorMaker translates no offset below its own start."""
    cluster = Cluster("source", dict(source))
    with open_admin(cluster, "test") as admin:
        for group, topic in groups.items():
            assert commit_group_offsets(admin, group, {TopicPartition(topic, 0): Committed(150)}) == {}


def test_the_same_topics_settings_and_groups_arrive(pair: Pair) -> None:
    names = {f"{pair.word}-orders_from_S", f"{pair.word}-empty_from_S"}

    def remote(alias: str) -> set[str]:
        return {name.replace(alias, "S") for name in list_topics(pair.target) if name.endswith(f"_from_{alias}")}

    pair.await_that("the filter's topics alone are there", lambda alias: remote(alias) == names)
    with open_admin(Cluster("backup", dict(pair.target)), "test") as admin:
        for alias in pair.ports:
            topic = f"{pair.word}-orders_from_{alias}"
            kept = {key for key, entry in admin.describe_configs([topic])[topic].items() if entry.is_override}
            assert "retention.ms" in kept, alias
    with MirrorClient(dict(pair.target), DefaultReplicationPolicy()) as client:

        def groups(alias: str) -> dict[str, set[str]]:
            found = client.remote_group_offsets(".*", alias)
            return {group: {where.topic.replace(alias, "S") for where in offsets} for group, offsets in found.items()}

        wanted = {f"{pair.word}-billing": {f"{pair.word}-orders_from_S"}}
        pair.await_that("the filter's group alone has a checkpoint", lambda alias: groups(alias) == wanted)


def test_a_java_client_sees_the_same_mbeans_with_the_same_attributes(pair: Pair) -> None:
    theirs, ours = pair.ports

    def shape(alias: str, pattern: str) -> dict[str, dict[str, str]]:
        """Types by attribute, by name."""
        beans = pair.beans(alias, pattern)
        return {name: {key: value.split(" ")[0] for key, value in values.items()} for name, values in beans.items()}

    group = f"kafka.connect.mirror:type=MirrorCheckpointConnector,source=S,target=backup,group={pair.word}-billing"
    pair.await_that("the group's bean", lambda alias: any(one.startswith(group) for one in shape(alias, MIRROR_BEANS)))
    real = shape(theirs, MIRROR_BEANS)
    assert len(real) == 4
    pair.mirror.wait_until(
        lambda: shape(ours, MIRROR_BEANS) == real, f"it has MirrorMaker's beans: {real}", SECONDS_MAX
    )
    pair.mirror.wait_until(
        lambda: shape(ours, NEW_BEANS) == shape(theirs, NEW_BEANS), "and those with new names", SECONDS_MAX
    )
    assert len(shape(theirs, NEW_BEANS)) == 4
    connect, of_real = shape(ours, CONNECT_BEANS), shape(theirs, CONNECT_BEANS)
    mine = {name for name in connect if "connector=MirrorSourceConnector" in name}
    assert mine == {f"kafka.connect:type={kind},connector=MirrorSourceConnector,task=0"
                    for kind in ("source-task-metrics", "connector-task-metrics")}  # fmt: skip
    for name in mine:
        assert connect[name].items() <= of_real[name].items(), "what we have, Connect has under the same name and type"


def test_counts_times_and_rates_mean_the_same(pair: Pair) -> None:
    theirs, ours = pair.ports
    name = f"kafka.connect.mirror:type=MirrorSourceConnector,source=S,target=backup,topic={pair.word}-orders_from_S"
    write(pair.source, f"{pair.word}-orders", numbered(300, 400, partitions=2))
    pair.await_that("all is counted", lambda alias: sum(
        number(bean["record-count"]) for at, bean in pair.beans(alias, MIRROR_BEANS).items() if at.startswith(name)
    ) == 400)  # fmt: skip
    for alias in (theirs, ours):
        bean = pair.beans(alias, MIRROR_BEANS)[f"{name},partition=0"]
        assert number(bean["byte-count"]) > 0
        assert 0 <= number(bean["replication-latency-ms-min"]) <= number(bean["replication-latency-ms-avg"])
        assert number(bean["replication-latency-ms-avg"]) <= number(bean["replication-latency-ms-max"])
        assert 0 <= number(bean["record-age-ms"]) <= 60_000
        empty = pair.beans(alias, MIRROR_BEANS)[f"{name.replace('-orders', '-empty')},partition=0"]
        assert (number(empty["record-count"]), empty["record-age-ms-avg"]) == (0, "double NaN"), "no record is no age"
    task = "kafka.connect:type=source-task-metrics,connector=MirrorSourceConnector,task=0"
    assert pair.beans(ours, CONNECT_BEANS)[task]["source-record-write-total"] == "double 400.0"
    status = task.replace("source-task", "connector-task")
    for alias in (theirs, ours):
        assert pair.beans(alias, CONNECT_BEANS)[status]["status"] == "double running"


def test_beans_come_and_go_with_topics_and_a_new_jvm_of_plugins_names_them(pair: Pair) -> None:
    for one in pair.mirror.jvms():
        if "py4j.GatewayServer" in one.cmdline():
            one.kill()
    late = f"{pair.word}-late"
    make_topics(pair.source, {late: 1})
    write(pair.source, late, numbered(0, 7))
    pair.await_that("the late topic is there", lambda alias: has_records(pair.target, f"{late}_from_{alias}", 7))

    def has_bean(alias: str) -> bool:
        return any(f"topic={late}_from_S" in name for name in pair.beans(alias, MIRROR_BEANS))

    pair.await_that("and its bean", has_bean)
    admin = AdminClient(dict(pair.source))
    admin.delete_topics([late])[late].result(60)
    pair.mirror.wait_until(lambda: not has_bean(pair.ours), "the bean is gone with its topic", SECONDS_MAX)


def test_it_listens_on_loopback_alone_and_says_that_nobody_is_asked(pair: Pair) -> None:
    port = pair.ports[pair.ours]
    (jvm,) = [one for one in pair.mirror.jvms() if "py4j.GatewayServer" not in one.cmdline()]
    listening = {one.laddr for one in jvm.net_connections() if one.status == psutil.CONN_LISTEN}
    assert {address.ip.removeprefix("::ffff:") for address in listening if address.port == port} == {"127.0.0.1"}
    assert f"JMX listens on 127.0.0.1:{port} and asks nobody who he is" in pair.mirror.errors


def has_records(client: Client, topic: str, count: int) -> bool:
    return topic in list_topics(client) and count_records(client, topic) == count


def number(value: str) -> float:
    """Of an attribute with its type."""
    kind, text = value.split(" ")
    assert kind == "double"
    return float(text)
