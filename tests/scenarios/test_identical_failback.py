"""Over and back with identical offsets: nothing is copied twice, and logs that part are named and refused."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.oracle import Client
from tests.scenarios.data import Note, make_topics, write
from tests.scenarios.mirror import StartMirror, Verify
from tests.scenarios.test_identical_offsets import KEEPS, START, assert_identical, begin_at, places, spans
from tests.scenarios.test_transactions import write_transactions

from sparkmirror.cli.main import main

IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def one_way(clients: Mapping[str, Client], source: str, target: str, topic: str) -> str:
    """A file with that flow, whose topics keep their names and their offsets."""
    return "\n".join(
        [
            f"clusters = {source}, {target}",
            *(f"{name}.{key} = {value}" for name, client in clients.items() for key, value in client.items()),
            f"{source}->{target}.enabled = true",
            f"topics = {topic}",
            "replication.factor = 1",
            "offset.storage.replication.factor = 1",
            "heartbeats.replication.enabled = false",
            f"{source}.consumer.isolation.level = read_committed",
            IDENTITY,
            KEEPS,
            "",
        ]
    )


def notes(name: str, partitions: Sequence[int]) -> list[Note]:
    return [Note(f"{name} {at}".encode(), b"k", one) for one in partitions for at in range(100)]


@pytest.mark.long
def test_a_planned_way_over_and_back_copies_nothing_twice_and_refuses_logs_that_part(
    source: Client,
    target: Client,
    unique: Callable[[str], str],
    start_mirror: StartMirror,
    verify: Verify,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic, a, b = unique("ledger"), unique("east"), unique("west")
    clients = {a: source, b: target}
    over, back = one_way(clients, a, b, topic), one_way(clients, b, a, topic)

    def fail_back(text: str, kind: str) -> Any:
        file = tmp_path / "failback.properties"
        file.write_text(text)
        capsys.readouterr()
        assert main(["failback", kind, str(file), "--format", "json"]) == 0
        return json.loads(capsys.readouterr().out)["kept_offsets"]

    def mirror(text: str) -> str:
        return start_mirror(text, "--once").finish().errors

    make_topics(source, {topic: 3})
    begin_at(source, topic, START)
    write_transactions(source, topic, unique("writer"))
    write(source, topic, notes("first", (0, 1, 2)))
    mirror(over)
    assert_identical(source, target, topic, topic, 3)

    write(source, topic, [Note(b"only on the old primary", b"k", 2)])
    before = spans(source, topic, 3)
    (_, end) = spans(target, topic, 3)[2]
    told = {one["partition"]: one["parted"] for one in fail_back(over, "plan")}
    assert (told[0], told[1]) == ("", "")
    assert f"the logs part at offset {end}: the 1 offsets from there on are on {a} alone" in told[2]
    fail_back(over, "run")
    errors = mirror(back)
    assert f"{topic}-2" in errors and f"the target's log ends at offset {end + 1}, and its source's at {end}" in errors
    assert f"{topic}-0" not in errors and f"{topic}-1" not in errors
    assert spans(source, topic, 3) == before, "no record is copied"

    write(target, topic, notes("on the other side", (0, 1)))
    mirror(back)
    here, there = (places({**client, "isolation.level": "read_committed"}, topic) for client in (source, target))
    assert (here[0], here[1]) == (there[0], there[1])
    assert here[0][-1][2] == b"on the other side 99"

    assert {one["parted"] for one in fail_back(back, "run")} == {""}
    write(source, topic, notes("home again", (0, 1)))
    mirror(over)
    assert_identical(source, target, topic, topic, 3)
    assert places(target, topic)[2][-1][2] == b"only on the old primary"
    status, output, _ = verify(over)
    assert (status, "offsets are identical in 3 partitions" in output) == (0, True), output


@pytest.mark.long
def test_logs_that_part_are_accepted_and_no_record_of_either_cluster_is_lost(
    source: Client,
    target: Client,
    unique: Callable[[str], str],
    start_mirror: StartMirror,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic, a, b = unique("ledger"), unique("east"), unique("west")
    clients = {a: source, b: target}
    over, back = one_way(clients, a, b, topic), one_way(clients, b, a, topic)
    file = tmp_path / "failback.properties"
    file.write_text(over)

    def accept(*words: str) -> str:
        capsys.readouterr()
        assert main(["failback", "accept", str(file), "--topic", topic, "--reason", "a lost site", *words]) == 0
        return capsys.readouterr().out

    make_topics(source, {topic: 1})
    write(source, topic, notes("first", (0,)))
    start_mirror(over, "--once").finish()
    write(source, topic, [Note(b"only on the old primary", b"k", 0)])
    assert main(["failback", "run", str(file)]) == 0
    write(target, topic, notes("on the other side", (0,)))
    assert f"{topic}-0" in start_mirror(back, "--once").finish().errors, "it is refused until somebody accepts it"

    assert "keeps what it has from offset 100 on" in accept()
    assert f"{topic}-0" in start_mirror(back, "--once").finish().errors, "without --execute nothing is accepted"
    accept("--execute")
    assert "is accepted already" in accept()
    start_mirror(back, "--once").finish()
    values = [place[2] for place in places(source, topic)[0]]
    first, other = ([note.value for note in notes(name, (0,))] for name in ("first", "on the other side"))
    assert values == [*first, b"only on the old primary", *other]


@pytest.mark.long
def test_what_is_left_out_where_logs_part_is_no_difference_and_all_behind_it_is_compared(
    source: Client,
    target: Client,
    unique: Callable[[str], str],
    start_mirror: StartMirror,
    verify: Verify,
    tmp_path: Path,
) -> None:
    topic, a, b = unique("ledger"), unique("east"), unique("west")
    clients = {a: source, b: target}
    over, back = one_way(clients, a, b, topic), one_way(clients, b, a, topic)
    file = tmp_path / "failback.properties"
    file.write_text(over)
    make_topics(source, {topic: 1})
    write(source, topic, notes("first", (0,)))
    start_mirror(over, "--once").finish()
    write(source, topic, notes("only on the old primary", (0,))[:30])
    assert main(["failback", "run", str(file)]) == 0
    write(target, topic, notes("on the other side", (0,)))
    words = ("--topic", topic, "--reason", "a lost site", "--leave-out", "--execute")
    assert main(["failback", "accept", str(file), *words]) == 0
    start_mirror(back, "--once").finish()
    here, there = (places(client, topic)[0] for client in (source, target))
    assert (here[:100], here[130:]) == (there[:100], there[130:])
    assert [place[2] for place in here[100:130]] == [b"only on the old primary %d" % at for at in range(30)]

    status, output, _ = verify(back)
    assert status == 0, output
    assert "equal: 170 records" in output, output
    assert "30 source offsets were not compared: a person has left them out" in output, output
