"""A source that gives nothing although its log goes on: that is no end of the log, unless it lasts."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.faults.hollow_answers import HollowProxy
from tests.faults.numbered import create_topic
from tests.faults.story import Story
from tests.faults.test_lost_records import list_gaps
from tests.scenarios.data import numbered, write

from sparkmirror.testing.kafka import KafkaCluster

pytestmark = pytest.mark.long

FIRST, RECORDS = 617, 1_234
"""Their eight bytes stand in no other field of a request."""


@pytest.fixture(scope="module")
def proxy() -> Iterator[HollowProxy]:
    with HollowProxy() as made:
        yield made


@pytest.fixture(scope="module")
def hollow_source(proxy: HollowProxy) -> Iterator[KafkaCluster]:
    """A broker that clients reach by the proxy alone."""
    own = {1: {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}}
    with KafkaCluster(name="hollow", broker_config=own) as cluster:
        proxy.server_port = cluster.broker(1).port
        yield cluster


@pytest.fixture
def story(
    tmp_path: Path,
    hollow_source: KafkaCluster,
    proxy: HollowProxy,
    target_cluster: KafkaCluster,
    unique: Callable[[str], str],
) -> Iterator[Story]:
    """Of one partition, of which `FIRST` records are mirrored and the others have come since."""
    made = Story(
        tmp_path, f"127.0.0.1:{proxy.port}", target_cluster.bootstrap_servers, unique("A"), unique("numbers"),
        partitions=1,
    )  # fmt: skip
    client = {"bootstrap.servers": made.source}
    create_topic(made.source, made.topic, 1)
    write(client, made.topic, numbered(0, FIRST))
    with made.run("--once") as run:
        assert run.finish().status == 0
    write(client, made.topic, numbered(FIRST, RECORDS))
    proxy.hollow(FIRST, RECORDS)
    yield made
    proxy.heal()


def test_what_a_source_does_not_give_for_a_while_is_waited_for_and_mirrored(story: Story, proxy: HollowProxy) -> None:
    with story.run("--once") as run:
        before = proxy.fetches
        run.wait_until(lambda: proxy.fetches > before + 4, "the source was asked again and again")
        proxy.heal()
        ended = run.finish()
    assert ended.status == 0, ended.errors
    assert story.arrived() == [RECORDS], "what the source gave later is missing"
    assert list_gaps(story) == []


def test_what_a_source_never_gives_is_reported_as_a_gap(story: Story) -> None:
    with story.run("--once") as run:
        ended = run.finish()
    assert ended.status == 0, ended.errors
    assert story.arrived() == [FIRST]
    (gap,) = list_gaps(story)
    found = (gap["cause"], gap["expected"], gap["resumed"], gap["lost_records"], gap["action"])
    assert found == ("empty", FIRST, RECORDS, RECORDS - FIRST, "went on")
