"""`sparkmirror run --once` of two flows, one of which is copied long before the other. Takes two minutes."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.oracle import Client, assert_same, count_records, read_topic
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import StartMirror, flow_file

from sparkmirror.cli.main import main

LIMIT = 60_000
SLOW_SECONDS = 100
"""Longer than the minute after which a flow that nothing is heard of is red."""


@pytest.mark.long
def test_a_flow_that_is_copied_stays_well_until_the_other_is_copied_too(
    source: Client,
    target: Client,
    unique: Callable[[str], str],
    start_mirror: StartMirror,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    story, east, west = unique("two"), unique("east"), unique("west")
    make_topics(source, {f"{story}.short": 2})
    write(source, f"{story}.short", numbered(0, 100, partitions=2))
    make_topics(target, {f"{story}.slow": 1})
    write(target, f"{story}.slow", numbered(0, LIMIT * SLOW_SECONDS // 10_000, size_bytes=10_000))
    text = flow_file(source, target, alias=east, topics=rf"{story}\\..*").replace("backup", west)
    text += f"{west}->{east}.enabled = true\n{west}->{east}.rate.limit.bytes.per.second = {LIMIT}\n"
    file = tmp_path / "two.properties"
    file.write_text(text)

    def verdicts() -> dict[str, tuple[str, str]]:
        main(["status", str(file), "--format", "json"])
        shown = json.loads(capsys.readouterr().out)
        return {one["flow"]: (one["verdict"]["level"], one["verdict"]["sentence"]) for one in shown}

    mirror = start_mirror(text, "--once")
    copied = ("green", f"{east}->{west}: all that was there when the bounded run began is mirrored")
    mirror.wait_until(lambda: verdicts()[f"{east}->{west}"] == copied, "the short flow is said to be copied")
    heard_until = time.monotonic() + 70
    while time.monotonic() < heard_until:
        assert mirror.running, mirror.errors
        assert verdicts()[f"{east}->{west}"] == copied
        assert verdicts()[f"{west}->{east}"][0] != "red"
        time.sleep(2)
    assert count_records(source, f"{west}.{story}.slow") < count_records(target, f"{story}.slow")
    ended = mirror.finish()
    assert ended.status == 0, ended.errors
    assert_same(read_topic(source, f"{story}.short"), read_topic(target, f"{east}.{story}.short"), "short")
    assert_same(read_topic(target, f"{story}.slow"), read_topic(source, f"{west}.{story}.slow"), "slow")
