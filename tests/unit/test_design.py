"""DESIGN.md tells the truth: its file map names every module, its journey every function it claims."""

import re
from pathlib import Path

import pytest
from tests import file_map

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "sparkmirror"
DESIGN = (ROOT / "DESIGN.md").read_text()


def test_the_file_map_says_what_the_modules_say_of_themselves() -> None:
    assert file_map.written() == file_map.file_map(), "write it by `python -m tests.file_map`"


@pytest.mark.parametrize("place", sorted(set(re.findall(r"`([\w/]+\.py:\w+)`", DESIGN))))
def test_each_function_of_the_journey_is_where_it_says(place: str) -> None:
    file, function = place.split(":")
    if file == "file.py":
        return
    assert re.search(rf"^\s*def {function}\(", (SOURCE / file).read_text(), re.MULTILINE), place


@pytest.mark.parametrize("top", ["src", "tests"])
def test_each_invariant_is_cited_where_it_is_enforced_and_where_it_is_tested(top: str) -> None:
    section = DESIGN.partition("\n## Invariants\n")[2].partition("\n## ")[0]
    written = set(re.findall(r"^(\d+)\. ", section, re.MULTILINE))
    assert len(written) == 10
    text = "\n".join(path.read_text() for path in (ROOT / top).rglob("*.py") if path != Path(__file__))
    cited = {number for group in re.findall(r"[Ii]nvariants?\s+([\d, andto]+)", text) for number in _numbers(group)}
    assert written <= cited, f"not cited in {top}: {sorted(written - cited, key=int)}"


def _numbers(group: str) -> set[str]:
    found = [int(number) for number in re.findall(r"\d+", group)]
    if " to " in group and len(found) == 2:
        found = list(range(found[0], found[1] + 1))
    return {str(number) for number in found}
