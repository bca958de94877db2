"""Mirrors that have caught up: who spent what, what a row is worth, how it is shown."""

import mmap
import os
import struct

import pytest
from bench.arrivals import Ages, summarise
from bench.caught_up import CaughtUp, is_close, judge_rate
from bench.caught_up_table import CaughtUpRow, render_caught_up
from bench.command import numbers
from bench.even_writer import Pace
from bench.results import Results, judge
from bench.roles import (
    DRIVER,
    JVM,
    PLANNER,
    READER,
    WORKERS,
    WRITER,
    Look,
    answers_between,
    find_rings,
    role_of,
    spent_by_role,
)

from sparkmirror.pipeline.relay.ring import Ring

PYTHON = "/venv/bin/python -m sparkmirror.spark.python_daemon"


def test_processes_are_distinguished_by_command_and_by_their_end_of_a_ring() -> None:
    assert role_of("/usr/bin/java -cp conf org.apache.spark.deploy.SparkSubmit", False, False, False) == JVM
    assert role_of(f"{PYTHON} pyspark.worker", False, True, False) == READER
    assert role_of(f"{PYTHON} pyspark.worker", False, False, True) == WRITER
    assert role_of(f"{PYTHON} pyspark.worker", False, False, False) == WORKERS
    assert role_of(f"{PYTHON} pyspark.sql.streaming.python_streaming_source_runner", False, False, False) == PLANNER
    assert role_of("/venv/bin/python /venv/bin/sparkmirror run file", True, False, False) == DRIVER


def test_cpu_and_answers_are_of_what_lives_at_the_end() -> None:
    before = Look({(1, 1): 5.0, (2, 1): 9.0}, {(1, 1): DRIVER, (2, 1): READER}, {70: 100, 71: 50})
    after = Look(
        {(1, 1): 6.5, (3, 2): 0.5, (4, 2): 0.25}, {(1, 1): DRIVER, (3, 2): READER, (4, 2): READER}, {70: 130, 72: 7}
    )
    assert spent_by_role(before, after) == {DRIVER: 1.5, READER: 0.75}
    assert answers_between(before, after) == 37


def test_a_ring_of_the_product_tells_its_writer_and_what_it_took() -> None:
    """The words of the control page are where `sparkmirror.pipeline.relay.ring` has them."""
    ring = Ring(1 << 20)
    try:
        assert list(find_rings([os.getpid()])) == [], "nobody writes yet"
        with mmap.mmap(ring.address.memory, mmap.PAGESIZE) as page:
            page[8:16] = struct.pack("Q", 12345)
            page[80:88] = struct.pack("Q", 17)
        (found,) = find_rings([os.getpid()])
        assert (found.reader, found.writer, found.taken) == (os.getpid(), 12345, 17)
    finally:
        ring.close()


def test_a_writer_keeps_its_pace_over_ticks_and_begins_again_with_each_rate() -> None:
    pace = Pace()
    assert pace.take(1.0) == 0
    pace.change(1000, 10.0)
    assert [pace.take(10.0 + late / 1000) for late in (1.5, 2.5, 5.5, 5.5)] == [1, 1, 3, 0]
    pace.change(50, 11.0)
    assert pace.take(11.11) == 5


def test_a_mirror_that_is_behind_is_no_measurement() -> None:
    assert judge_rate(1000, 995) == ""
    assert judge_rate(0, 0) == ""
    assert "Only 900" in judge_rate(1000, 900)
    assert "still behind" in judge_rate(1000, 1100)


def test_a_mirror_has_caught_up_when_what_arrives_is_young_or_nothing_is_left_to_arrive() -> None:
    assert is_close([3.0, 999.0], 50)
    assert not is_close([3.0, 1001.0], 50)
    assert not is_close([], 50)
    assert is_close([], 0)
    assert not is_close([3.0], 0), "what was written before still comes"


def test_rows_say_what_each_process_takes_for_an_answer_and_of_memory() -> None:
    memory = {READER: 60_000_000, JVM: 1_240_000_000}
    found = CaughtUp(50, 8, 30.0, {READER: 0.02, JVM: 0.03}, Ages(1500, 4.0, 9.0, 12.0), 50.0, memory)
    assert found.microseconds_an_answer() == pytest.approx({"": 1000.0, READER: 400.0, JVM: 600.0})
    idle = CaughtUp(0, 8, 30.0, {JVM: 0.01}, None, 0.0)
    assert idle.microseconds_an_answer() == {}
    table = render_caught_up(
        [
            CaughtUpRow("spark", "SparkMirror", 50, 8, found),
            CaughtUpRow("spark", "SparkMirror", 0, 8, idle),
            CaughtUpRow("bare", "bare loop", 5, 1, "no"),
        ]
    )
    assert (
        "| SparkMirror | 8 | 50 | 5.0 | 4.0 | 9.0 | 12.0 | 50 | 1,000 | JVM 3.0, reader 2.0 | JVM 600, reader 400 "
        "| 1,300 | JVM 1,240, reader 60 |" in table
    )
    assert table.index("bare loop") < table.index("| SparkMirror | 8 | 0 |") < table.index("| SparkMirror | 8 | 50 |")


def test_what_has_caught_up_is_judged_against_mirror_maker_at_the_same_rate() -> None:
    ours = CaughtUp(1000, 8, 30.0, {JVM: 0.08}, Ages(30_000, 3.0, 4.0, 5.0), 200.0)
    theirs = CaughtUp(1000, 8, 30.0, {JVM: 0.2}, Ages(30_000, 5.0, 8.0, 12.0), None)
    idle = CaughtUp(0, 8, 30.0, {JVM: 0.012}, None, 0.0, {JVM: 601_000_000})
    rows = (
        CaughtUpRow("mm2-default", "MirrorMaker 2", 1000, 8, theirs),
        CaughtUpRow("mm2-default", "MirrorMaker 2", 5000, 8, "it was behind"),
        *(
            CaughtUpRow("spark", "SparkMirror", rate, 8, found)
            for rate, found in ((0, idle), (1000, ours), (5000, ours))
        ),
    )
    found = {one.subject: (one.measured, one.met) for one in judge(Results((), (), {}, caught_up=rows))}
    where = "caught up, 8 partitions,"
    assert found == {
        f"{where} 0 records/s: cores": ("0.012", False),
        f"{where} 0 records/s: memory, MB": ("601", False),
        f"{where} 1,000 records/s: CPU / MM2 default": ("0.4", True),
        f"{where} 1,000 records/s: p50 / MM2 default": ("0.6", False),
        f"{where} 1,000 records/s: p99 / MM2 default": ("0.5", True),
        f"{where} 1,000 records/s: p99.9 / MM2 default": ("0.417", True),
    }, "a rate at which either has no measurement is not judged"


def test_ages_are_percentiles_by_nearest_rank() -> None:
    assert summarise([]) is None
    assert summarise([float(value) for value in range(1, 1001)]) == Ages(1000, 500.0, 990.0, 999.0)


def test_lists_of_numbers_are_read_or_refused_in_a_sentence() -> None:
    assert numbers(None, (1, 2)) == (1, 2)
    assert numbers("0,50", ()) == (0, 50)
    with pytest.raises(SystemExit, match="no list of whole numbers"):
        numbers("1,x", ())
