"""The verbs that look, on two clusters of their own: what they print is what docs/operating.md shows.

No mirror runs: the offset map and positions are written by hand.
"""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any, NamedTuple

import pytest
from tests import examples
from tests.brokers.grants import grant
from tests.brokers.offset_story import Story, told
from tests.oracle import Client
from tests.scenarios.data import Note, make_topics, numbered, write
from tests.scenarios.mirror import COMMAND

from sparkmirror.cli.main import main
from sparkmirror.kafka.answers import AclBinding
from sparkmirror.kafka.group_answers import Committed
from sparkmirror.kafka.groups import commit_group_offsets
from sparkmirror.kafka.publish import publish
from sparkmirror.ledger import connect
from sparkmirror.model import TopicPartition
from sparkmirror.stored_json import encode
from sparkmirror.telemetry.records import FlowRecord, FlowState, PartitionState, encode_key, encode_record
from sparkmirror.testing.kafka import KafkaCluster

ORDERS = [TopicPartition("orders", number) for number in range(2)]
PASSWORD = "never-shown"
CLOCK_SECONDS_MAX = 10.0
"""One clock, but half of a round trip to a busy broker counts."""
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
Verb = Callable[..., Any]


class Clusters(NamedTuple):
    """`restricted` is the target's address for a login that may do what ACLs say; who comes in plain may do all."""

    east: Client
    backup: Client
    restricted: str


@pytest.fixture(scope="module")
def clusters() -> Iterator[Clusters]:
    """Topics and groups of other tests would show in what is printed here."""
    login = ("PLAIN", "mirror", PASSWORD)
    with KafkaCluster(name="east") as east, KafkaCluster(name="backup", config=AUTHORIZER, sasl=login) as backup:
        plain = [{"bootstrap.servers": one.bootstrap_servers} for one in (east, backup)]
        yield Clusters(plain[0], plain[1], backup.bootstrap_servers_sasl)


@pytest.fixture(scope="module")
def story(clusters: Clusters) -> Iterator[Story]:
    """east->backup, as a mirror leaves it: orders is mirrored, bills not yet, three topics are left out."""
    source, target, _ = clusters
    lines = ("topics = orders, bills, fresh", "groups = billing, audit, late", "groups.exclude = late")
    with told(source, target, "east", *lines, "sync.group.offsets.enabled = true") as story:
        story.make_topic("orders", 2)
        make_topics(source, {"metrics": 1, "orders.internal": 1, "backup.refunds": 1, "fresh": 1})
        make_topics(source, {"bills": 3}, {"max.message.bytes": "2000000"})
        make_topics(target, {"east.bills": 1})
        for where in ORDERS:
            story.map(where, (0, 100, 0), (101, 49, 100))
            key, value = connect.encode_key(story.flow.connector, where), connect.encode_value(150)
            publish(story.flow.target, story.flow.offset_storage_topic, [(key, value)])
        commit_group_offsets(story.source, "billing", {ORDERS[0]: Committed(121), ORDERS[1]: Committed(150)})
        commit_group_offsets(story.source, "late", {ORDERS[0]: Committed(1)})
        story.job()
        write(target, "east.orders", numbered(0, 2, partitions=2))
        publish(story.flow.target, story.topics.status, list(_told_by_a_run()))
        yield story


def _told_by_a_run() -> Iterator[tuple[bytes, bytes]]:
    """A run that was stopped while the target refused one of two partitions."""
    run = {"run": "run-1", "epoch": 1}
    stopped = FlowRecord("run-1", FlowState.STOPPED, host="mirror-1", pid=4711)
    yield encode_record("east", stopped)
    failed = {"orders-1": "TOPIC_AUTHORIZATION_FAILED"}
    task = {"records": 300, "bytes": 12_000, "partitions": 2, "lag_records": 0, "failed": failed}
    yield encode_key("task", "east", 0), encode(run | task)
    for number, state in enumerate((PartitionState.RUNNING, PartitionState.FAILED)):
        place = {"task": 0, "offset": 150, "end": 150, "records": 150, "target_topic": "east.orders", "state": state}
        place |= {"reason": failed["orders-1"]} if number else {}
        yield encode_key("partition", "east", "orders", number), encode(run | place)


@pytest.fixture
def file(story: Story, tmp_path: Path) -> Path:
    path = tmp_path / "mirror.properties"
    path.write_text(story.config.text)
    return path


