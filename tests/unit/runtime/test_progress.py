"""What a running mirror logs of its progress."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.flows import flow_of

from sparkmirror.logs import handlers
from sparkmirror.runtime import progress
from sparkmirror.telemetry.board import FlowStatus
from sparkmirror.telemetry.pace import Pace
from sparkmirror.telemetry.problems import Level
from sparkmirror.telemetry.verdict import Verdict


@pytest.mark.parametrize(("known", "words"), [(None, "lag unknown"), (7, "lag 7")])
def test_a_lag_that_is_not_known_is_not_logged_as_0(
    monkeypatch: pytest.MonkeyPatch, known: int | None, words: str
) -> None:
    logged: list[tuple[str, Any]] = []
    monkeypatch.setattr(handlers, "log_progress", lambda said, _, figures: logged.append((said, figures["lag"])))
    verdict = Verdict("A->B", Level.UNKNOWN, "A->B: it is starting", (), known)
    watch: Any = SimpleNamespace(flow=flow_of(), verdict=verdict, total=None, pace=Pace())
    progress._say(watch, FlowStatus())
    ((said, lag),) = logged
    assert words in said and lag == known
