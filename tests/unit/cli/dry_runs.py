"""What `sparkmirror submit --dry-run` says of a file with a password."""

import pytest

from sparkmirror.cli.main import main

FILE = """\
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
B.ssl.key.password = hunter2
A->B.enabled = true
tasks.max = 3
"""


def dry_run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Status, standard output, and standard error."""
    status = main(["submit", *arguments, "--dry-run"])
    said = capsys.readouterr()
    return status, said.out, said.err
