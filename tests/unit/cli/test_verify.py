"""What `sparkmirror verify`, `migrate` and `failover` refuse before they ask a cluster anything."""

from pathlib import Path

import pytest

from sparkmirror.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["verify", "--sample", "0"], "`--sample 0`: a percentage is more than 0 and at most 100"),
        (["verify", "--sample", "101"], "`--sample 101`"),
        (["verify", "--continuous", "0"], "`--continuous 0`: this takes a number of seconds above 0"),
        (["verify", "--continuous", "--html", "x.html"], "exclude each other"),
        (["verify", "--html", "/nowhere/x.html"], "there is no directory /nowhere"),
        (["verify", "--topic", "("], "is not a Java regular expression"),
        (["migrate run", "--sample", "-1"], "`--sample -1`"),
        (["migrate run", "--quiet-seconds", "-1"], "`--quiet-seconds -1`"),
        (["migrate run", "--quiet-seconds", "nan"], "`--quiet-seconds nan`: this takes a number of seconds from 0 on"),
        (["verify", "--continuous", "inf"], "`--continuous inf`: this takes a number of seconds above 0"),
        (["failover run", "--drain-seconds", "nan"], "`--drain-seconds nan`"),
        (["failover drill", "--drain-seconds", "-1"], "`--drain-seconds -1`"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verb, *rest = arguments
    assert main([*verb.split(), str(tmp_path / "mirror.properties"), *rest]) == 2
    assert said in capsys.readouterr().err
