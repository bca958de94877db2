"""Failing over and back by the commands: what the drill announces happens, with the source killed in between."""

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.oracle import Client, count_records
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import StartMirror, two_way_file
from tests.scenarios.test_moving_group import committed, read_some

from sparkmirror.cli.main import main
from sparkmirror.testing.kafka import KafkaCluster

Say = Callable[..., Any]


@pytest.fixture
def primary() -> Iterator[KafkaCluster]:
    """A source of its own: it is killed."""
    with KafkaCluster(name="primary") as cluster:
        yield cluster


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Say:
    """`say("failover", "status", …)` runs the command on the scenario's file and gives what it printed as JSON."""

    def run(verb: str, kind: str, *arguments: str, status: int = 0) -> Any:
        capsys.readouterr()
        ended = main([verb, kind, str(tmp_path / "both.properties"), "--format", "json", *arguments])
        said = capsys.readouterr()
        assert ended == status, said.err
        return json.loads(said.out) if said.out else said.err

    return run


@pytest.mark.long
def test_what_the_drill_announces_is_what_happens_and_the_way_back_loses_nothing(
    primary: KafkaCluster,
    target: Client,
    unique: Callable[[str], str],
    start_mirror: StartMirror,
    tmp_path: Path,
    say: Say,
) -> None:
    source = {"bootstrap.servers": primary.bootstrap_servers}
    topic, group, a, b = unique("orders"), unique("billing"), unique("east"), unique("west")
    remote, flow = f"{a}.{topic}", ("--flow", f"{a}->{b}")
    lines = ["heartbeats.replication.enabled = false"]
    text = two_way_file({a: source, b: target}, topics=topic, groups=group, lines=lines)
    (tmp_path / "both.properties").write_text(text)
    make_topics(source, {topic: 1})

    def figures(found: Any) -> tuple[int | None, int | None, int | None]:
        """Records that would be lost, and read again: planned, and with the source lost."""
        (one,) = found
        about = one["groups"].get(group, {})
        return one["records_behind"], about.get("repeats_planned"), about.get("repeats_source_lost")

    # A planned failover of a running mirror: all is drained, nothing is read twice; and it is taken back.
    mirror = start_mirror(text)
    write(source, topic, numbered(0, 200))
    seen = read_some(source, group, topic, 50)
    mirror.wait_until(lambda: committed(target, group, remote) == {0: 50}, "the group stands on B")
    mirror.wait_until(lambda: count_records(target, remote) == 200, "all is mirrored")
    say("failover", "run", "--fence", *flow, status=1)
    assert figures(say("failover", "run", *flow)) == (0, 0, 0)
    say("failover", "run", "--undo", *flow)
    mirror.stop(20)

    # The mirror is down, the group goes on, and more is written.
    seen += read_some(source, group, topic, 40)
    write(source, topic, numbered(200, 230))
    before = committed(target, group, remote)
    assert figures(say("failover", "drill", "--unplanned", *flow)) == (30, 0, 40)
    assert committed(target, group, remote) == before, "a drill changes nothing"
    assert figures(say("failover", "status", *flow)) == (30, 0, 40)

    # The source dies. Without --unplanned nothing is done.
    primary.broker(1).kill()
    assert "does not answer" in say("failover", "run", *flow, status=1)
    (row,) = say("offsets", "at", "--time", "2026-01-01", "--cluster", b, *flow)
    assert (row["topic"], row["offset"], row["end"]) == (remote, 0, 200), "the target is asked alone"
    lost = say("failover", "run", "--unplanned", *flow)
    assert figures(lost) == (None, None, None), "nobody knows what the source had"
    on_target = read_some(target, group, remote, 150)
    assert sum(number in seen for number in on_target) == 40, "exactly what was announced is read again"
    seen += on_target
    make_topics(target, {topic: 1})
    write(target, topic, numbered(1_000, 1_010))
    say("failover", "run", "--finish", *flow)

    # It comes back. What only it has is found, exported, and mirrored by the flow that goes on; groups go home.
    primary.broker(1).start()
    plan = say("failback", "plan", "--export", str(tmp_path / "only-there"), *flow)
    assert [(one["first"], one["end"]) for one in plan["only_on_source"]] == [(200, 230)]
    lines = (tmp_path / "only-there" / f"{topic}-0.jsonl").read_text().splitlines()
    assert [int(base64.b64decode(json.loads(line)["value"])) for line in lines] == list(range(200, 230))
    say("failback", "run", *flow)
    assert committed(source, group, topic) == {0: 200}
    seen += read_some(source, group, topic, 30)
    assert sorted(set(seen)) == list(range(230)), "every record was seen"
    assert sum(times - 1 for times in Counter(seen).values()) == 40

    mirror = start_mirror(text)
    mirror.wait_until(lambda: count_records(source, f"{b}.{topic}") == 10, "what was written on B reaches A")
    mirror.wait_until(lambda: count_records(target, remote) == 230, "what only A had reaches B")
    say("failback", "run", "--finish", *flow)
    mirror.stop(20)
