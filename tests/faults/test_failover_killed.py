"""`sparkmirror failover run` killed between its acts and run again, on a source with an authorizer.

Each run is killed where it writes its journal: when a step is noted and nothing is done, or when it is done and not
noted. What it has done by then is done again by the next run, once; its fence is felt by an ordinary client.
"""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from tests.brokers.grants import grant
from tests.brokers.offset_story import Story, told
from tests.faults.test_lost_records import delete_topic
from tests.waiting import wait_until

from sparkmirror.kafka.acls import describe_acls
from sparkmirror.kafka.answers import LITERAL, AclBinding
from sparkmirror.kafka.errors import RequestRefused
from sparkmirror.kafka.group_answers import Committed, GroupOffsets
from sparkmirror.kafka.publish import publish
from sparkmirror.ledger import connect
from sparkmirror.model import TopicPartition
from sparkmirror.sync.acls import fence_of
from sparkmirror.testing.kafka import KafkaCluster

PROGRAM = Path(__file__).with_name("killed_program.py")
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
SHOP = ("PLAIN", "shop", "shop-secret")


@pytest.fixture
def fenced_source() -> Iterator[KafkaCluster]:
    """Who comes in plain is an administrator, `shop` is nobody special."""
    with KafkaCluster(name="fenced", sasl=SHOP, config=AUTHORIZER) as cluster:
        yield cluster


def test_a_failover_that_is_killed_between_its_acts_goes_on_and_back(
    fenced_source: KafkaCluster, target_cluster: KafkaCluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    source, target = ({"bootstrap.servers": one.bootstrap_servers} for one in (fenced_source, target_cluster))
    with told(source, target, unique("east")) as story:
        alias = story.flow.name.source
        topic, group = f"orders-{alias}", f"billing-{alias}"
        story.make_topic(topic)
        orders, remote = TopicPartition(topic, 0), TopicPartition(story.flow.remote_topic(topic), 0)
        story.map(orders, (0, 100, 0), (100, 150, 102))
        wait_until(lambda: _commit(story, group, {orders: Committed(120, "a note")}), "the group's coordinator is up")
        shop = _Shop(fenced_source, story, topic)
        run = _Runs(tmp_path, story)
        assert shop.sells() == "", "before the failover"

        run.dies("after 1")
        assert _fences(story) == set(), "it is noted, not done"
        run.dies("before 1")
        assert _fences(story) == {fence_of(topic)}, "it is done, not noted"
        assert shop.sells() == "TOPIC_AUTHORIZATION_FAILED"
        run.dies("after 2", "--drain-seconds", "30")
        key = connect.encode_key(story.flow.connector, orders)
        publish(story.flow.target, story.topics.offsets, [(key, connect.encode_value(301))])
        run.dies("before 1")
        run.dies("after 2")
        assert story.on_target(group) == {}
        run.dies("before 1")
        moved = {remote: Committed(122, "a note")}
        assert story.on_target(group) == moved

        said = run.ends()
        assert said.splitlines()[:2] == [
            f"fence: nobody but super users may write to 1 topics of {alias} (before)",
            "drain: all 1 partitions are mirrored up to where they ended when this step began (before)",
        ]
        assert (_fences(story), story.on_target(group)) == ({fence_of(topic)}, moved)

        run.dies("before 1", "--undo")
        assert story.on_target(group) == moved, "nothing is undone that the journal does not say"
        run.dies("before 2", "--undo")
        assert story.on_target(group) == {}, "the last step is taken back first"
        assert shop.sells() == "TOPIC_AUTHORIZATION_FAILED"
        run.dies("after 3", "--undo")
        assert _fences(story) == {fence_of(topic)}, "the drain is taken back, the fence is not"
        run.ends("--undo")
        assert (_fences(story), story.on_target(group)) == (set(), {})
        assert shop.sells() == "", "everything is as before"

        delete_topic(fenced_source.bootstrap_servers, topic)
        run.dies("after 1")
        run.dies("before 1")
        assert _fences(story) == {fence_of(topic)}, "a topic that is mirrored, and may be made again, is fenced too"


def _commit(story: Story, group: str, offsets: GroupOffsets) -> bool:
    with suppress(RequestRefused):
        story.commit(group, offsets)
        return True
    return False


def _fences(story: Story) -> set[AclBinding]:
    return {one for one in describe_acls(story.source) or () if one.permission == "DENY"}


class _Shop:
    """An ordinary client of the source, which may do all with one topic until somebody denies it."""

    def __init__(self, cluster: KafkaCluster, story: Story, topic: str) -> None:
        allowed = AclBinding(topic, LITERAL, "User:shop", "*", "ALL", "ALLOW")
        grant(story.source, allowed)
        self._topic = topic
        mechanism, user, password = SHOP
        self._client = {
            "bootstrap.servers": cluster.bootstrap_servers_sasl,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "message.timeout.ms": 60_000,
        }

    def sells(self) -> str:
        """The name of the broker's refusal, empty where it takes the record."""
        refused: list[KafkaError] = []
        producer = Producer(self._client)
        try:
            producer.produce(self._topic, b"sold", on_delivery=lambda error, _: error and refused.append(error))
        except KafkaException as problem:
            refused.append(problem.args[0])
        assert producer.flush(90) == 0
        return str(refused[0].name()) if refused else ""


class _Runs:
    """`sparkmirror failover run FILE`, again and again."""

    def __init__(self, directory: Path, story: Story) -> None:
        self._file = directory / "failover.properties"
        self._file.write_text(story.config.text)

    def _run(self, place: str, arguments: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        wanted = ["failover", "run", str(self._file), "--fence", *arguments]
        program = [sys.executable, str(PROGRAM), *place.split(), *wanted]
        return subprocess.run(program, capture_output=True, text=True, timeout=120)

    def dies(self, place: str, *arguments: str) -> None:
        done = self._run(place, arguments)
        assert done.returncode == -signal.SIGKILL, done.stderr

    def ends(self, *arguments: str) -> str:
        done = self._run("after 0", arguments)
        assert done.returncode == 0, done.stderr
        return done.stderr
