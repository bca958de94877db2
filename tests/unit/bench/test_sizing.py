"""The sizing model against what was measured; the rows are those of docs/benchmarks.md, by the minute of their run."""

import pytest
from bench.machine import ROOT
from bench.sizing import EXAMPLES, Load, cpu_seconds, idle_cores, idle_memory, main, render, size

PAGE = (ROOT / "docs" / "benchmarks.md").read_text()
A, D = 160_854 / 225, 10_967 / 15
"""Bytes in the log of a record of 1 KB under lz4, in large and in small batches."""

MANY = "| SparkMirror | 1,000 | 10,000 | 18.1 | 45.6 | 13.0 | 3.3 | 4.0 | 1,111 | 0.8 |"
"""1,000 topics of ten partitions: at the end the idle share of a core in per cent, MB, and seconds of a sync round."""


@pytest.mark.parametrize(
    ("row", "load", "megabytes", "measured"),
    [
        ("| SparkMirror | 330,638 | 331 | 1.42 |", Load(331, 160_854, 4), A, 1.42),
        ("| SparkMirror, inline payload | 272,601 | 273 | 3.37 |", Load(273, 160_854, 4, inline=True), A, 3.37),
        ("| SparkMirror | 323,721 | 324 | 1.89 |", Load(324, 160_854, 4, tls=True), A, 1.89),
        ("| SparkMirror | 490,911 | 491 | 1.59 |", Load(491, 161_597, 4), 161_597 / 160, 1.59),
        ("| SparkMirror | 4,235,785 | 424 | 0.70 |", Load(424, 164_997, 4), 4 * 164_997 / 1500, 0.70),
        ("| SparkMirror | 247,191 | 247 | 1.67 |", Load(247, 10_967, 4), D / 2, 1.67),
        ("| SparkMirror | 168,878 | 17 | 1.40 |", Load(17, 170, 4), 0.2 * 170, 1.40),
    ],
    ids=["a", "a inline", "a TLS", "b", "c", "d", "e, merged"],
)
def test_cpu_of_a_copy_is_foretold_within_a_fifth(row: str, load: Load, megabytes: float, measured: float) -> None:
    assert row in PAGE, "the row that the model is held against"
    assert cpu_seconds(load, megabytes) == pytest.approx(measured, rel=0.2)


@pytest.mark.parametrize(
    ("row", "rate", "batch_bytes", "log_share"),
    [
        ("| SparkMirror | 37,646 | 38 | 1.05 |", 37.6, 161_597, 161_597 / 160_000),
        ("| SparkMirror | 50,243 | 50 | 0.33 |", 50.2, 10_967, 10_967 / 15_000),
    ],
    ids=["g", "h"],
)
def test_what_one_connection_brings_over_100_ms(row: str, rate: float, batch_bytes: int, log_share: float) -> None:
    """One partition goes over one connection."""
    assert row in PAGE
    need = size(Load(rate * log_share, batch_bytes, 1, 100.0))
    assert rate * log_share == pytest.approx(need.connection_megabytes_per_second, rel=0.1)


def test_memory_is_that_of_the_processes_the_rings_and_the_partitions() -> None:
    assert "| SparkMirror | 50 | 5.0 | 11.1 | 65.0 | 8.4 | 5.1 | 1,067 |" in PAGE
    assert idle_memory(2, 4) == pytest.approx(1067e6, rel=0.15)
    assert MANY in PAGE
    assert idle_memory(2, 10_000) == pytest.approx(1111e6, rel=0.2)
    assert "| SparkMirror | 330,638 | 331 | 1.42 | 704 | 1,116 |" in PAGE
    assert size(Load(331, 160_854, 4)).memory_bytes == pytest.approx(1116e6, rel=0.2)


def test_an_idle_mirror_takes_little_and_partitions_hardly_any_of_it() -> None:
    assert "| SparkMirror | 50 | 4.6 | 10.3 | 31.2 | 8.2 | 3.5 | 1,094 |" in PAGE
    assert idle_cores(4) == pytest.approx(0.035, rel=0.2)
    assert MANY in PAGE
    assert idle_cores(10_000) == pytest.approx(0.04, rel=0.2)


def test_cost_grows_with_bytes_and_hardly_with_partitions() -> None:
    few, many = size(Load(100, 16_000, 100)), size(Load(100, 16_000, 10_000))
    assert size(Load(1000, 16_000, 100)).cores == pytest.approx(10 * few.cores, rel=0.15)
    assert many.cores < 1.2 * few.cores


def test_a_long_link_asks_for_connections_and_so_for_tasks() -> None:
    near, far = Load(2000, 160_000, 1000), Load(2000, 160_000, 1000, 200)
    assert (size(near).tasks, size(far).tasks) == (10, 18)
    assert size(Load(2000, 160_000, 3, 200)).tasks == 3, "no more tasks than partitions"


def test_the_page_shows_what_the_model_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert render(EXAMPLES) in (ROOT / "docs" / "sizing.md").read_text()
    assert main(["--rate", "100", "--batch", "11000", "--partitions", "200"]) == 0
    assert "| this load | 100 | 11,000 | 200 | 0 |" in capsys.readouterr().out
