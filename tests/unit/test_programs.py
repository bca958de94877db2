"""A test for which a program is missing fails, unless skips are allowed."""

import pytest
from tests.programs import MISSING, program


def test_a_missing_program_fails_its_tests_unless_skips_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert program("nothing-of-this-name", "sh").endswith("/sh")
    monkeypatch.setenv("ALLOW_SKIPS", "0")
    with pytest.raises(pytest.fail.Exception, match=f"nothing-of-this-name {MISSING}.*ALLOW_SKIPS=1"):
        program("nothing-of-this-name")
    monkeypatch.setenv("ALLOW_SKIPS", "1")
    with pytest.raises(pytest.skip.Exception, match=MISSING):
        program("nothing-of-this-name")
