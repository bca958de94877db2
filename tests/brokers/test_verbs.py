"""The verbs that look, on two clusters of their own: what they print is what docs/operating.md shows.

No mirror runs: the offset map and positions are written by hand.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import examples
from tests.brokers.offset_story import Story, told
from tests.oracle import Client
from tests.scenarios.data import make_topics, numbered, write

from sparkmirror.cli.main import main
from sparkmirror.kafka.group_answers import Committed
from sparkmirror.kafka.groups import commit_group_offsets, read_group_offsets
from sparkmirror.kafka.publish import publish
from sparkmirror.ledger import connect
from sparkmirror.model import TopicPartition
from sparkmirror.testing.kafka import KafkaCluster

ORDERS = [TopicPartition("orders", number) for number in range(2)]
Verb = Callable[..., Any]


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[Client, Client]]:
    """Topics and groups of other tests would show in what is printed here."""
    with KafkaCluster(name="east") as east, KafkaCluster(name="backup") as backup:
        yield {"bootstrap.servers": east.bootstrap_servers}, {"bootstrap.servers": backup.bootstrap_servers}


@pytest.fixture(scope="module")
def story(clusters: tuple[Client, Client]) -> Iterator[Story]:
    """east->backup, as a mirror leaves it: orders is mirrored, bills not yet, three topics are left out."""
    source, target = clusters
    lines = ("topics = orders, bills", "groups = billing, audit, late", "groups.exclude = late")
    with told(source, target, "east", *lines, "sync.group.offsets.enabled = true") as story:
        story.make_topic("orders", 2)
        make_topics(source, {"metrics": 1, "orders.internal": 1, "backup.refunds": 1})
        make_topics(source, {"bills": 3}, {"max.message.bytes": "2000000"})
        make_topics(target, {"east.bills": 1})
        for where in ORDERS:
            story.map(where, (0, 100, 0), (101, 49, 100))
            key, value = connect.encode_key(story.flow.connector, where), connect.encode_value(150)
            publish(story.flow.target, story.flow.offset_storage_topic, [(key, value)])
        read_group_offsets(story.target, "billing")  # a new cluster's first group takes a moment
        commit_group_offsets(story.source, "billing", {ORDERS[0]: Committed(121), ORDERS[1]: Committed(150)})
        commit_group_offsets(story.source, "late", {ORDERS[0]: Committed(1)})
        story.job()
        write(target, "east.orders", numbered(0, 2, partitions=2))
        yield story


@pytest.fixture
def verb(story: Story, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Verb:
    """`verb("topics", "--all")` runs `sparkmirror topics FILE --all`: its output, or with json what it means."""
    file = tmp_path / "mirror.properties"
    file.write_text(story.config.text)

    def run(name: str, *arguments: str, status: int = 0) -> Any:
        assert main([name, str(file), *arguments]) == status
        said = capsys.readouterr().out
        return json.loads(said) if "json" in arguments else said

    return run


def test_topics_says_what_is_mirrored_and_why_the_rest_is_not(verb: Verb) -> None:
    (flow,) = verb("topics", "--format", "json")
    states = {line["topic"]: line["state"] for line in flow["topics"] if line["state"] != "INTERNAL"}
    assert states == {
        "backup.refunds": "LOOP",
        "bills": "SMALLER",
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
