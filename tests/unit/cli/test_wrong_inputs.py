"""What a person may write wrongly, and the sentence that says so: no stack trace, the place, and what to do."""

import json
import shlex
from pathlib import Path

import pytest

from sparkmirror.cli.main import main

FILE = """\
clusters = A, B
A.bootstrap.servers = 127.0.0.1:1
B.bootstrap.servers = 127.0.0.1:2
A->B.enabled = true
"""
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
WRONG_FILES = {
    "": "`clusters` is missing\n  hint: add a line such as `clusters = A, B`",
    FILE.replace("A, B", "A B"): "mm2:1: `clusters` has no comma between two aliases\n  hint: write `clusters = A, B`",
    "clusters = A, B\nA.bootstrap.servers = a:1\nA->B.enabled = true": "the cluster `B` has no `bootstrap.servers`",
    f"{FILE}tasks.max = many": "mm2:5: `tasks.max = many` must be a whole number from 1 to",
    f"{FILE}tasks.max = 0": "mm2:5: `tasks.max = 0` must be a whole number from 1 to",
    f"{FILE}replication.factor = -5": "`replication.factor = -5` must be a whole number from 1 to 32767, or -1",
    f"{FILE}topics = orders(": "`orders(` is not a Java regular expression: missing ) at position 7",
    f"{FILE}topcs = orders": "`topcs` is not a known key and has no effect; did you mean `topics`?",
    f"{FILE}A.bootstrap.server = x:1": "has no effect; did you mean `A.bootstrap.servers`?",
    f"{FILE}A->C.enabled = true": "`A->C.enabled` has no effect: `clusters` does not list `C`",
    f"{FILE}B.bootstrap.servers = localhost": "must list `host:port`, not `localhost`",
    f"{FILE}B.bootstrap.servers = ::1:9092": "`B.bootstrap.servers = ::1:9092` has an IPv6 address without brackets: "
    "write `[::1]:9092`, not `::1:9092`",
    f"{FILE}B.bootstrap.servers = localhost:99999": "must list `host:port`, not `localhost:99999`",
    f"{FILE}B.security.protocol = TLS": "must be `PLAINTEXT` or `SSL` or `SASL_PLAINTEXT` or `SASL_SSL`",
    f"{FILE}B.security.protocol = SASL_SSL": "sasl.kerberos.service.name is missing, and GSSAPI needs it.",
    f"{FILE}B.exactly.once.source.support = yes": "must be `disabled` or `preparing` or `enabled`",
    f"{FILE}offset.flush.interval.ms = 5000": "has no effect there, as in MirrorMaker; write `T.offset.flush.interval",
    f"{FILE}status.listen = 0.0.0.0:8080": "lets other machines in without a token\n  hint: add a `status.token`",
    f"{FILE}status.listen = 8080": "must be `host:port`, as in `localhost:8080`",
    f"{FILE}status.token = short": "`status.token = [hidden]` must be of at least 16 letters",
    f"{FILE}B->A.enabled = true\nreplication.policy.class = {IDENTITY}": "copy the same topics round and round",
    f"{FILE}rate.limit.bytes.per.second = 5XB": "must be a whole number of bytes",
    f"{FILE}transforms.set.colour = key": "there is no such column\n  hint: columns to set are topic, partition,",
    f"{FILE}topic.filter.class = no.such:Class": "names the module no.such, which Python does not find",
    "kind: [\n": "mm2:2: this is not YAML: expected the node content",
    "apiVersion: kafka.strimzi.io/v1\nkind: Kafka\n": "a resource of kind `Kafka` is not a mirror",
}
WRONG_WORDS = {
    "statsu FILE": "`statsu` is unknown: did you mean `status`?",
    "explain FILE": "`explain` is unknown: did you mean `config explain`?",
    "status nowhere": "the configuration file `nowhere` cannot be read: No such file or directory",
    "status .": "the configuration file `.` cannot be read: Is a directory",
    "status FILE --flow A-X": "`--flow A-X`: there is no such enabled flow\n  hint: enabled are A->B",
    "run FILE --clusters Z": "`--clusters Z`: `clusters` does not list it\n  hint: known are A, B",
    "run FILE --master foo": "`foo` is no Spark master.",
    "topics FILE --topic (": "`(` is not a Java regular expression: missing ) at position 1",
    "lag FILE --group g --cluster Z": "`--cluster Z`: the file has no such cluster\n  hint: known are A, B",
    "offsets translate FILE --offset orders:1": "`orders:1` is not TOPIC:PARTITION:OFFSET, as in orders:3:1000",
    "positions reset FILE --topic orders --to-datetime yesterday": "`yesterday` is no point in time: write 2026-11",
    "positions set FILE --from-file nowhere": "the offsets file `nowhere` cannot be read: No such file or directory",
    "verify FILE --sample 0": "`--sample 0`: a percentage is more than 0 and at most 100",
    "config explain FILE tasks.maxx": "`tasks.maxx` is not a key that SparkMirror or MirrorMaker knows",
}


def said_by(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    try:
        status = main(words)
    except SystemExit as ended:
        status = int(str(ended.code))
    printed = capsys.readouterr()
    return status, printed.out + printed.err


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("text", WRONG_FILES)
def test_a_wrong_file_is_a_sentence(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mm2").write_text(text)
    status, said = said_by(["config", "check", "mm2", "--strict"], capsys)
    assert WRONG_FILES[text] in said
    assert "Traceback" not in said and status == 2
    assert said.count("error: ") <= 1, "one mistake is said once"


@pytest.mark.parametrize("text", WRONG_FILES)
def test_a_program_gets_each_finding_whole(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that cannot be read at all is a finding, too."""
    Path("mm2").write_text(text)
    main(["config", "check", "mm2", "--format", "json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert findings
    for found in findings:
        assert set(found) == {"severity", "file", "line", "key", "message", "hint"}
        assert found["file"] == "mm2" and found["message"] and found["hint"]
        assert isinstance(found["line"], int) and found["severity"] in ("error", "warning", "note")


@pytest.mark.parametrize("words", WRONG_WORDS)
def test_a_wrong_command_is_a_sentence(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mm2").write_text(FILE)
    status, said = said_by(shlex.split(words.replace("FILE", "mm2").replace("(", "'('")), capsys)
    assert WRONG_WORDS[words] in said
    assert "Traceback" not in said and status == 2


@pytest.mark.parametrize("verb", [("config", "check"), ("status",)])
def test_a_file_that_is_no_text_is_a_sentence(verb: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    Path("mm2").write_text(FILE, encoding="utf-16")
    status, said = said_by([*verb, "mm2"], capsys)
    assert (status, said) == (2, "sparkmirror: mm2: this is no text, or it is UTF-16\n  hint: save it as UTF-8\n")
