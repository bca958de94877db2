"""`sparkmirror config check` of a flow with transforms asks Spark itself, and no cluster."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.database import PASSWORD, database, driver_jar

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
    ended = _checked(file)
    assert (ended.returncode, said in ended.stdout) == (status, True), ended.stdout + ended.stderr


def test_a_table_of_a_database_is_read_and_what_it_lacks_is_said(tmp_path: Path) -> None:
    """Four flows, each of a table; the driver's jar is named as for `run`."""
    with database(tmp_path) as shop:
        shop.run("CREATE TABLE rates (id VARCHAR, rate INT); INSERT INTO rates VALUES ('eur', 1)")
        file = tmp_path / "mirror.properties"
        clusters = "".join(f"{alias}.bootstrap.servers = {alias}:1\n" for alias in "ABCDE")
        flows = [
            _of_database("A->B", shop.url, "table = rates", PASSWORD),
            _of_database("A->C", shop.url, "table = lost", PASSWORD),
            _of_database("A->D", shop.url, "query = SELECT * FROM rates", "wr0ng"),
            _of_database("A->E", shop.url, "query = SELECT rate FROM rates", PASSWORD),
        ]
        file.write_text(f"clusters = A, B, C, D, E\n{clusters}{''.join(flows)}")
        ended = _checked(file, "--conf", f"spark.jars={driver_jar()}")
        unarmed = _checked(file)
    told = ended.stdout + ended.stderr
    assert ended.returncode == 2 and "3 errors" in told, told
    for line, why in (
        (18, 'Table "LOST" not found'),
        (26, "Wrong user name"),
        (34, "has no column ID; its columns are RATE"),
    ):
        assert f":{line}: `A->{'BCDE'[line // 8 - 1]}.transforms.table.rates.jdbc.url` names a database, but" in told, (
            told
        )
        assert why in told, told
    assert (
        "`--conf spark.jars=" in unarmed.stdout and unarmed.stdout.count("ClassNotFoundException: org.h2.Driver") == 4
    ), unarmed.stdout
    assert not [secret for secret in (PASSWORD, "wr0ng") if secret in told + unarmed.stdout + unarmed.stderr]


def _of_database(flow: str, url: str, what: str, password: str) -> str:
    """Eight lines of a file."""
    lines = [
        "enabled = true", "transforms.where = lookup_rates(key).rate > 0", "transforms.table.rates.key = ID",
        f"transforms.table.rates.jdbc.url = {url}", f"transforms.table.rates.jdbc.{what}",
        "transforms.table.rates.jdbc.user = mirror", f"transforms.table.rates.jdbc.password = {password}",
        "transforms.table.rates.jdbc.option.loginTimeout = 5",
    ]  # fmt: skip
    return "".join(f"{flow}.{line}\n" for line in lines)


def _checked(file: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", "import sys; from sparkmirror.cli.main import main; sys.exit(main())"]
    return subprocess.run(
        [*command, "config", "check", str(file), *arguments], capture_output=True, text=True, timeout=300
    )
