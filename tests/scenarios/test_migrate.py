"""`sparkmirror migrate`: killed in each of its steps and run again, it ends with everything moved and proven."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.oracle import Client, assert_whole_repeats, count_records, read_topic
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import COMMAND, Mirror, StartMirror, flow_file
from tests.scenarios.test_moving_group import committed, read_some


@pytest.mark.long
def test_a_migration_that_is_killed_goes_on_where_it_was(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror, tmp_path: Path
) -> None:
    topic, alias, group = unique("orders"), unique("old"), unique("billing")
    remote, file = f"{alias}.{topic}", tmp_path / "migrate.properties"
    make_topics(source, {topic: 3})
    write(source, topic, numbered(0, 300_000, 3))
    lines = [f"groups = {group}", "rate.limit.bytes.per.second = 1000000"]
    text = flow_file(source, target, alias=alias, topics=topic, lines=lines)
    file.write_text(text)

    def migrate(*arguments: str) -> Mirror:
        program = (str(COMMAND), "migrate", str(file))
        return start_mirror(text, "--quiet-seconds", "4", "--format", "json", *arguments, program=program)

    # Killed while it copies, and while it follows.
    first = migrate()
    first.wait_until(lambda: count_records(target, remote) > 1000, "the copy has begun")
    first.kill()
    second = migrate()
    second.wait_until(lambda: "copy: all that 3 partitions held" in second.errors, "the copy is done")
    second.kill()

    # The third run does not copy again; it follows what is written, until nobody writes any more.
    third = migrate()
    third.wait_until(lambda: "(before)" in third.errors, "it knows what is done")
    write(source, topic, numbered(300_000, 300_300, 3))
    assert len(read_some(source, group, topic, 100)) == 100
    ended = third.finish()
    assert ended.status == 0, ended.errors
    report = json.loads(ended.output)
    assert list(report["steps"]) == ["copy", "follow", "verify", "groups"]
    assert "equal: 300,300 records of 3 partitions" in report["steps"]["verify"]
    ours, theirs = read_topic(source, topic), read_topic(target, remote)
    assert_whole_repeats(ours, theirs, topic)
    places, remote_places = committed(source, group, topic), committed(target, group, remote)
    assert sum(places.values()) == 100
    for partition, offset in places.items():
        assert theirs[partition][remote_places[partition]] == ours[partition][offset], "the group reads on there"

    assert "nothing is undone" in migrate("--finish").finish().errors
    again = migrate().finish()
    assert (again.status, "finished before" in again.errors) == (1, True)
