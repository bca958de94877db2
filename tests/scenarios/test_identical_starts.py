"""Topics that begin later than their source's log, by `preserve.offsets.start`, through a kill while that is filled."""

import time
from collections.abc import Callable
from contextlib import suppress

import psutil
import pytest
from tests.oracle import Client
from tests.scenarios.data import Note, make_topics, write
from tests.scenarios.mirror import StartMirror
from tests.scenarios.stored_positions import stored_positions
from tests.scenarios.test_identical_offsets import begin_at, file_of, places, spans
from tests.scenarios.test_identical_progress import AS_IT_IS, SLOWLY, Asked

BEGIN = 3_000_000
OLD = 300
DAY_MS = 24 * 3_600_000
EDGES = {"latest": 2 * OLD, "by_duration:P1D": OLD}
"""How many records of the source lie before the start when the mirror runs first."""


def some(name: str, count: int, moment_ms: int) -> list[Note]:
    return [Note(f"{name} {at}".encode(), b"k", 0, timestamp_ms=moment_ms + at) for at in range(count)]


def places_stored(target: Client, alias: str) -> list[int]:
    return [value["offset"] for _, value in stored_positions(target, alias)]


@pytest.mark.parametrize("start", ["latest", pytest.param("by_duration:P1D", marks=pytest.mark.long)])
def test_a_topic_begins_where_it_is_to_and_has_its_offsets_though_the_mirror_is_killed_meanwhile(
    source: Client,
    target: Client,
    unique: Callable[[str], str],
    start_mirror: StartMirror,
    capsys: pytest.CaptureFixture[str],
    start: str,
) -> None:
    topic, alias, now_ms = unique("ledger"), unique("same"), round(time.time() * 1000)
    remote, begins = f"{alias}.{topic}", BEGIN + EDGES[start]
    make_topics(source, {topic: 1})
    begin_at(source, topic, BEGIN)
    write(source, topic, some("old", OLD, now_ms - 3 * DAY_MS))
    write(source, topic, some("young", OLD, now_ms - 60_000))
    make_topics(target, {remote: 1}, SLOWLY)
    text = file_of(source, target, alias, topic, [AS_IT_IS, f"preserve.offsets.start = {start}"])

    first = start_mirror(text)
    first.wait_until(lambda: 0 < spans(target, remote, 1)[0][1] < begins, "a part of the start is filled")
    first.kill()
    for left in first.processes():  # that of the planner would go on for a moment
        with suppress(psutil.Error):
            left.kill()
    first.close()
    assert 0 < spans(target, remote, 1)[0][1] < begins
    write(source, topic, some("meanwhile", 50, now_ms))

    second = start_mirror(text)
    asked = Asked(second.file, capsys)
    second.wait_until(lambda: begins in places_stored(target, alias), "the position of the start is stored")
    meanwhile = BEGIN + 2 * OLD + 50, None
    second.wait_until(lambda: asked.place() == meanwhile, "it is filled, and what was written meanwhile is there")
    assert places_stored(target, alias)[0] == begins, "nothing is stored before it is filled"
    assert spans(target, remote, 1)[0][0] == begins, "nothing is before it"
    write(source, topic, some("late", 50, now_ms))
    end = BEGIN + 2 * OLD + 100
    second.wait_until(lambda: spans(target, remote, 1) == {0: (begins, end)}, "all behind it is mirrored")
    second.stop()
    assert places(target, remote) == {0: places(source, topic)[0][EDGES[start] :]}
