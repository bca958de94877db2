"""How far long work has come, where nobody watches a terminal."""

import pytest

from sparkmirror.cli.output import Lines, progress


def test_a_line_every_ten_seconds_says_how_long_the_rest_takes(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    lines = Lines("offsets", lambda: now[0])
    for second in range(40):
        now[0] = float(second)
        lines.tell("east orders-0", 1000 * second, 40_000)
    lines.tell("east orders-0", 40_000, 40_000)
    assert capsys.readouterr().err.splitlines() == [
        "east orders-0: 10,000 of 40,000 offsets, 25%, about 30 s left",
        "east orders-0: 20,000 of 40,000 offsets, 50%, about 20 s left",
        "east orders-0: 30,000 of 40,000 offsets, 75%, about 10 s left",
    ]


def test_short_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("offsets") as tell:
        tell("east orders-0", 5, 10)
    assert capsys.readouterr().err == ""
