"""Several files of connectors stand where FILE would."""

import json
from pathlib import Path

import pytest

from sparkmirror.cli.file import take_more_files
from sparkmirror.cli.main import main

SIDES = {
    "source.cluster.alias": "us", "target.cluster.alias": "eu",
    "source.cluster.bootstrap.servers": "us:1", "target.cluster.bootstrap.servers": "eu:1",
}  # fmt: skip
SOURCE = {"connector.class": "MirrorSource", "name": "s", **SIDES, "topics": "orders"}
CHECKPOINT = {"connector.class": "MirrorCheckpoint", "name": "c", **SIDES, "groups": "billing"}


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("source.json").write_text(json.dumps(SOURCE))
    Path("checkpoint.json").write_text(json.dumps({"name": "c", "config": CHECKPOINT}))
    Path("bad.json").write_text("{")
    Path("mm2.properties").write_text("clusters = a, b\n")


@pytest.mark.parametrize(
    ("words", "rest", "more"),
    [
        ("run source.json --once", "run source.json --once", ()),
        ("run source.json checkpoint.json --once", "run source.json --once", ("checkpoint.json",)),
        ("run --once source.json checkpoint.json", "run --once source.json", ("checkpoint.json",)),
        ("config check bad.json source.json", "config check bad.json", ("source.json",)),
        ("plan source.json nothing.json", "plan source.json", ("nothing.json",)),
        ("positions source.json checkpoint.json show", "positions source.json show", ("checkpoint.json",)),
        ("throttle source.json checkpoint.json us->eu 1MB", "throttle source.json us->eu 1MB", ("checkpoint.json",)),
        ("verify mm2.properties bad.json", "verify mm2.properties bad.json", ()),
        ("verify --html x.json source.json checkpoint.json", "verify --html x.json source.json", ("checkpoint.json",)),
    ],
)
def test_files_of_connectors_are_taken_together(words: str, rest: str, more: tuple[str, ...]) -> None:
    assert take_more_files(words.split()) == (rest.split(), more)


def test_every_verb_reads_them_as_one_mirror(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", "source.json", "checkpoint.json"]) == 0
    assert "source.json can be used; it mirrors us->eu" in capsys.readouterr().out
    assert main(["config", "explain", "source.json", "checkpoint.json", "groups"]) == 0
    assert "groups = billing  (us->eu.groups, checkpoint.json:1)" in capsys.readouterr().out
    assert main(["config", "convert", "source.json", "checkpoint.json", "--to", "properties"]) == 0
    assert "us->eu.progress.connector=s" in capsys.readouterr().out
    assert main(["config", "check", "source.json", "nothing.json"]) == 2
    assert "the configuration file `nothing.json` cannot be read" in capsys.readouterr().err