@pytest.fixture
def verb(file: Path, capsys: pytest.CaptureFixture[str]) -> Verb:
    """`verb("topics", "--all")` runs `sparkmirror topics FILE --all`: its output, or with json what it means."""

    def run(name: str, *arguments: str, status: int = 0) -> Any:
        assert main([name, str(file), *arguments]) == status
        said = capsys.readouterr().out
        return json.loads(said) if "json" in arguments else said

    return run


def test_a_flow_that_never_ran_has_nothing_to_show(story: Story, verb: Verb, tmp_path: Path) -> None:
    """At once: a topic that is not there is not waited for."""
    (tmp_path / "mirror.properties").write_text(story.config.text.replace("east", "unseen"))
    assert verb("status") == "UNKNOWN unseen->backup: no run has reported\n"
    assert verb("metrics", "--name", "sparkmirror_info") == verb("metrics", "--name", "nothing.like.it")


def test_status_and_metrics_work_without_a_running_mirror(verb: Verb, file: Path) -> None:
    (flow,) = verb("status", "--format", "json")
    states = {one["partition"]: (one["state"], one["lag"]) for one in flow["partitions"]}
    assert states == {0: ("RUNNING", 0), 1: ("FAILED", 0)}
    examples.check("operating.md", "status", verb("status", "--partitions").replace(str(file), "mm2.properties"))
    name = "kafka_connect_mirror_mirrorsourceconnector_record_count"
    examples.check("operating.md", "metrics", verb("metrics", "--name", name))


def test_status_shows_what_the_source_tells_where_the_target_does_not_answer(
    verb: Verb, file: Path, story: Story
) -> None:
    """Unknown, and no zero; status 1."""
    file.write_text(_away(story.config.text, "backup"))
    (flow,) = verb("status", "--format", "json", "--topic", "orders", status=1)
    assert flow["verdict"]["level"] == "red"
    assert flow["verdict"]["sentence"].startswith("east->backup: cluster backup: does not answer")
    assert [flow[name] for name in ("state", "lag", "records", "gaps", "records_per_second")] == [None] * 5
    assert [(one["state"], one["offset"], one["end"], one["lag"]) for one in flow["partitions"]] == [
        (None, None, 150, None)
    ] * 2


def _away(text: str, alias: str) -> str:
    """The file, with nobody at the cluster's address."""
    return re.sub(rf"(?m)^{alias}.bootstrap.servers.*$", f"{alias}.bootstrap.servers = localhost:1", text)


def test_topics_says_what_is_mirrored_and_why_the_rest_is_not(verb: Verb) -> None:
    (flow,) = verb("topics", "--format", "json")
    states = {line["topic"]: line["state"] for line in flow["topics"] if line["state"] != "INTERNAL"}
    assert states == {
        "backup.refunds": "LOOP",
        "bills": "SMALLER",
        "fresh": "MISSING",
        "metrics": "NOT INCLUDED",
        "orders": "MIRRORED",
        "orders.internal": "NOT INCLUDED",
    }
    bills = next(line for line in flow["topics"] if line["topic"] == "bills")
    assert (bills["source_partitions"], bills["target_partitions"]) == (3, 1)
    assert bills["settings_that_differ"] == ["max.message.bytes"]
    examples.check("operating.md", "topics", verb("topics"))
    assert "__consumer_offsets" in verb("topics", "--all")
    assert "bills" not in verb("topics", "--topic", "ord.*")


def test_groups_stand_on_both_sides(verb: Verb) -> None:
    (flow,) = verb("groups", "--format", "json")
    groups = {line["group"]: line for line in flow["groups"]}
    assert groups["late"]["notes"] == ["`groups.exclude` has late"]
    billing = groups["billing"]
    assert (billing["state"], billing["target_state"], billing["lag"]) == ("Empty", "Empty", 29 + 0)
    places = [(place["committed"], place["translated"], place["exact"]) for place in billing["partitions"]]
    assert places == [(121, 120, True), (150, 149, True)]
    assert [place["target_lag"] for place in billing["partitions"]] == [31, 2]
    assert all(place["checkpoint_at"] for place in billing["partitions"])
    examples.check("operating.md", "groups", verb("groups", "--partitions"))
    assert "  late " not in verb("groups", "--group", "bill.*")


