"""docs/parity.md tells the truth: each test of MirrorMaker 2 has one row, and the tests of ours that it names exist."""

import re
from pathlib import Path

import pytest
from tests.mm2suite.methods import FILE, declared, integration_tests
from tests.mm2suite.results import BEGIN, END, Outcome, Result, read_results, write_results

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "parity.md").read_text()
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
ROWS = re.findall(
    r"^\| (\w+Test\.\w+) \| (kept|improved|different|not applicable)(: .+)? \| (.*) \|$", PAGE, re.MULTILINE
)
METHODS = FILE.read_text().splitlines()


@pytest.mark.parametrize(("file", "function"), sorted(set(NAMED)))
def test_each_test_that_is_named_exists(file: str, function: str) -> None:
    assert re.search(rf"^def {function}\(", (ROOT / file).read_text(), re.MULTILINE)


def test_no_test_of_ours_is_named_in_another_way() -> None:
    assert len(re.findall(r"tests/[\w/]+\.py::", PAGE)) == len(NAMED)
    assert not re.findall(r"tests/[\w/]+\.py:\w", PAGE)


def test_each_test_method_of_mirrormaker_has_one_row() -> None:
    assert len(declared(METHODS)) == 186
    assert sorted(method for method, *_ in ROWS) == sorted(declared(METHODS))


@pytest.mark.parametrize(("method", "verdict", "why", "ours"), ROWS, ids=[method for method, *_ in ROWS])
def test_a_row_has_a_test_of_ours_or_says_why_not(method: str, verdict: str, why: str, ours: str) -> None:
    assert "::" in ours or verdict == "not applicable", "no test of ours"
    assert why or verdict in ("kept", "improved"), "it does not say why"


def test_tests_that_start_clusters_are_counted_with_those_that_are_inherited() -> None:
    tests = integration_tests(METHODS)
    assert len(tests) == 109
    assert "MirrorConnectorsIntegrationSSLTest.testReplication" in tests
    assert "MirrorMakerConfigTest.testAllConfigNames" not in tests


def test_the_section_of_results_is_what_make_parity_writes() -> None:
    results = read_results(PAGE)
    assert results.keys() <= set(integration_tests(METHODS))
    assert write_results(PAGE, results, integration_tests(METHODS)) == PAGE
    assert all(one.said for one in results.values() if one.outcome is not Outcome.PASSED)


def test_a_result_is_written_and_read_again() -> None:
    tests = ["A.testOne", "A.testTwo", "B.testOne"]
    results = {
        "A.testOne": Result("A.testOne", Outcome.PASSED, "", 48, "2026-11-22"),
        "B.testOne": Result("B.testOne", Outcome.FAILED, "AssertionError: a | b", 7, "2026-11-21"),
    }
    page = write_results(f"before\n{BEGIN}\n{END}\nafter\n", results, tests)
    assert page.startswith(f"before\n{BEGIN}\n") and page.endswith(f"\n{END}\nafter\n")
    assert "Of 3 tests 1 passed, 1 failed, 0 are unmapped, and 1 have not been run." in page
    assert "| B.testOne | failed: AssertionError: a / b | 7 s | 2026-11-21 |" in page
    assert write_results(page, read_results(page), tests) == page
