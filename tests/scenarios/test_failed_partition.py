"""One partition that the target refuses: told, set aside, healed; everything else goes on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests import examples
from tests.oracle import Client, assert_same, count_records, read_topic
from tests.scenarios.data import Note, alter_topic, make_topics, numbered, write
from tests.scenarios.mirror import StartMirror, flow_file

from sparkmirror.cli.main import main

HEAL_SECONDS_MAX = 60.0


def test_a_topic_that_refuses_large_records_fails_alone_and_heals_when_its_limit_is_raised(
    source: Client,
    target: Client,
    unique: Callable[[str], str],
    start_mirror: StartMirror,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    story, alias = unique("refused"), unique("east")
    large, small = f"{story}.large", f"{story}.small"
    make_topics(source, {large: 2, small: 2})
    make_topics(target, {f"{alias}.{large}": 2}, {"max.message.bytes": "2000"})
    write(source, large, [Note(b"fits"), Note(b"x" * 50_000), *numbered(0, 50)], compression_type="none")
    write(source, large, [note._replace(partition=1) for note in numbered(0, 50)])
    write(source, small, numbered(0, 100, partitions=2))

    healthy = [f"{large}-1", f"{small}-0", f"{small}-1"]

    def told(event: str) -> list[dict[str, Any]]:
        """What the mirror has said of such events, whole lines only."""
        lines = [line for line in mirror.errors.splitlines(keepends=True) if line.endswith("\n")]
        return [one for one in map(json.loads, lines) if event in (one["event"], "any")]

    def has_failed() -> bool:
        return {(one["topic"], one["partition"]) for one in told("partition-failed")} == {(large, 0)}

    def states() -> dict[str, tuple[str, int]]:
        """As `sparkmirror status` tells them: state and lag."""
        capsys.readouterr()
        assert main(["status", str(file), "--format", "json"]) == 0
        (page,) = json.loads(capsys.readouterr().out)
        return {f"{one['topic']}-{one['partition']}": (one["state"], one["lag"]) for one in page["partitions"]}

    text = flow_file(source, target, alias=alias, topics=rf"{story}\\..*", lines=["sync.topic.configs.enabled = false"])
    file = tmp_path / "told.properties"
    file.write_text(text)
    mirror = start_mirror(text, "--log-format", "json")
    mirror.wait_until(lambda: count_records(target, f"{alias}.{small}") == 100, "the other topic arrives")
    mirror.wait_until(lambda: count_records(target, f"{alias}.{large}") >= 50, "the other partition arrives")
    mirror.wait_until(has_failed, "the failure is told", 30)
    failure = told("partition-failed")[0]
    assert "max.message.bytes" in failure["message"] and failure["flow"] == f"{alias}->backup"
    assert failure["level"] == "WARNING" and failure["retry_at"]
    write(source, small, numbered(100, 200, partitions=2))
    mirror.wait_until(lambda: count_records(target, f"{alias}.{small}") == 200, "the other topic goes on", 10)
    mirror.wait_until(lambda: has_only_failed(states(), f"{large}-0"), "status tells it")

    alter_topic(target, f"{alias}.{large}", {"max.message.bytes": "1048588"})
    mirror.wait_until(lambda: count_records(target, f"{alias}.{large}") >= 102, "the partition heals", HEAL_SECONDS_MAX)
    mirror.wait_until(lambda: told("partition-running"), "that it heals is told", 30)
    well = dict.fromkeys([f"{large}-0", *healthy], ("RUNNING", 0))
    mirror.wait_until(lambda: states() == well, "status tells it")
    mirror.stop()
    check_log(told("any"), {story: "shop", alias: "east"})
    assert states() == well, "status needs no running mirror"
    for topic in (large, small):
        assert_same(read_topic(source, topic), read_topic(target, f"{alias}.{topic}"), topic)


def check_log(said: list[dict[str, Any]], names: dict[str, str]) -> None:
    """Every line is an object with the same fields; docs/logs.md shows two."""
    assert all({"time", "level", "flow", "topic", "partition", "event", "message"} <= one.keys() for one in said)
    failure = next(one for one in said if one["event"] == "partition-failed")
    healed = [one for one in said if one["event"] == "partition-running"][-1]
    text = "\n".join(map(json.dumps, (failure, healed)))
    for long, short in names.items():
        text = text.replace(long, short)
    examples.check("logs.md", "json", text)


def has_only_failed(states: dict[str, tuple[str, int]], failed: str) -> bool:
    state, lag = states.pop(failed, ("", 0))
    return state == "FAILED" and lag > 50 and set(states.values()) == {("RUNNING", 0)}
