"""A mirror that runs until something is reached, with a mirror that only waits."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from sparkmirror.errors import ClusterUnreachable, SparkMirrorError
from sparkmirror.runtime import start as module
from sparkmirror.runtime.options import RunOptions
from sparkmirror.runtime.start import run_until
from sparkmirror.stop_request import StopRequest


class Waiting:
    """In place of the mirror: runs until it is told to stop, or ends by itself."""

    ends_by_itself: ClassVar[bool] = False

    @classmethod
    def run(cls, _: object, __: object, stop: StopRequest, scratch: Path) -> int:
        assert scratch.is_dir()
        assert cls.ends_by_itself or stop.wait(60.0), "nobody told it to stop"
        return 0


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "run_with", Waiting.run)
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.01)


def run(is_reached: Callable[[], bool]) -> bool:
    config: Any = None
    return run_until(config, RunOptions(), is_reached)


def answers(*given: bool | Exception) -> Callable[[], bool]:
    """Gives or raises one after the other."""
    left: Iterator[bool | Exception] = iter(given)

    def look() -> bool:
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return look


def test_it_runs_until_it_is_reached_and_a_cluster_may_be_away_meanwhile() -> None:
    assert run(answers(False, ClusterUnreachable("no broker answers"), False, True))


def test_any_other_problem_ends_it() -> None:
    with pytest.raises(SparkMirrorError, match="not authorized"):
        run(answers(False, SparkMirrorError("not authorized")))


def test_a_mirror_that_was_stopped_has_not_reached_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Waiting, "ends_by_itself", True)
    assert not run(lambda: False)
