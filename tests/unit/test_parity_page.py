"""docs/parity.md tells the truth: every test of ours that it names is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.findall(r"`(tests/[\w/]+\.py):(\w+)`", (ROOT / "docs" / "parity.md").read_text())


@pytest.mark.parametrize(("file", "function"), sorted(set(NAMED)))
def test_each_test_that_is_named_exists(file: str, function: str) -> None:
    assert re.search(rf"^def {function}\(", (ROOT / file).read_text(), re.MULTILINE)
