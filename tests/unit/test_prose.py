"""Plain technical English: words that a reader has to read twice are not used, in comments, messages and pages."""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FORBIDDEN = re.compile(
    r"\b(anew|told|whoever|whosoever|dear|oftener|as soon as may be|needs? no"
    r"|outbox(es)?|harvest|intake|parcels?|stakes?|crews?)\b",
    re.IGNORECASE,
)
"""The last six are former names of what is now called partition buffer, fetch response reader, sequence gate, queued
records, claim and process group."""
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
SOURCE = ROOT / "src" / "sparkmirror"
MODULES = sorted(SOURCE.rglob("*.py"))


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Lines of a module's comments and of its strings with more than one word, without what f-strings compute."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and " " in token.string):
            plain = (
                re.sub(r"\{[^{}]*\}", "{}", token.string) if token.string[:2].lower().startswith("f") else token.string
            )
            yield from enumerate(plain.split("\n"), token.start[0])


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_is_in_plain_words(path: Path) -> None:
    assert [line for line in path.read_text().splitlines() if FORBIDDEN.search(line)] == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_what_a_module_says_is_in_plain_words(path: Path) -> None:
    assert [(number, line) for number, line in prose(path.read_text()) if FORBIDDEN.search(line)] == []


def test_names_of_tests_are_in_plain_words_and_stand_once_in_a_file() -> None:
    found = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        names = re.findall(r"^\s*def (test_\w+)", path.read_text(), re.MULTILINE)
        found += [f"{path.name}: {name}" for name in names if FORBIDDEN.search(name.replace("_", " "))]
        found += [f"{path.name}: {name} twice" for name in set(names) if names.count(name) > 1]
    assert found == []
