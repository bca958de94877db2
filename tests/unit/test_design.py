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


def test_each_invariant_is_cited_by_code_or_tests_that_enforce_it() -> None:
    built = {"1", "2", "3", "5", "6", "8", "9", "10"}
    text = "\n".join(path.read_text() for top in ("src", "tests") for path in (ROOT / top).rglob("*.py"))
    cited = {number for group in re.findall(r"[Ii]nvariants? ([\d, andto]+)", text) for number in _numbers(group)}
    assert built <= cited, f"not cited anywhere: {sorted(built - cited)}"


def _numbers(group: str) -> set[str]:
    found = [int(number) for number in re.findall(r"\d+", group)]
    if " to " in group and len(found) == 2:
        found = list(range(found[0], found[1] + 1))
    return {str(number) for number in found}
