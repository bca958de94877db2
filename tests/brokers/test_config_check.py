"""`sparkmirror config check` of a flow with transforms asks Spark itself, and no cluster."""

import subprocess
import sys
from pathlib import Path

import pytest

FLOW = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"


@pytest.mark.parametrize(
    ("step", "status", "said"),
    [
        ("where = value =", 2, ":5: `A->B.transforms.where` is refused by Spark: [PARSE_SYNTAX_ERROR]"),
        ("where = amount > 3", 2, ":5: `A->B.transforms.where` is refused by Spark: [UNRESOLVED_COLUMN"),
        ("where = offset > 3", 0, "can be used; it mirrors A->B"),
    ],
)
def test_a_transform_that_spark_refuses_is_found(step: str, status: int, said: str, tmp_path: Path) -> None:
    """In a process of its own, since it sets up logging."""
    file = tmp_path / "mirror.properties"
    file.write_text(f"{FLOW}A->B.transforms.{step}\n")
    command = [sys.executable, "-c", "import sys; from sparkmirror.cli.main import main; sys.exit(main())"]
    ended = subprocess.run([*command, "config", "check", str(file)], capture_output=True, text=True, timeout=300)
    assert (ended.returncode, said in ended.stdout) == (status, True), ended.stdout + ended.stderr
