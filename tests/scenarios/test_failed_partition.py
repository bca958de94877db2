"""One partition that the target refuses: told, set aside, healed; everything else goes on."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from tests.oracle import Client, assert_same, count_records, read_topic
from tests.scenarios.data import Note, make_topics, numbered, write
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

    def has_failed() -> bool:
        return "1 FAILED" in mirror.errors and f"{large}-0" in mirror.errors

    def states() -> dict[str, tuple[str, int]]:
        """As `sparkmirror status` tells them: state and lag."""
        capsys.readouterr()
        assert main(["status", str(file), "--format", "json"]) == 0
        (page,) = json.loads(capsys.readouterr().out)
        return {f"{one['topic']}-{one['partition']}": (one["state"], one["lag"]) for one in page["partitions"]}

    text = flow_file(source, target, alias=alias, topics=rf"{story}\\..*", lines=["sync.topic.configs.enabled = false"])
    file = tmp_path / "told.properties"
    file.write_text(text)
    mirror = start_mirror(text)
    mirror.wait_until(lambda: count_records(target, f"{alias}.{small}") == 100, "the other topic arrives")
    mirror.wait_until(lambda: count_records(target, f"{alias}.{large}") >= 50, "the other partition arrives")
    mirror.wait_until(has_failed, "the failure is told", 30)
    told = next(line for line in mirror.errors.splitlines() if "FAILED" in line)
    assert "large" in told.split(f"{large}-0: ")[1] or "max.message.bytes" in told
    write(source, small, numbered(100, 200, partitions=2))
    mirror.wait_until(lambda: count_records(target, f"{alias}.{small}") == 200, "the other topic goes on", 10)
    mirror.wait_until(lambda: has_only_failed(states(), f"{large}-0"), "status tells it")

    raise_limit(target, f"{alias}.{large}")
    mirror.wait_until(lambda: count_records(target, f"{alias}.{large}") >= 102, "the partition heals", HEAL_SECONDS_MAX)
    mirror.stop()
    assert states() == dict.fromkeys([f"{large}-0", *healthy], ("RUNNING", 0)), "status needs no running mirror"
    for topic in (large, small):
        assert_same(read_topic(source, topic), read_topic(target, f"{alias}.{topic}"), topic)


def has_only_failed(states: dict[str, tuple[str, int]], failed: str) -> bool:
    state, lag = states.pop(failed)
    return state == "FAILED" and lag > 50 and set(states.values()) == {("RUNNING", 0)}


def raise_limit(client: Client, topic: str) -> None:
    entry = ConfigEntry("max.message.bytes", "1048588", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient(dict(client))
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)
