"""A compacted topic whose log begins late keeps its offsets by the steps that `plan` and its FAILED partition name."""

import json
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.oracle import DEADLINE_SECONDS_LEAST, Client
from tests.scenarios.data import Note, alter_topic, make_topics, write
from tests.scenarios.mirror import MirrorOnce, StartMirror
from tests.scenarios.test_identical_offsets import assert_identical, begin_at, file_of

from sparkmirror.cli.main import main
from sparkmirror.kafka.clients import open_admin
from sparkmirror.model import Cluster
from sparkmirror.sync.configs import FOR_STARTS

START = 3000


@pytest.mark.long
def test_a_compacted_topic_begins_late_once_records_may_be_deleted_and_is_compacted_alone_again_after(
    source: Client,
    target: Client,
    unique: Callable[[str], str],
    start_mirror: StartMirror,
    mirror_once: MirrorOnce,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic, alias = unique("ledger"), unique("same")
    remote = f"{alias}.{topic}"
    make_topics(source, {topic: 2})
    begin_at(source, topic, START)
    write(source, topic, [Note(b"v%d" % at, b"k%d" % at, at % 2) for at in range(200)])
    alter_topic(source, topic, {"cleanup.policy": "compact"})
    text = file_of(source, target, alias, topic)

    advice = planned(text, tmp_path, capsys)["warnings"]
    assert advised(advice, remote) == FOR_STARTS, "of a topic that is not there yet"
    assert "the mirror leaves these alone until all starts of a topic are filled, and then sets" in advised_by(advice)
    alone = planned(text + "sync.topic.configs.enabled = false\n", tmp_path, capsys)["warnings"]
    assert "set `compact` again once `plan` names no start any more" in advised_by(alone)

    ended = start_mirror(text, "--once").finish()
    assert ended.status != 0
    assert re.search(f"{topic}-0[^\n]*cannot be deleted where `cleanup.policy = compact`", ended.errors), ended.errors
    assert "set it to `compact,delete` on the target, with `retention.ms = -1`" in ended.errors
    assert own_settings(target, remote) == {"cleanup.policy": "compact"}, "like its source"

    alter_topic(target, remote, advised(planned(text, tmp_path, capsys)["warnings"], remote))
    await_settings(target, remote, FOR_STARTS)
    plan = planned(text, tmp_path, capsys)
    assert plan["changes"] == [], "the settings job leaves them alone"
    assert f"{remote} keeps its cleanup.policy and its retention until its start is filled." in plan["warnings"]
    mirror_once(text)
    assert_identical(source, target, topic, remote, 2)

    mirror_once(text)
    await_settings(
        target, remote, {"cleanup.policy": "compact", "retention.ms": "-1"}
    )  # by a file of the source's brokers
    write(source, topic, [Note(b"w%d" % at, b"k%d" % at, at % 2) for at in range(200)])
    mirror_once(text)
    assert_identical(source, target, topic, remote, 2)


def planned(text: str, directory: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, list[str]]:
    file = directory / "plan.properties"
    file.write_text(text)
    capsys.readouterr()
    assert main(["plan", str(file), "--format", "json"]) == 0
    (plan,) = json.loads(capsys.readouterr().out).values()
    return dict(plan)


def advised_by(warnings: list[str]) -> str:
    (advice,) = (one for one in warnings if one.startswith("the records that fill a start cannot be deleted"))
    return advice


def advised(warnings: list[str], remote: str) -> dict[str, str]:
    """The settings that a person is to make of the topic, read out of the sentence."""
    found = re.search(rf": set (\S+=\S+) (\S+=\S+) (\S+=\S+) on backup, so .* for {remote} \(", advised_by(warnings))
    assert found is not None, warnings
    return dict(one.split("=") for one in found.groups())


def await_settings(client: Client, topic: str, wanted: Mapping[str, str]) -> None:
    """Brokers know of a change a moment after the controller has answered."""
    deadline = time.monotonic() + DEADLINE_SECONDS_LEAST
    while (found := own_settings(client, topic)) != wanted:
        assert time.monotonic() < deadline, f"{topic} has {found}, not {wanted}"
        time.sleep(0.02)


def own_settings(client: Client, topic: str) -> dict[str, str | None]:
    with open_admin(Cluster("any", client), "test") as admin:
        entries = admin.describe_configs([topic])[topic]
    return {key: entry.value for key, entry in entries.items() if entry.is_override}
