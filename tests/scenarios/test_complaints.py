"""What keeps a run from starting is told in one sentence, with the right exit status and without a secret."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.oracle import Client
from tests.scenarios.data import make_topics
from tests.scenarios.mirror import Ended, StartMirror, flow_file

from sparkmirror.testing.ports import PortReservation

SECRET = "open-sesame-1001"
LOGIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="ali" password="{SECRET}";'


def assert_one_sentence(ended: Ended, status: int, *words: str) -> None:
    """One line, and a hint below it at most; beside it, what other mirrors have left on the shared clusters, that
    PLAIN is asked for without TLS, and that a cluster is asked for some time.
    """
    assert ended.status == status, ended.errors
    assert ended.output == ""
    beside = (
        "has died; its tasks are free",
        "PLAIN over SASL_PLAINTEXT sends the password in the clear",
        "It is asked for ten seconds",
    )
    said, *hint = [line for line in ended.errors.splitlines() if not any(one in line for one in beside)]
    assert said.startswith("sparkmirror: "), ended.errors
    assert all(word in said for word in words), said
    assert [line[:8] for line in hint] in ([], ["  hint: "]), ended.errors
    assert "Traceback" not in ended.errors and SECRET not in ended.errors


@pytest.mark.long
def test_a_source_that_does_not_answer_is_named(
    target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    alias = unique("east")
    with PortReservation(1) as ports:
        nobody = {
            "bootstrap.servers": f"127.0.0.1:{ports.ports[0]}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": LOGIN,
        }
        text = flow_file(nobody, target, alias=alias, topics=".*")
        assert_one_sentence(start_mirror(text).finish(), 1, alias, nobody["bootstrap.servers"])
        debugged = start_mirror(text, "--debug").finish()
    assert debugged.status == 1
    assert "Traceback" in debugged.errors and "ClusterUnreachable" in debugged.errors
    assert SECRET not in debugged.errors + debugged.output


def test_a_machine_without_java_is_reported(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror, tmp_path: Path
) -> None:
    topic, alias = unique("orders"), unique("east")
    make_topics(source, {topic: 1})
    empty = tmp_path / "bin"
    empty.mkdir()
    environment = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"} | {"PATH": str(empty)}
    text = flow_file(source, target, alias=alias, topics=topic)
    assert_one_sentence(start_mirror(text, environment=environment).finish(), 3, "Java", "JAVA_HOME", "PATH")


def test_a_file_that_cannot_be_meant_is_refused_with_the_line(start_mirror: StartMirror) -> None:
    nobody = {"bootstrap.servers": "127.0.0.1:1", "sasl.jaas.config": LOGIN}
    text = flow_file(nobody, nobody, alias="east", topics=".*", lines=["tasks.max = many"])
    line = text.splitlines().index("tasks.max = many") + 1
    assert_one_sentence(start_mirror(text).finish(), 2, f":{line}:", "tasks.max")
