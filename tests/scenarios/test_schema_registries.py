"""Schema registries that refuse, fail or are silent while a flow rewrites ids: its records wait, and none is lost or
goes out with the id of the other side."""

from collections.abc import Callable

import pytest
from tests.oracle import Client
from tests.scenarios.data import Note, make_topics, write
from tests.scenarios.mirror import StartMirror, flow_file
from tests.scenarios.test_transforms import values_of
from tests.schema_registry import SchemaRegistry

pytestmark = pytest.mark.long
LOGIN = "mirror:s3cret"
SILENT_SECONDS_MAX = 300
"""Each of a task's eight attempts waits ten seconds for an answer, and its worker is started again."""
SCHEMA = '{"type": "record", "name": "Order%d", "fields": []}'


def test_records_wait_until_the_registries_answer_and_all_have_the_target_s_ids(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    story, alias = unique("orders"), unique("east")
    make_topics(source, {story: 1})
    with SchemaRegistry(first=1) as ours, SchemaRegistry(first=100, login=LOGIN) as theirs:
        lines = [
            f"transforms.schemas.source.url = {ours.url}",
            f"transforms.schemas.target.url = {theirs.url}",
            f"transforms.schemas.target.user.info = {LOGIN}",
            "transforms.set.value = with_target_schema(value, concat(target_topic, '-value'))",
        ]
        mirror = start_mirror(flow_file(source, target, alias=alias, topics=story, lines=lines))
        wanted: list[bytes | None] = []

        def send(count: int) -> None:
            """Records of one more schema, whose number is known on the source's side alone."""
            number = ours.register(f"{story}-value", {"schema": SCHEMA % len(ours.ids)})
            notes = [Note(b"\0" + number.to_bytes(4, "big") + b"%d" % at, b"k") for at in range(count)]
            write(source, story, notes)
            head = b"\0" + (99 + number).to_bytes(4, "big")
            wanted.extend(head + (note.value or b"")[5:] for note in notes)

        def has_all() -> bool:
            """At least once: what came before a failure may be there twice, in its order."""
            return list(dict.fromkeys(values_of(target, f"{alias}.{story}"))) == wanted

        send(20)
        mirror.wait_until(has_all, "the first records are there")
        theirs.refuses = True
        send(20)
        mirror.wait_until(lambda: "with status 409" in mirror.errors, "the log says what the registry refuses")
        assert len(set(values_of(target, f"{alias}.{story}"))) == 20
        theirs.refuses, theirs.login = False, "mirror:an0ther"
        mirror.wait_until(lambda: "with status 401" in mirror.errors, "the log says that the login is refused")
        theirs.login = LOGIN
        mirror.wait_until(has_all, "they go on when they may")
        for broken, said in (((503, {}), "with status 503"), ((404, "no page"), "with status 404")):
            ours.broken = broken
            send(20)
            mirror.wait_until(lambda said=said: said in mirror.errors, said)
            ours.broken = None
            mirror.wait_until(has_all, f"they go on after {said}")
        theirs.silent.set()
        send(20)
        mirror.wait_until(lambda: "does not answer" in mirror.errors, "the log says who is silent", SILENT_SECONDS_MAX)
        theirs.silent.clear()
        mirror.wait_until(has_all, "they go on when it answers")
        mirror.stop()
        assert "s3cret" not in mirror.errors and "an0ther" not in mirror.errors
