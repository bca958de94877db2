"""docs/troubleshooting.md has an entry for each sentence that the program logs at WARNING or above."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "sparkmirror"
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
_VALUE = re.compile(r"%[-\d.]*[sdfr]")
_LETTERS_MIN = 12
"""Fewer are no sentence of the module's own: it passes on that of an error, or of a plan, which says what to do."""


def log_calls() -> Iterator[tuple[str, str]]:
    """Where it stands, and the sentence with `…` for each value, without those before it."""
    for path in sorted(SOURCE.rglob("*.py")):
        if "testing" in path.parts:
            continue
        tree = ast.parse(path.read_text())
        texts = {
            ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target): node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(tree):
            if not (
                isinstance(node, ast.Call) and ast.unparse(node.func) in ("log.warning", "log.error", "log.critical")
            ):
                continue
            said = node.args[0]
            text = said.value if isinstance(said, ast.Constant) else texts.get(ast.unparse(said), ast.unparse(said))
            sentence = _VALUE.sub("…", str(text)).removeprefix("…: ")
            if len(re.sub(r"[\W_]", "", sentence)) >= _LETTERS_MIN:
                yield f"{path.relative_to(SOURCE)}:{node.lineno}", sentence


SENTENCES = [pytest.param(sentence, id=where.rpartition(":")[0]) for where, sentence in log_calls()]


def test_there_are_sentences_to_look_for() -> None:
    assert len(SENTENCES) > 30


@pytest.mark.parametrize("sentence", SENTENCES)
def test_the_page_has_an_entry_for_what_the_log_says(sentence: str) -> None:
    entries = re.findall(r"^\| (.*?) \| ", PAGE, re.MULTILINE)
    quoted = [part for entry in entries for part in re.findall(r"`` (.+?) ``|`([^`]+)`", entry)]
    assert any(sentence.startswith(text) for pair in quoted for text in pair if len(text) > _LETTERS_MIN), sentence
