"""docs/mirrormaker1.md has every option and key of MirrorMaker 1, each with a test that is there."""

import argparse
import re
from pathlib import Path

import pytest

from sparkmirror.cli.kafka_mirror_maker import add_arguments
from sparkmirror.config.formats.mm1_names import CONSUMER, GROUP_MEMBERSHIP, PRODUCER, SHALLOW, Dialect

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "mirrormaker1.md").read_text()
OURS = {"--once", "--dry-run", "--format", "--log-format", "--debug", "--master", "-h"}


def rows(title: str) -> list[tuple[str, str]]:
    """The first and the last cell of each row of a section's table."""
    section = PAGE.split(f"# {title}\n", 1)[1].split("\n#", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    cells = [re.split(r"(?<!\\)\|", line) for line in lines]
    return [(cell[1], cell[-2]) for cell in cells]


def named(title: str) -> set[str]:
    return {name.split()[0] for first, _ in rows(title) for name in re.findall("`([^`]+)`", first)}


def test_every_option_has_a_row() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    options = {option for action in parser._actions for option in action.option_strings}
    assert named("Options") == options - OURS


@pytest.mark.parametrize(
    ("title", "dialect", "more"),
    [("The consumer's file", CONSUMER, (*SHALLOW, *GROUP_MEMBERSHIP)), ("The producer's file", PRODUCER, ())],
)
def test_every_key_of_mirrormaker_1_has_a_row(title: str, dialect: Dialect, more: tuple[str, ...]) -> None:
    known = {*dialect.renamed, *dialect.explained, *dialect.quiet, *more}
    assert known - named(title) == set()


@pytest.mark.parametrize("title", ["Options", "The consumer's file", "The producer's file"])
def test_each_row_names_a_test_that_exists(title: str) -> None:
    for first, last in rows(title):
        tests = re.findall(r"`(tests/[\w/]+\.py):(\w+)`", last)
        assert tests, first
        for file, function in tests:
            assert re.search(rf"^def {function}\(", (ROOT / file).read_text(), re.MULTILINE), function
