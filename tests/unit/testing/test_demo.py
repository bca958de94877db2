"""What `sparkmirror demo` needs beside SparkMirror."""

import sys

import pytest

from sparkmirror.errors import EnvironmentProblem
from sparkmirror.testing.demo import find_client


def test_a_demo_without_its_client_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "sparkmirror.testing.demo_client", raising=False)
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(EnvironmentProblem, match="confluent-kafka") as raised:
        find_client()
    assert "sparkmirror[demo]" in raised.value.hint
