"""`sparkmirror config check` of a flow with transforms asks Spark itself, and no cluster."""

from pathlib import Path

import pytest

from sparkmirror.cli.main import main

FLOW = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"


@pytest.mark.parametrize(
    ("step", "status", "said"),
    [
        ("where = value =", 2, ":5: `A->B.transforms.where` is refused by Spark: [PARSE_SYNTAX_ERROR]"),
        ("where = amount > 3", 2, ":5: `A->B.transforms.where` is refused by Spark: [UNRESOLVED_COLUMN"),
        ("where = offset > 3", 0, "can be used; it mirrors A->B"),
    ],
)
def test_a_transform_that_spark_refuses_is_found(
    step: str, status: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mirror.properties"
    file.write_text(f"{FLOW}A->B.transforms.{step}\n")
    assert main(["config", "check", str(file)]) == status
    assert said in capsys.readouterr().out
