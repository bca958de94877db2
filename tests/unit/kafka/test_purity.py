"""Planners stay free of the Kafka client and of Spark, so that they can be tested and imported anywhere."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module",
    [
        "sparkmirror.kafka.answers",
        "sparkmirror.kafka.settings",
        "sparkmirror.ledger.connect",
        "sparkmirror.ledger.positions",
        "sparkmirror.ledger.topics",
        "sparkmirror.ledger.view",
        "sparkmirror.sync.topics",
    ],
)
def test_a_pure_module_loads_neither_client_nor_spark(module: str) -> None:
    program = f"import sys, {module}; print(sorted({{'kafka', 'pyspark', 'py4j'}} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert answer.stdout.strip() == "[]"
