"""Two flows against each other in one file: both mirrored, nothing goes round in circles (invariant 8)."""

from collections.abc import Callable

import pytest
from tests.oracle import Client, assert_same, count_records, list_topics, read_topic
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import StartMirror, flow_file


def test_flows_in_both_directions_mirror_each_others_topics_once(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    story, east, west = unique("both"), unique("east"), unique("west")
    clients = {east: source, west: target}
    other = {east: west, west: east}
    for name, client in clients.items():
        make_topics(client, {f"{story}.from-{name}": 2})
        write(client, f"{story}.from-{name}", numbered(0, 100, partitions=2))
    text = flow_file(source, target, alias=east, topics=f".*{story}.*", lines=["refresh.topics.interval.seconds = 1"])
    text = text.replace("backup", west) + f"{west}->{east}.enabled = true\n"

    def arrived(topic: str) -> bool:
        return all(count_records(clients[other[name]], f"{name}.{topic}-{name}") == 100 for name in clients)

    mirror = start_mirror(text)
    mirror.wait_until(lambda: arrived(f"{story}.from"), "both topics arrive")
    # A second topic each way: once they are there, later rounds have seen the first ones' remote topics.
    for name, client in clients.items():
        make_topics(client, {f"{story}.late-{name}": 1})
        write(client, f"{story}.late-{name}", numbered(0, 100))
    mirror.wait_until(lambda: arrived(f"{story}.late"), "both later topics arrive")
    mirror.stop()
    for name, client in clients.items():
        own = {f"{story}.{word}-{name}" for word in ("from", "late")}
        copies = {f"{other[name]}.{story}.{word}-{other[name]}" for word in ("from", "late")}
        assert {topic for topic in list_topics(client) if story in topic} == own | copies
        for topic in own:
            assert_same(read_topic(client, topic), read_topic(clients[other[name]], f"{name}.{topic}"), topic)


@pytest.mark.long
def test_two_flows_for_which_spark_has_one_slot_take_turns(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    story, east, west = unique("turns"), unique("east"), unique("west")
    clients = {east: source, west: target}
    other = {east: west, west: east}
    for name, client in clients.items():
        make_topics(client, {f"{story}.from-{name}": 2})
    text = flow_file(source, target, alias=east, topics=f"{story}.*").replace("backup", west)
    mirror = start_mirror(f"{text}{west}->{east}.enabled = true\n", "--master", "local[1]")
    for round_ in (1, 2):
        for name, client in clients.items():
            write(client, f"{story}.from-{name}", numbered(0, 100, partitions=2))
        mirror.wait_until(
            lambda wanted=100 * round_: all(
                count_records(clients[other[name]], f"{name}.{story}.from-{name}") == wanted for name in clients
            ),
            f"both flows mirror, round {round_}",
            240,
        )
    assert "has 1 slot for 2 tasks" in mirror.errors
    assert "1 of 1 run, in turns of 10 s" in mirror.errors
    mirror.stop()
    for name, client in clients.items():
        topic = f"{story}.from-{name}"
        assert_same(read_topic(client, topic), read_topic(clients[other[name]], f"{name}.{topic}"), topic)
