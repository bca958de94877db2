"""What processes that share a flow say of it, for the tests that start several."""

import re

from tests.faults.tree import Run

_RUNS = re.compile(r"this process runs tasks ([\d, ]+|none) of \d+")


def tasks_of(run: Run) -> set[int]:
    """What the process has last said that it runs."""
    said = _RUNS.findall(run.errors)
    return {int(task) for task in said[-1].split(", ")} if said and said[-1] != "none" else set()


def wait_until_shared(one: Run, other: Run) -> None:
    """Until each runs one of two tasks."""
    other.wait_until(
        lambda: len(tasks_of(one)) == len(tasks_of(other)) == 1 and tasks_of(one) != tasks_of(other),
        "each process runs one of two tasks",
        60,
    )
