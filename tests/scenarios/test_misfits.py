"""Records for which a schema registry has no value: each fails its own partition, or is a dead letter, and none is
lost; all others go on."""

from collections.abc import Callable

from tests.oracle import Client, list_topics, read_messages, read_topic
from tests.scenarios.data import Note, make_topics, write
from tests.scenarios.mirror import StartMirror, flow_file
from tests.schema_registry import SchemaRegistry

ORDER = {"schema": '{"type": "record", "name": "Order", "fields": []}'}
HEAD, CARRIED = b"\0\0\0\0\1", b"\0\0\0\0\x64"
STEP = "transforms.set.value = with_target_schema(value, concat(cast(key AS string), '-value'))"


def notes(partition: int, *keys: bytes) -> list[Note]:
    return [Note(HEAD + b"%d %s" % (partition, key), key, partition) for key in keys]


def carried(*written: Note) -> list[bytes]:
    return sorted((note.value or b"").replace(HEAD, CARRIED) for note in written)


def values_at(target: Client, topic: str) -> list[bytes]:
    logs = read_topic(target, topic).values() if topic in list_topics(target) else ()
    return [record.value or b"" for log in logs for record in log]


def lines_for(ours: SchemaRegistry, theirs: SchemaRegistry, *lines: str) -> list[str]:
    ours.register("orders-value", ORDER)
    sides = [f"transforms.schemas.{side}.url = {one.url}" for side, one in (("source", ours), ("target", theirs))]
    return [*sides, STEP, "tasks.max = 1", *lines]


def test_a_refused_subject_fails_its_own_partition_which_goes_on_when_it_is_taken(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    story, alias = unique("orders"), unique("east")
    make_topics(source, {story: 2})
    with SchemaRegistry(first=1) as ours, SchemaRegistry(first=100) as theirs:
        theirs.refused = {"bad-value": 409}
        first = [*notes(0, b"a", b"bad", b"b"), *notes(1, b"a")]
        write(source, story, first)
        lines = lines_for(ours, theirs)
        mirror = start_mirror(flow_file(source, target, alias=alias, topics=story, lines=lines))
        failed = f"{story}-0: FAILED: with_target_schema fails for the record of {story}-0 at offset 1: "
        mirror.wait_until(lambda: failed in mirror.errors, "the partition of the record is FAILED")
        later = notes(1, b"c", b"d")
        write(source, story, later)

        def arrived() -> list[bytes]:
            return sorted(set(values_at(target, f"{alias}.{story}")))

        others = carried(*first[3:], *later)
        mirror.wait_until(lambda: set(others) <= set(arrived()), "the other partition goes on meanwhile")
        assert not any(b"bad" in value for value in arrived())
        theirs.refused = {}
        mirror.wait_until(lambda: arrived() == carried(*first, *later), "all are there when the subject is taken")
        mirror.stop()


def test_with_a_dead_letter_topic_they_go_there_as_they_came_with_the_reason(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    story, alias = unique("orders"), unique("east")
    make_topics(source, {story: 2})
    with SchemaRegistry(first=1) as ours, SchemaRegistry(first=100) as theirs:
        theirs.refused = {"bad-value": 422}
        dead = ["transforms.deadletter.when = false", f"transforms.deadletter.topic = {story}-dead"]
        lines = lines_for(ours, theirs, *dead)
        write(source, story, written := [*notes(0, b"a", b"bad", b"b", b"\xff"), *notes(1, b"a", b"c")])
        mirror = start_mirror(flow_file(source, target, alias=alias, topics=story, lines=lines))
        good = [note for note in written if note.key not in (b"bad", b"\xff")]

        def arrived() -> list[bytes]:
            return sorted(values_at(target, f"{alias}.{story}"))

        mirror.wait_until(lambda: arrived() == carried(*good), "all others are there, each once")
        mirror.wait_until(lambda: len(values_at(target, f"{story}-dead")) >= 2, "and those two in their topic")
        mirror.stop()
        letters = [message for _, log in read_messages(target, f"{story}-dead") for message in log]
        assert "FAILED" not in mirror.errors
    assert [(message.key(), message.value()) for message in letters] == [
        (note.key, note.value) for note in written if note.key in (b"bad", b"\xff")
    ]
    headers = [dict(message.headers()) for message in letters]
    assert [one["__connect.errors.offset"] for one in headers] == [b"1", b"3"]
    refused, odd = (bytes(one["__connect.errors.exception.message"] or b"").decode() for one in headers)
    assert "with status 422" in refused and r"its subject is no text: b'\xff-value'" in odd
