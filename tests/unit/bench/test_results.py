"""Ratios, goals and tables from measurements."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from bench.contestants import Job, common_properties, render_properties
from bench.copying import Copy
from bench.crowd import Crowd, Size
from bench.even_rate import Shape, Spent
from bench.latency import Latency
from bench.results import (
    APART,
    BARE,
    DEFAULT,
    SOCKET,
    SPARK,
    TUNED,
    CopyRow,
    CrowdRow,
    Results,
    ShapeRow,
    SteadyRow,
    VerifyRow,
    judge,
    render_results,
)
from bench.steady import Steady
from bench.verifying import Verified
from bench.workloads import WORKLOADS

from sparkmirror.config.flow.flows import parse_config
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.testing.kafka import KafkaCluster

A = WORKLOADS["a"]


def copy(seconds: float, cpu_seconds: float, peak_megabytes: int = 1000) -> Copy:
    return Copy(1_000_000, 1000.0, seconds, cpu_seconds, peak_megabytes * 1_000_000, 5.0)


def row(contestant: str, outcome: Copy | str) -> CopyRow:
    return CopyRow(A, "", contestant, contestant, outcome)


def steady(p50_ms: float, p99_ms: float, idle_cores: float = 0.01) -> Steady:
    latencies = tuple(Latency(rate, 20 * rate, p50_ms, p99_ms, 2 * p99_ms, (), 0.5) for rate in (50, 1000))
    return Steady(6.0, latencies, idle_cores, 500_000_000)


def results(*copies: CopyRow, steady: tuple[SteadyRow, ...] = ()) -> Results:
    return Results(copies, steady, {})


def verdicts(found: Results) -> dict[str, tuple[str, bool]]:
    return {verdict.subject: (verdict.measured, verdict.met) for verdict in judge(found)}


def test_merging_that_costs_the_mirror_more_and_the_brokers_less_meets_the_goal_of_the_whole_machine() -> None:
    merged, apart = (
        replace(copy(5.0, ours), brokers_cpu_seconds=brokers) for ours, brokers in ((5.5, 4.0), (5.0, 6.0))
    )
    found = results(row(SPARK, merged), row(APART, apart))
    assert verdicts(found)["a: CPU / without merging"] == ("1.1", False)
    assert verdicts(found)["a: CPU with the brokers' / without merging"] == ("0.864", True)
    assert "| spark | 200,000 | 200 | 5.50 | 4.00 | 182 |" in render_results(found)


def test_a_mirror_that_is_four_times_as_fast_meets_the_goal_and_one_that_is_three_times_does_not() -> None:
    tuned = row(TUNED, copy(8.0, 12.0))
    assert verdicts(results(tuned, row(SPARK, copy(2.0, 2.0))))["a: rate / MM2 tuned"] == ("4.00", True)
    assert verdicts(results(tuned, row(SPARK, copy(2.5, 2.0))))["a: rate / MM2 tuned"] == ("3.20", False)


def test_a_comparison_is_set_beside_the_copy_that_it_is_of() -> None:
    verified = VerifyRow(A, Verified(1_000_000, 1000.0, 1.0, 9.0, 0.98))
    told = render_results(Results((row(SPARK, copy(2.0, 2.0)),), (), {}, verified=(verified,)))
    assert "| a | 1,000,000 | 1,000 | 98% | 1.0 | 9.0 | 2.00 |" in told
    failed = render_results(Results((), (), {}, verified=(VerifyRow(A, "it differs"),)))
    assert "sparkmirror verify, a failed:\n\n```\nit differs\n```" in failed


def test_cpu_is_compared_for_the_same_amount_of_data() -> None:
    late = Copy(500_000, 500.0, 1.0, 1.0, 10**9, 5.0)
    measured, met = verdicts(results(row(TUNED, copy(8.0, 10.0)), row(SPARK, late)))["a: CPU / MM2 tuned"]
    assert (measured, met) == ("0.2", False)


def test_memory_is_compared_with_the_smaller_mirror_maker() -> None:
    found = results(row(DEFAULT, copy(30, 30, 800)), row(TUNED, copy(8, 12, 1200)), row(SPARK, copy(2, 2, 900)))
    assert verdicts(found)["a: peak memory / MM2"] == ("1.12", False)


def test_a_goal_without_its_other_side_is_not_judged() -> None:
    assert verdicts(results(row(SPARK, copy(2.0, 2.0)))) == {}
    assert set(verdicts(results(row(SPARK, copy(2.0, 2.0)), row(BARE, copy(1.8, 0.5))))) == {
        "a: rate / bare loop",
        "a: CPU / bare loop",
    }


def test_a_running_flow_is_judged_against_mirror_maker_with_defaults() -> None:
    found = results(
        steady=(SteadyRow(DEFAULT, "MM2", steady(6.0, 50.0)), SteadyRow(SPARK, "us", steady(2.5, 30.0, 0.05)))
    )
    assert verdicts(found) == {
        "latency at 50 records/s: p50 / MM2 default": ("0.417", True),
        "latency at 50 records/s: p99 / MM2 default": ("0.6", False),
        "latency at 1000 records/s: p50 / MM2 default": ("0.417", True),
        "latency at 1000 records/s: p99 / MM2 default": ("0.6", False),
        "first record, seconds from start": ("6", False),
        "idle, cores": ("0.05", False),
    }


def test_the_table_shows_rates_and_ratios_of_each_contestant() -> None:
    text = render_results(results(row(TUNED, copy(8.0, 12.0)), row(SPARK, copy(2.0, 2.0))))
    assert "**a**: 1,000,000 × 1 KB, lz4, 160 KB batches" in text
    line = next(line for line in text.splitlines() if line.startswith("| spark"))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == ["spark", "500,000", "500", "2.00", "0.00", "500", "1,000", "5.0", "4.00", "0.17", "", "", "", ""]


def test_every_row_of_a_table_has_as_many_cells_as_its_head() -> None:
    found = results(
        row(TUNED, copy(8.0, 12.0)),
        row(SPARK, "no"),
        steady=(SteadyRow(SPARK, "us", steady(1, 2)), SteadyRow(TUNED, "MM2", "no")),
    )
    blocks = [block.splitlines() for block in render_results(found).split("\n\n") if block.startswith("|")]
    assert len(blocks) >= 2
    for block in blocks:
        assert len({line.count("|") for line in block}) == 1


def test_a_failure_is_shown_in_full_and_hides_nothing_else() -> None:
    text = render_results(results(row(TUNED, copy(8.0, 12.0)), row(SPARK, "The program ended with status 3.")))
    assert "| spark | failed |" in text
    assert "The program ended with status 3." in text
    assert "125,000" in text


@pytest.mark.parametrize("surplus", [0, 7])
def test_repeated_records_are_said(surplus: int) -> None:
    outcome = Copy(1_000_000, 1000.0, 2.0, 2.0, 10**9, 5.0, surplus)
    assert ("(+7 repeated)" in render_results(results(row(SPARK, outcome)))) == bool(surplus)


def test_over_a_long_link_the_rate_is_judged_against_both_mirrors_and_a_plain_socket() -> None:
    found = results(
        *(
            CopyRow(WORKLOADS["f"], "", name, name, copy(seconds, 1.0))
            for name, seconds in ((DEFAULT, 10.0), (TUNED, 3.0), (SOCKET, 1.7), (SPARK, 2.0))
        )
    )
    assert verdicts(found) == {
        "f: rate / mm2-default": ("5.00", True),
        "f: rate / mm2-tuned": ("1.50", True),
        "f: rate / socket": ("0.85", True),
        "f: peak memory / MM2": ("1", True),
    }


def test_very_many_partitions_are_judged_for_our_own_mirror_alone() -> None:
    ours = Crowd(Size(), 25.0, 60.0, 9.0, 4.0, 0.04, 1_300_000_000, 8.0)
    theirs = replace(ours, first_seconds=99.0, sync_seconds=None)
    found = Results((), (), {}, crowds=(CrowdRow(DEFAULT, "MM2", theirs), CrowdRow(SPARK, "us", ours)))
    assert verdicts(found) == {
        "1,000 topics: first record, seconds from start": ("25", False),
        "1,000 topics: idle, cores": ("0.04", True),
        "1,000 topics: memory, GB": ("1.3", False),
        "1,000 topics: a new topic, seconds": ("4", True),
        "1,000 topics: a round of all syncs, seconds": ("8", True),
    }
    assert "| us | 1,000 | 10,000 | 25.0 | 60.0 | 9.0 | 4.0 | 4.0 | 1,300 | 8.0 |" in render_results(found)
    assert "| MM2 | 1,000 | 10,000 | 99.0 | 60.0 | 9.0 | 4.0 | 4.0 | 1,300 |  |" in render_results(found)


def test_an_even_rate_shows_what_each_layout_costs() -> None:
    rows = (
        ShapeRow("us", Shape(8, 2), Spent(Shape(8, 2), 5000.0, 0.25, 900_000_000, 6.0)),
        ShapeRow("MM2", Shape(8, 1, flows=10), "it did not start"),
    )
    text = render_results(Results((), (), {}, shapes=rows))
    assert "| us | 1 | 8 | 2 | 5,000 | 25 | 900 | 6.0 |" in text
    assert "| MM2 | 10 | 80 | 10 | failed |  |  |  |" in text
    assert "MM2, 10 flows of 8 partitions, 1 tasks failed:\n\n```\nit did not start" in text


def test_ten_flows_of_a_process_have_a_source_and_a_topic_each() -> None:
    cluster = cast(KafkaCluster, SimpleNamespace(bootstrap_servers="a:1", bootstrap_servers_tls="", size=1))
    job = Job(cluster, cluster, "spark-3", "shape", flows=10)
    text = render_properties(common_properties(job))
    (_, *flows) = parse_config(parse_properties(text.encode(), "mm2"), (), ()).flows
    assert [str(flow.name) for flow in flows] == [f"spark-3-{number}->t" for number in range(1, 10)]
    assert all(flow.should_replicate(f"shape-{number}") for number, flow in enumerate(flows, 1))
    assert not flows[0].should_replicate("shape-2")
