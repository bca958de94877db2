"""docs/compatibility.md: what a run adds is read again by the next, and nothing that was tried went wrong."""

from pathlib import Path

from tests.compatibility.page import Outcome, read_page, render
from tests.compatibility.pair import RELEASES

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"


def test_what_was_found_is_read_again() -> None:
    found = [Outcome("3.9.1", "4.3.0", "", 40, "2026-11-21"), Outcome("3.0.0", "3.9.1", "no | topic", 7, "2026-11-20")]
    text = render(found)
    assert "| 3.0.0 | 3.9.1 | no / topic | 7 s | 2026-11-20 |\n| 3.9.1 | 4.3.0 | passed |" in text
    assert render(read_page(text)) == text


def test_the_oldest_and_the_newest_release_were_tried_both_ways_and_nothing_was_wrong() -> None:
    found = read_page(PAGE.read_text())
    assert {(RELEASES[0], RELEASES[-1]), (RELEASES[-1], RELEASES[0])} <= {(one.source, one.target) for one in found}
    assert [one for one in found if one.problem] == []
    assert PAGE.read_text() == render(found)
