"""The page of the fault matrix says what its results say."""

from pathlib import Path

from tests.faults.results import read_results, render

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_rendered_from_the_results_that_are_kept() -> None:
    assert (DOCS / "faults.md").read_text() == render(*read_results(DOCS / "faults.json"))
