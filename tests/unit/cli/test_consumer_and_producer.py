"""MirrorMaker 1's two files stand where FILE would."""

from pathlib import Path

import pytest

from sparkmirror.cli.file import take_files
from sparkmirror.cli.main import main
from sparkmirror.config.formats.mm1 import MirrorMaker1
from sparkmirror.errors import ConfigError

PAIR = ("--consumer.config", "east", "--producer.config", "west")


@pytest.mark.parametrize(
    ("words", "rest", "files"),
    [
        (["status", "FILE", "--watch"], ["status", "FILE", "--watch"], None),
        (["status", *PAIR, "--watch"], ["status", "east", "--watch"], MirrorMaker1(("east",), "west", ".*")),
        (["config", "check", *PAIR], ["config", "check", "east"], MirrorMaker1(("east",), "west", ".*")),
        (
            ["topics", "--producer.config=west", "--consumer.config=east", "--blacklist", "x"],
            ["topics", "east"],
            MirrorMaker1(("east",), "west", None, "x"),
        ),
        (
            ["throttle", *PAIR, "--consumer.config", "north", "--whitelist", "a,b", "F", "10MB"],
            ["throttle", "east", "F", "10MB"],
            MirrorMaker1(("east", "north"), "west", "a,b"),
        ),
    ],
)
def test_the_two_files_are_taken_out_of_the_words(
    words: list[str], rest: list[str], files: MirrorMaker1 | None
) -> None:
    assert take_files(words) == (rest, files)


@pytest.mark.parametrize(("given", "missing"), [(0, "--producer.config"), (2, "--consumer.config")])
def test_one_file_alone_is_not_a_mirror(given: int, missing: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match=f"`{missing}` is missing"):
        take_files(["status", *PAIR[given : given + 2]])
    assert main(["status", *PAIR[given : given + 2]]) == 2
    assert f"`{missing}` is missing" in capsys.readouterr().err


def test_config_check_says_what_a_consumers_file_alone_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    consumer = tmp_path / "east.config"
    consumer.write_text("bootstrap.servers=a:1\ngroup.id=mirror\n")
    assert main(["config", "check", str(consumer)]) == 2
    told = capsys.readouterr().out
    assert "one of MirrorMaker 1's two files" in told and "kafka-mirror-maker" in told
