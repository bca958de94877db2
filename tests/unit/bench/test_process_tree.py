"""CPU and memory of a whole process tree, each process once."""

import subprocess
import sys
import time

import pytest
from bench.process_tree import PeakMemory, Process, cpu_seconds, parse_stat, pss_bytes, select_tree, spent_between

HOG_BYTES = 64 << 20
BURN = "import time\nwhile time.process_time() < 0.3: pass"
PARENT = f"""
import resource, subprocess, sys
subprocess.run([sys.executable, "-c", {BURN!r}])
usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(sum(usage.ru_utime + usage.ru_stime for usage in usages), flush=True)
sys.stdin.read()
"""


def test_a_child_that_has_ended_counts_once() -> None:
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        own_account = float(parent.stdout.readline())
        assert cpu_seconds(parent.pid) == pytest.approx(own_account, abs=0.1)
        parent.communicate("")


def test_the_command_name_may_hold_brackets_and_blanks() -> None:
    fields = "S 10 42 42 0 -1 4194560 1 2 3 4 100 20 3 2 20 0 8 0 777 9 9"
    process = parse_stat(f"42 (a) b (c) {fields}")
    assert (process.pid, process.parent, process.session, process.started) == (42, 10, 42, 777)
    assert process.cpu_seconds == pytest.approx(1.25)


def test_a_tree_holds_descendants_and_orphans_of_its_session_and_nobody_else() -> None:
    def process(pid: int, parent: int, session: int) -> Process:
        return Process(pid, parent, session, 0, 1.0)

    own = [process(5, 1, 5), process(6, 5, 5), process(7, 6, 7), process(8, 1, 5), process(9, 8, 9)]
    others = [process(1, 0, 1), process(2, 1, 2), process(10, 2, 2)]
    assert {member.pid for member in select_tree([*others, *own], 5)} == {5, 6, 7, 8, 9}


def test_peak_memory_remembers_what_is_gone() -> None:
    hog = f"x = b'x' * {HOG_BYTES}; print(flush=True); input(); del x; print(flush=True); input()"
    command = [sys.executable, "-c", hog]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None and program.stdout is not None
        program.stdout.readline()
        with PeakMemory(program.pid) as memory:
            deadline = time.monotonic() + 60
            while memory.peak_bytes < HOG_BYTES and time.monotonic() < deadline:
                time.sleep(0.01)
            program.stdin.write("\n")
            program.stdin.flush()
            program.stdout.readline()
        small = pss_bytes(program.pid)
        program.communicate("\n")
    assert memory.peak_bytes >= HOG_BYTES > small > 0


def test_a_process_that_ends_between_two_looks_does_not_make_time_run_back() -> None:
    before = {(5, 1): 2.0, (6, 1): 9.0}
    after = {(5, 1): 2.5, (7, 3): 0.25}
    assert spent_between(before, after) == pytest.approx(0.75)
