"""`sparkmirror migrate`: killed in each of its steps and run again, it ends with everything moved and proven."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from tests.oracle import Client, assert_whole_repeats, count_records, read_topic
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import COMMAND, Mirror, StartMirror, flow_file
from tests.scenarios.test_moving_group import committed, read_some

from sparkmirror.testing.kafka import KafkaCluster

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
PASSWORD = "pass-of-a-clerk"


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
        program = (str(COMMAND), "migrate", "run", str(file))
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


@pytest.mark.long
def test_a_migration_keeps_writers_out_and_gives_all_back_when_it_is_undone(
    target: Client, unique: Callable[[str], str], start_mirror: StartMirror, tmp_path: Path
) -> None:
    """By ACL, on a cluster with an authorizer, where the writer is a user and the mirror is a super user."""
    topic, alias, group = unique("orders"), unique("old"), unique("billing")
    remote, file = f"{alias}.{topic}", tmp_path / "migrate.properties"
    with KafkaCluster(name="old", config=AUTHORIZER, sasl=("PLAIN", "clerk", PASSWORD)) as old:
        source = {"bootstrap.servers": old.bootstrap_servers}
        clerk = {
            "bootstrap.servers": old.bootstrap_servers_sasl, "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN", "sasl.username": "clerk", "sasl.password": PASSWORD,
        }  # fmt: skip
        make_topics(source, {topic: 3})
        allow(source, topic, "User:clerk")
        write(clerk, topic, numbered(0, 300, 3))
        assert len(read_some(source, group, topic, 100)) == 100
        text = flow_file(source, target, alias=alias, topics=topic, lines=[f"groups = {group}"])
        file.write_text(text)

        def migrate(*arguments: str) -> str:
            ended = start_mirror(text, *arguments, program=(str(COMMAND), "migrate", "run", str(file))).finish()
            assert ended.status == 0, ended.errors
            return ended.errors

        said = migrate("--fence", "--quiet-seconds", "3")
        assert "follow: nobody but super users may write to 1 topics" in said
        assert_whole_repeats(read_topic(source, topic), read_topic(target, remote), topic)
        with pytest.raises(AssertionError, match="TOPIC_AUTHORIZATION_FAILED"):
            write(clerk, topic, numbered(300, 303, 3))
        assert sum(committed(target, group, remote).values()) == 100

        said = migrate("--undo")
        assert "follow: 1 topics of" in said and "may be written to as before" in said
        write(clerk, topic, numbered(300, 303, 3))
        assert committed(target, group, remote) == {}
        assert count_records(target, remote) == 300, "what was copied stays"


def allow(client: Client, topic: str, user: str) -> None:
    binding = AclBinding(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, user, "*", AclOperation.WRITE, AclPermissionType.ALLOW
    )
    admin = AdminClient(dict(client))
    for done in admin.create_acls([binding]).values():
        done.result(30)
