"""Six clusters in three data centres, each with a mirror for what leads into its own: Kafka's documented example.

The file is the documentation's, with the addresses of real brokers. Topics pass on from cluster to cluster, but never
back to one that they have been to: where they get to is worked out here by walking the arrows.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.oracle import Client, assert_same, count_records, list_topics, read_topic
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import StartMirror

from sparkmirror.client import NO_HOPS, MirrorClient
from sparkmirror.ledger.mirror_records import Heartbeat
from sparkmirror.testing.kafka import KafkaCluster

DOCUMENTED = Path(__file__).parents[1] / "unit" / "config" / "files" / "six-clusters.properties"
CENTRES = ("west", "east", "north")
ARROWS = {
    **{f"{centre}-1": [f"{centre}-2", *(f"{other}-1" for other in CENTRES if other != centre)] for centre in CENTRES},
    **{f"{centre}-2": [f"{centre}-1"] for centre in CENTRES},
}
HEAP_MB = 160
SPREAD_SECONDS_MAX = 420.0
LINES = """
replication.factor = 1
offset.storage.replication.factor = 1
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
refresh.topics.interval.seconds = 1
"""


@pytest.fixture(scope="module")
def clusters() -> Iterator[dict[str, Client]]:
    with ExitStack() as cleanup:
        started = {alias: cleanup.enter_context(KafkaCluster(name=alias, heap_mb=HEAP_MB)) for alias in sorted(ARROWS)}
        yield {alias: {"bootstrap.servers": cluster.bootstrap_servers} for alias, cluster in started.items()}


def documented_file(clusters: Mapping[str, Client]) -> str:
    text = DOCUMENTED.read_text()
    for alias, client in clusters.items():
        assert f"= {alias}:9092\n" in text
        text = text.replace(f"= {alias}:9092\n", f"= {client['bootstrap.servers']}\n")
    return text + LINES


def paths_from(home: str) -> Iterator[tuple[str, ...]]:
    """All ways along the arrows that come to no cluster twice, `(home, next, …)`, each at least one arrow long."""
    waiting: list[tuple[str, ...]] = [(home,)]
    while waiting:
        path = waiting.pop()
        for target in ARROWS[path[-1]]:
            if target not in path:
                waiting.append((*path, target))
                yield waiting[-1]


def remote_name(path: tuple[str, ...], topic: str) -> str:
    """The name at the path's end, after every cluster before it: `east-1.west-1.orders`."""
    return ".".join([*reversed(path[:-1]), topic])


def heard_from(client: Client) -> set[str]:
    """The clusters whose heartbeats are on this one: from each mirror's own, and mirrored."""
    with MirrorClient({"bootstrap.servers": client["bootstrap.servers"]}) as there:
        return {alias for alias in ARROWS if there.replication_hops(alias) != NO_HOPS}


def beaten_for(client: Client) -> set[str]:
    """The sources in the heartbeats that were written on this cluster itself."""
    records = read_topic(client, "heartbeats").values()
    return {Heartbeat.parse(seen.key, seen.value).flow.source for partition in records for seen in partition}


@pytest.mark.long
@pytest.mark.timeout(900)
def test_three_data_centres_with_a_mirror_each(
    clusters: dict[str, Client], start_mirror: StartMirror, unique: Callable[[str], str]
) -> None:
    topic = unique("orders")
    homes = {"west-2": 30, "east-1": 40}
    for home, records in homes.items():
        make_topics(clusters[home], {topic: 2})
        write(clusters[home], topic, numbered(0, records, partitions=2))
    file = documented_file(clusters)

    def there(alias: str) -> set[str]:
        return {name for name in list_topics(clusters[alias]) if name.endswith(topic)}

    west = start_mirror(file, "--clusters", "west-1", "west-2")
    into_west = {"west-1": {f"west-2.{topic}", f"east-1.{topic}"}, "west-2": {topic, f"west-1.east-1.{topic}"}}
    west.wait_until(
        lambda: all(there(alias) == names for alias, names in into_west.items()),
        "the first data centre has what leads into it, also over two arrows",
        SPREAD_SECONDS_MAX,
    )
    assert there("east-1") == {topic} and not there("north-1"), "it consumes from far and produces near"

    mirrors = [west, *(start_mirror(file, "--clusters", f"{name}-1", f"{name}-2") for name in CENTRES[1:])]
    copies = {(path[-1], remote_name(path, topic)): path[0] for home in homes for path in paths_from(home)}

    def have_all_arrived() -> bool:
        assert all(mirror.running for mirror in mirrors)
        return all(count_records(clusters[alias], name) == homes[home] for (alias, name), home in copies.items())

    mirrors[-1].wait_until(have_all_arrived, "every topic has come along every way", SPREAD_SECONDS_MAX)
    for alias, client in clusters.items():
        others = set(clusters) - {alias}
        mirrors[-1].wait_until(lambda client=client, others=others: heard_from(client) == others, f"{alias} hears all")
        assert beaten_for(client) == others, "a heartbeat for every ordered pair, mirrored or not"
    for mirror in mirrors:
        mirror.stop(seconds_max=60)
    for alias in clusters:
        own = {topic} if alias in homes else set()
        assert there(alias) == own | {name for where, name in copies if where == alias}, f"on {alias}"
    for (alias, name), home in copies.items():
        assert_same(read_topic(clusters[home], topic), read_topic(clusters[alias], name), f"{name} on {alias}")
