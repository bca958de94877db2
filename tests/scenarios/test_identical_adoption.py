"""Topics that have their source's offsets already are taken over, once both logs were compared."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.oracle import Client
from tests.scenarios.data import Note, make_topics, numbered, write
from tests.scenarios.mirror import MirrorOnce, StartMirror, flow_file
from tests.scenarios.test_identical_offsets import assert_identical, begin_at, commit, committed, file_of, spans

from sparkmirror.cli.main import main
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.log_edges import delete_before
from sparkmirror.model import Cluster, TopicPartition

pytestmark = pytest.mark.long


def test_what_a_run_at_least_once_has_copied_is_refused_or_adopted_and_then_gone_on_with(
    source: Client,
    target: Client,
    unique: Callable[[str], str],
    mirror_once: MirrorOnce,
    start_mirror: StartMirror,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic, alias, group = unique("ledger"), unique("same"), unique("readers")
    remote, file = f"{alias}.{topic}", tmp_path / "adoption.properties"
    groups = ["sync.group.offsets.enabled = true", f"groups = {group}"]

    def told(text: str, *verb: str) -> str:
        file.write_text(text)
        capsys.readouterr()
        main([*verb, str(file)])
        return capsys.readouterr().out

    make_topics(source, {topic: 2})
    write(source, topic, numbered(0, 400, partitions=2))
    mirror_once(flow_file(source, target, alias=alias, topics=topic))
    assert spans(target, remote, 2) == {0: (0, 200), 1: (0, 200)}

    plain = file_of(source, target, alias, topic, groups)
    assert f"{remote}-1 has 200 offsets and no stored position" in told(plain, "plan")
    errors = start_mirror(plain, "--once").finish().errors
    assert "somebody else has written records to the target from offset 0 on" in errors
    assert "or name it in `preserve.offsets.adopt`" in errors

    adopts = file_of(source, target, alias, topic, [*groups, f"preserve.offsets.adopt = {topic}"])
    assert f"adopt {remote}-0, offsets 0 to 199, if all of it is the same on the source" in told(adopts, "plan")
    found = {one["what"]: one for one in json.loads(told(adopts, "doctor", "--format", "json"))}
    assert found["adoption"]["said"] == f"2 of 2 logs that are to be adopted have the same as {alias}, by samples"

    commit(source, group, topic, {0: 77, 1: 200})
    mirror_once(adopts)
    assert "offsets are identical in 2 partitions" in told(plain, "status"), "though no record was mirrored"
    assert committed(target, group, remote, 2) == {0: (77, None), 1: (200, None)}

    write(source, topic, numbered(400, 1000, partitions=2))
    mirror_once(plain)
    assert_identical(source, target, topic, remote, 2)


def test_a_log_in_which_one_record_differs_is_not_adopted(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    topic, alias = unique("ledger"), unique("same")
    remote = f"{alias}.{topic}"
    make_topics(source, {topic: 1})
    make_topics(target, {remote: 1})
    notes = [Note(b"%d" % at, b"k") for at in range(50)]
    write(source, topic, notes)
    write(target, remote, [*notes[:31], Note(b"another", b"k"), *notes[32:]])
    ended = start_mirror(file_of(source, target, alias, topic, ["preserve.offsets.adopt = .*"]), "--once").finish()
    assert ended.status != 0
    assert "the target has something else at offset 31 than its source" in ended.errors
    assert spans(target, remote, 1) == {0: (0, 50)}


def test_a_log_that_is_empty_behind_the_source_s_first_record_is_not_gone_on_with(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    """Nothing tells whether it had them: the start of a topic that was made again since is such a log, too."""
    topic, alias = unique("ledger"), unique("same")
    remote = f"{alias}.{topic}"
    make_topics(source, {topic: 1})
    make_topics(target, {remote: 1})
    write(source, topic, numbered(0, 50))
    begin_at(target, remote, 3)
    for lines in ([], ["preserve.offsets.adopt = .*"]):
        ended = start_mirror(file_of(source, target, alias, topic, lines), "--once").finish()
        assert ended.status != 0
        assert "the target's log is empty at offset 3, and its source has records from offset 0 on" in ended.errors
        assert spans(target, remote, 1) == {0: (3, 3)}
    with open_admin(Cluster("old", source), "test") as admin:
        delete_before(admin, {TopicPartition(topic, 0): 3})
    assert start_mirror(file_of(source, target, alias, topic), "--once").finish().status == 0
    assert_identical(source, target, topic, remote, 1)
