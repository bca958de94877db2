"""One cell of the fault matrix: a fault strikes a scene, alone or with a second event, and everything is judged."""

import os
import random
import time
from pathlib import Path

import pytest
from tests.faults.breakages import Breakage, Impossible
from tests.faults.results import Result, Results
from tests.faults.scene import AT_LEAST_ONCE, EXACTLY_ONCE, IDENTICAL, Mode, Scene
from tests.faults.second_events import Second
from tests.faults.story import PER_SECOND, REPEATED_MAX

SEED = int(os.environ.get("FAULTS_SEED", "1"))
MODES = [Mode(delivery, brokers) for brokers in (1, 3) for delivery in (AT_LEAST_ONCE, EXACTLY_ONCE)]
ROUTED_MODES = [Mode(EXACTLY_ONCE, brokers, is_routed=True) for brokers in (1, 3)]
ALIGNED_MODES = [Mode(IDENTICAL, brokers) for brokers in (1, 3)]
_SAID = 4000


def open_results() -> Results | None:
    """Where FAULTS_PAGE says that results are kept."""
    page = os.environ.get("FAULTS_PAGE")
    return Results(Path(page)) if page else None


def run_cell(scene: Scene, breakage: Breakage, results: Results | None, second: Second | None = None) -> None:
    """Strike, judge, keep the result. Skips what there is not in this mode, or on this machine."""
    mode = scene.mode
    if mode.delivery not in breakage.deliveries or mode.brokers < breakage.brokers_min:
        pytest.skip("there is no such thing in this mode")
    if second is not None and second.replaces_topic and mode.delivery == IDENTICAL:
        pytest.skip("what a topic that is made again leaves at its offsets, a person has to remove")
    cell = Result(breakage.name, mode.promise, mode.brokers, SEED, second=second.name if second else "")
    if results is not None and os.environ.get("FAULTS_RESUME") and results.is_well(cell):
        pytest.skip("its result is kept")
    try:
        result = _strike(scene, breakage, second, cell)
    except Impossible as reason:
        _keep(results, cell.that_was_impossible(str(reason)))
        pytest.skip(str(reason))
    except (Exception, pytest.fail.Exception) as problem:
        _keep(results, cell.that_failed(f"{type(problem).__name__}: {problem}".splitlines()[0]))
        problem.add_note(_what_was_said(scene))
        scene.end_flow(broken=True)
        raise
    _keep(results, result)


def _keep(results: Results | None, result: Result) -> None:
    if results is not None:
        results.add(result)


def _strike(scene: Scene, breakage: Breakage, second: Second | None, cell: Result) -> Result:
    if second is not None:
        scene.dice = random.Random(f"{SEED}, {breakage.name}, {second.key}")
    scene.ensure_flow()
    scene.ensure_processes(second.processes if second else 1)
    scene.catch_up()
    witness = scene.witness
    repeats_before, gaps_before = witness.repeats, witness.gaps()
    arrived_before = [0 if second and second.replaces_topic else len(log.first) for log in witness.logs]
    witness.silence_seconds = 0.0
    if second is not None:
        scene.arm(second.happen)
    struck_at = time.monotonic()
    breakage.strike(scene)
    assert not scene.is_armed, "the fault did not say when it was in force"
    scene.conclude()
    repeats_max = _repeats_max(scene.mode, second, time.monotonic() - struck_at)
    caught_up_seconds = scene.catch_up_with_more()
    topic_id = scene.topic_id()
    scene.story.wait_until_on_log(scene.run, topic_id)
    scene.story.wait_until_close(scene.run, scene.writer)
    scene.catch_up()
    scene.await_sharing()
    repeats = witness.repeats - repeats_before
    assert repeats <= repeats_max, f"{repeats} records came again"
    gaps = [gap for gap in witness.gaps() if gap not in gaps_before]
    if second is not None and second.replaces_topic:
        witness.assert_told(gaps, topic_id, behind_max=repeats_max)
    else:
        assert not gaps, f"gaps are told where nothing was lost: {gaps}"
    return cell.that_measured(
        caught_up_seconds, repeats, witness.assert_mapped(arrived_before), witness.silence_seconds
    )


def _repeats_max(mode: Mode, second: Second | None, seconds: float) -> int:
    """`seconds` from the strike until both events were over: what a process that slept then had under way."""
    if mode.delivery != AT_LEAST_ONCE:
        return 0
    return REPEATED_MAX + (int(seconds * PER_SECOND) if second is not None and second.wakes else 0)


def _what_was_said(scene: Scene) -> str:
    runs = [run for run in (getattr(scene, "run", None), scene.other) if run is not None]
    states = (f"--- {run.pid}, {'running' if run.running else 'ended'}:\n{run.errors[-_SAID:]}" for run in runs)
    return "\n".join([f"The mirrors said (all of it in {scene.directory}):", *states])
