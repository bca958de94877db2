"""`sparkmirror config`: a file is checked, explained and converted without asking any cluster."""

import json
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.cli.main import main

FILE = """\
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
topics = x
A->B.topics = orders, ${env:SURELY_SET}
A.consumer.fetch.min.bytes = 4
A->B.consumer.fetch.min.bytes = 3
A.ssl.key.password = hunter2
B.ssl.key.password = ${env:SURELY_SET}
config.providers = env
config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider
"""


class Shell:
    """Runs `sparkmirror config …` on one file and keeps what it printed."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path = directory / "mm2.properties"
        self._capsys = capsys
        self.write(FILE)

    def write(self, text: str) -> None:
        self.path.write_text(text)

    def run(self, action: str, *arguments: str) -> tuple[int, str, str]:
        status = main(["config", action, str(self.path), *arguments])
        said = self._capsys.readouterr()
        assert "hunter" not in said.out + said.err
        return status, said.out.replace(str(self.path), "mm2"), said.err.replace(str(self.path), "mm2")

    def json(self, action: str, *arguments: str) -> Any:
        return json.loads(self.run(action, *arguments, "--format", "json")[1])


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("SURELY_SET", "hunter3")
    return Shell(tmp_path, capsys)


def test_a_good_file_is_said_to_be_good(shell: Shell) -> None:
    shell.write(FILE.replace("A->B.consumer.fetch.min.bytes = 3", ""))
    assert shell.run("check") == (0, "mm2 can be used; it mirrors A->B\n", "")


def test_errors_and_warnings_are_reported_together_with_their_lines(shell: Shell) -> None:
    shell.write(FILE + "tasks.max = no\nA->C.topics = x\nreplication.factor = 0\n")
    status, out, _ = shell.run("check")
    assert status == 2
    assert [line.split(": ")[0:2] for line in out.splitlines()] == [
        ["error", "mm2:13"],
        ["error", "mm2:15"],
        ["warning", "mm2:8"],
        ["warning", "mm2:14"],
        ["mm2 cannot be used", "2 errors"],
    ]
    found = shell.json("check")
    assert [(one["severity"], one["file"], one["line"], one["key"]) for one in found["findings"]] == [
        ("error", "mm2", 13, "tasks.max"),
        ("error", "mm2", 15, "replication.factor"),
        ("warning", "mm2", 8, "A->B.consumer.fetch.min.bytes"),
        ("warning", "mm2", 14, "A->C.topics"),
    ]
    assert set(found["findings"][0]) == {"severity", "file", "line", "key", "message", "hint"}
    assert all(one["message"] and not one["message"].startswith("mm2:") for one in found["findings"])
    assert "`C`" in found["findings"][3]["message"]


def test_warnings_are_fatal_to_a_strict_check_alone(shell: Shell) -> None:
    assert shell.run("check")[0] == 0
    status, out, _ = shell.run("check", "--strict")
    assert status == 2 and "can be used" in out
    shell.write(FILE.replace("A->B.consumer.fetch.min.bytes = 3", ""))
    assert shell.run("check", "--strict")[0] == 0


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            ["A.security.protocol = SSL", "A.ssl.truststore.location = /nowhere/trust.jks"],
            "error: mm2:6: cluster `A`: ssl.truststore.location (/nowhere/trust.jks) cannot be used: No such file",
        ),
        (
            ["B.security.protocol = SSL", "B.ssl.keystore.location = {file}", "B.ssl.keystore.password = hunter4"],
            "error: mm2:6: cluster `B`: ssl.keystore.location (mm2) cannot be used: it is neither a JKS nor a PKCS12",
        ),
        (
            ["A.ssl.key.password = ${{file:/etc/secrets:hunter5}}"],
            "warning: mm2:5: `A.ssl.key.password` holds `${{file:…}}`, which stays as it is written; name `file` in",
        ),
        (
            [
                "A.security.protocol = SASL_SSL",
                "A.sasl.mechanism = SCRAM-SHA-512",
                'A.sasl.jaas.config = org.x.PlainLoginModule required username="u" password="hunter6";',
            ],
            "error: mm2:7: cluster `A`: sasl.jaas.config names PlainLoginModule, and sasl.mechanism is SCRAM-SHA-512.",
        ),
        (
            ["topics = orders\\.eu"],
            "warning: mm2:5: `topics` loses a backslash, as Java drops `\\.`: write a backslash",
        ),
        (
            ["A.ssl.key.password = hunter\\.7"],
            "`A.ssl.key.password` loses a backslash, as Java drops one that stands alone",
        ),
        (["A->C.topics = x"], "does not list `C`"),
        (["topics = grüße"], "warning: mm2:5: `topics` is read as UTF-8; Java reads `topics = grÃ¼Ã\\x9fe`, unless"),
    ],
)
def test_what_cannot_work_or_is_odd_is_found(shell: Shell, lines: list[str], said: str) -> None:
    text = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
    shell.write(text + "\n".join(lines).format(file=shell.path))
    _, out, _ = shell.run("check")
    assert said.format() in out


def test_aliases_without_a_comma_are_one_error(shell: Shell) -> None:
    shell.write("clusters = A B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n")
    status, out, _ = shell.run("check")
    assert (status, out.splitlines()[:2]) == (
        2,
        ["error: mm2:1: `clusters` has no comma between two aliases", "  hint: write `clusters = A, B`"],
    )


def test_two_aliases_of_one_cluster_are_noticed(shell: Shell) -> None:
    shell.write("clusters = A, B\nA.bootstrap.servers = a:1, b:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n")
    assert "mm2:3: A->B leads from a cluster to itself: `A` and `B` have b:1 in common" in shell.run("check")[1]


def test_a_byte_order_mark_is_left_out(shell: Shell) -> None:
    shell.path.write_bytes(b"\xef\xbb\xbf" + FILE.encode())
    status, out, _ = shell.run("check")
    assert status == 0
    assert "mm2:1: the file begins with a byte order mark, which Java takes for a part of this key" in out


def test_what_the_file_sets_can_be_shown_alone(shell: Shell) -> None:
    everything, changed = shell.json("explain"), shell.json("explain", "--changed")
    assert not any(item["default"] for listed in changed.values() for item in listed)
    assert any(item["default"] for listed in everything.values() for item in listed)
    kept = {name: [item for item in listed if not item["default"]] for name, listed in everything.items()}
    assert changed == kept


def test_a_file_that_is_not_there_is_one_sentence(shell: Shell) -> None:
    shell.path.unlink()
    status, out, err = shell.run("check")
    assert (status, out) == (2, "")
    assert "cannot be read: No such file or directory" in err


def test_each_setting_of_a_flow_is_shown_with_the_line_it_comes_from(shell: Shell) -> None:
    status, out, _ = shell.run("explain")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert status == 0
    assert "topics = orders, ${env:SURELY_SET} (A->B.topics, mm2:6; not topics on line 5)" in lines
    assert "tasks.max = 1 (default)" in lines
    assert "ssl.key.password = [hidden] (A.ssl.key.password, mm2:9)" in lines
    assert "ssl.key.password = ${env:SURELY_SET} (B.ssl.key.password, mm2:10)" in lines
    assert [line for line in lines if "client of" in line] == [
        "reading client of A",
        "writing client of B",
        "admin client of A",
        "admin client of B",
    ]


def test_one_key_is_explained_with_the_lines_that_do_not_count(shell: Shell) -> None:
    for key in ("fetch.min.bytes", "A.consumer.fetch.min.bytes", "A->B.consumer.fetch.min.bytes"):
        _, out, _ = shell.run("explain", key)
        assert "fetch.min.bytes (bytes; default 1): What a broker waits for before it answers." in out
        assert "written as `S.consumer.fetch.min.bytes` or `S->T.consumer.fetch.min.bytes`" in out
        assert "= 4  (A.consumer.fetch.min.bytes, mm2:7; not A->B.consumer.fetch.min.bytes on line 8)" in out
    (setting,) = shell.json("explain", "fetch.min.bytes")["A->B"]
    assert (setting["value"], setting["line"], setting["default"]) == ("4", 7, False)
    assert setting["beaten"] == [{"written": "A->B.consumer.fetch.min.bytes", "line": 8}]


def test_what_is_used_is_reported_where_the_file_says_something_else(shell: Shell) -> None:
    added = "B.producer.buffer.memory = 32768\nB.exactly.once.source.support = preparing\n"
    shell.write(f"{FILE}{added}A.consumer.fetch.max.bytes = 4000000\n")
    _, out, _ = shell.run("explain")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "buffer.memory = 32768 (B.producer.buffer.memory, mm2:13; 1048576 is used)" in lines
    assert "lease.ring.bytes = 33554432 (default; 1048576 is used)" in lines
    assert "fetch.max.bytes = 4000000 (A.consumer.fetch.max.bytes, mm2:15; 1048576 is used)" in lines
    assert "exactly.once.source.support = preparing (B.exactly.once.source.support, mm2:14; disabled is used)" in lines
    assert "offset.storage.topic = (default; mm2-offsets.A.internal is used)" in lines
    assert "group.id = (default; A-mm2 is used)" in lines
    (flow, *_) = shell.json("explain", "buffer.memory").values()
    assert (flow[0]["value"], flow[0]["used"]) == ("32768", "1048576")
    assert shell.json("explain", "batch.size")["A->B"][0]["used"] == "4194304"


def test_a_key_without_effect_is_explained_too(shell: Shell) -> None:
    assert shell.run("explain", "A.consumer.max.poll.records")[1].startswith(
        "max.poll.records has no effect: records are"
    )


def test_an_unknown_key_is_refused_with_what_may_be_meant(shell: Shell) -> None:
    status, out, err = shell.run("explain", "topcs")
    assert (status, out) == (2, "")
    assert "did you mean `topics`?" in err
    assert "write `emit.heartbeats.enabled`" in shell.run("explain", "emit.heartbeats")[2]


def test_a_file_is_converted_there_and_back(shell: Shell) -> None:
    shell.write(FILE.replace("hunter2", "${env:SURELY_SET}"))
    status, resource, notes = shell.run("convert", "--to", "strimzi")
    assert (status, "kind: KafkaMirrorMaker2" in resource) == (0, True)
    assert notes.startswith("note: `A->B` begins again there: ") and notes.count("\n") == 1
    shell.write(resource)
    _, text, _ = shell.run("convert", "--to", "properties")
    assert "A->B.enabled=true" in text.splitlines()
    assert shell.run("check")[0] == 0


def test_keys_of_the_whole_file_go_into_the_target_of_a_resource(shell: Shell) -> None:
    shell.write(f"{FILE}\nstatus.listen = localhost:8080\n")
    _, resource, notes = shell.run("convert", "--to", "strimzi")
    assert "status.listen" not in notes
    assert "status.listen: localhost:8080" in resource
