"""A failover and a migration with identical offsets: groups move to the places they have on the source."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.oracle import Client, read_messages
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import COMMAND, StartMirror
from tests.scenarios.test_identical_offsets import START, assert_identical, begin_at, commit, file_of, spans
from tests.scenarios.test_moving_group import committed
from tests.scenarios.test_transactions import write_transactions

from sparkmirror.cli.main import main
from sparkmirror.kafka.log_offsets import OffsetsUnknown

PARTITIONS = 2
PLACES = {0: START + 50, 1: 37}
"""Where a group stands on the source."""


def make_source(source: Client, topic: str, writer: str) -> None:
    """A log that begins late, with records, and markers and aborted records between them."""
    make_topics(source, {topic: PARTITIONS})
    begin_at(source, topic, START)
    write(source, topic, numbered(0, 200, PARTITIONS))
    write_transactions(source, topic, writer)


def rest_of(client: Client, topic: str) -> list[bytes]:
    """What a group that stands at PLACES has not read yet."""
    logs = read_messages({**client, "isolation.level": "read_committed"}, topic)
    return sorted(one.value() or b"" for number, log in logs for one in log if one.offset() >= PLACES[number])


@pytest.mark.long
def test_a_failover_moves_groups_to_the_same_offsets_and_they_read_what_they_had_not_read(
    source: Client,
    target: Client,
    unique: Callable[[str], str],
    start_mirror: StartMirror,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic, group, alias = unique("ledger"), unique("billing"), unique("east")
    remote, file = f"{alias}.{topic}", tmp_path / "failover.properties"
    text = file_of(source, target, alias, topic, [f"groups = {group}"])
    file.write_text(text)
    make_source(source, topic, unique("writer"))
    mirror = start_mirror(text)
    commit(source, group, topic, PLACES)

    def is_mirrored() -> bool:
        with suppress(OffsetsUnknown):
            return spans(target, remote, PARTITIONS) == spans(source, topic, PARTITIONS)
        return False

    mirror.wait_until(is_mirrored, "all is mirrored", 240)
    capsys.readouterr()
    assert main(["failover", "run", str(file), "--format", "json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert report["identical_offsets"] == PARTITIONS, report
    assert report["identical_offsets_unknown"] == 0, report
    assert report["records_behind"] == 0
    assert committed(target, group, remote) == PLACES
    assert rest_of(target, remote) == rest_of(source, topic)
    mirror.stop(20)
    assert_identical(source, target, topic, remote, PARTITIONS)


@pytest.mark.long
def test_a_migration_moves_groups_to_the_same_offsets_and_proves_the_copy(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror, tmp_path: Path
) -> None:
    topic, group, alias = unique("ledger"), unique("billing"), unique("old")
    remote, file = f"{alias}.{topic}", tmp_path / "migrate.properties"
    text = file_of(source, target, alias, topic, [f"groups = {group}"])
    file.write_text(text)
    make_source(source, topic, unique("writer"))
    commit(source, group, topic, PLACES)
    program = (str(COMMAND), "migrate", "run", str(file))
    ended = start_mirror(text, "--quiet-seconds", "4", "--format", "json", program=program).finish()
    assert ended.status == 0, ended.errors
    report = json.loads(ended.output)
    assert list(report["steps"]) == ["copy", "follow", "verify", "groups"]
    assert f"offsets are identical in {PARTITIONS} partitions" in report["steps"]["verify"], report
    assert committed(target, group, remote) == PLACES
    assert_identical(source, target, topic, remote, PARTITIONS)