def test_plan_lag_and_translate_print_what_the_docs_show(
    verb: Verb, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    examples.check("operating.md", "plan", verb("plan"))
    examples.check("operating.md", "lag", verb("lag", "--group", "billing"))
    told = verb("lag", "--group", "billing", "--format", "json")
    lags = {(one["cluster"], one["partition"]): one["lag"] for one in told}
    assert lags == {("east", 0): 29, ("east", 1): 0, ("backup", 0): 31, ("backup", 1): 2}
    assert main(["offsets", "translate", str(file), "--offset", "orders:0:121", "--offset", "orders:1:40"]) == 0
    examples.check("operating.md", "translate", capsys.readouterr().out)


def test_tail_shows_what_arrives_with_its_offsets_on_both_sides(story: Story, file: Path) -> None:
    """Records written to the target, and the map that covers them, stand in for a mirror."""
    remote = TopicPartition("east.orders", 1)
    (end,) = story.target.latest_offsets([remote]).known.values()
    chosen = ("--topic", "orders", "--partition", "1", "--count", "3", "--seconds", "60")
    with subprocess.Popen([COMMAND, "tail", file, *chosen], stdout=PIPE, stderr=PIPE, text=True) as tail:
        assert tail.stderr is not None
        assert tail.stderr.readline() == "waiting for records\n"
        at_ms = 1_795_172_400_000
        notes = [
            Note(b"12.50", b"o-17", 1, at_ms, (("trace", b"\x00\xff"),)),
            Note(None, b"o-18\x1b[2J", 1, at_ms + 1),
            Note("grün".encode(), None, 1, at_ms + 2),
        ]
        write(story.target_client, remote.topic, notes)
        story.map(ORDERS[1], (150, 3, end))
        shown, _ = tail.communicate(timeout=120)
    assert tail.returncode == 0
    assert [line.split("  ")[0] for line in shown.splitlines() if "->" in line] == [
        f"orders-1 {150 + at} -> east.orders-1 {end + at}" for at in range(3)
    ]
    examples.check("operating.md", "tail", shown)


def test_tail_says_when_there_is_nothing_to_wait_for(
    verb: Verb, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verb("tail", "--seconds", "1") == ""
    assert main(["tail", str(file), "--topic", "unheard-of"]) == 1
    assert "nothing that matches was ever mirrored" in capsys.readouterr().err


def test_doctor_finds_all_well_and_says_what_it_measured(verb: Verb) -> None:
    found = verb("doctor", "--format", "json")
    assert [one for one in found if one["level"] == "FAIL"] == []
    said = {(one["where"], one["what"]): one["said"] for one in found}
    for alias in ("east", "backup"):
        assert said[alias, "release"] == "Kafka 4.3"
        assert float(said[alias, "clock"].split(" is ")[1].split(" s ")[0]) < CLOCK_SECONDS_MAX
    assert "free on the fullest, broker 1" in said["backup", "disk"]
    assert said["backup", "creating topics"] == "1 can be created"


def test_doctor_names_what_a_login_may_not_do(
    story: Story, clusters: Clusters, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The login may read and write internal topics and write one of two remote topics, and no more."""
    internal = AclBinding("mm2-", "PREFIXED", "User:mirror", "*", "READ", "ALLOW")
    orders = AclBinding("east.orders", "LITERAL", "User:mirror", "*", "WRITE", "ALLOW")
    granted = [internal, internal._replace(operation="WRITE"), orders]
    granted += [one._replace(operation="DESCRIBE") for one in (orders._replace(topic="east.bills"), orders)]
    grant(story.target, *granted)
    lines = [line for line in story.config.text.splitlines() if not line.startswith("backup.bootstrap.servers")]
    file.write_text("\n".join([*lines, _login(clusters.restricted)]))
    assert main(["doctor", str(file)]) == 1
    shown = capsys.readouterr().out
    assert PASSWORD not in shown
    shown = shown.replace(f"{file.parent}/", "")
    rows = [line for line in shown.splitlines() if "this machine" not in line]
    examples.check("operating.md", "doctor", "\n".join(rows))
    for problem in (
        "writing the remote topics: not granted on 1 of 2, WRITE: east.bills",
        "adding partitions to remote topics: not granted on 1 of 1, ALTER: east.bills",
        "creating remote topics: 1 of 2 cannot be created (east.fresh)",
        "keeping groups in step (sync.group.offsets.enabled): not granted on 1 of 1, READ: billing",
        "fencing: transactional ids east-mm2-MirrorSourceConnector-* may not be used",
    ):
        assert problem in shown


def _login(bootstrap: str) -> str:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    client = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{module} required username="mirror" password="{PASSWORD}";',
    }
    return "\n".join(f"backup.{key} = {value}" for key, value in client.items())


def test_version_asks_every_broker_whether_it_speaks_all_that_is_needed(
    story: Story, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mirror.properties"
    file.write_text(story.config.text)
    assert main(["version", "--check", str(file), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["level"], one["where"]) for one in found] == [("OK", "east"), ("OK", "backup")]
    assert all(one["said"].endswith("speaks all that is needed") for one in found)
