"""What the judges of histories see, where the product would have to be broken to show it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random

import pytest
from tests.simulation.faults import FAULTS
from tests.simulation.history import Scene
from tests.simulation.kept import Kept
from tests.simulation.played import played
from tests.simulation.scripts import Script
from tests.simulation.truth import Outcome

from sparkmirror.batch.header import parse_header, stamp
from sparkmirror.batch.records import encode_batch

_PLAIN = Script(1, False, False, False, 1, 1, 600, 100.0, ())


@contextmanager
def _caught_up(script: Script = _PLAIN) -> Iterator[Scene]:
    """A mirror of one partition, in which all is mirrored."""
    with played(script, 5.0) as scene:
        scene.heal()
        assert scene.world.run(scene.world.now + 60.0, scene.checker.is_caught_up)
        scene.world.run(scene.world.now + 3.0)
        yield scene


def test_a_mirror_that_has_caught_up_is_found_well() -> None:
    with _caught_up() as scene:
        scene.checker.judge(is_done=True)
        assert scene.checker.problems == []


def test_a_mirror_that_ends_by_itself_is_found() -> None:
    with _caught_up() as scene:
        scene.mirrors[0].end("fenced")
        scene.checker.judge(is_done=True)
        (problem,) = scene.checker.problems
        assert "mirror 1 ends, and no other mirror has run beside it: fenced" in problem


def test_a_mirror_that_another_one_takes_over_may_end() -> None:
    with _caught_up() as scene:
        scene.start_mirror()
        scene.world.run(scene.world.now + 15.0)
        assert scene.mirrors[0].is_over and scene.mirrors[0].reason
        scene.checker.judge(is_done=True)
        assert scene.checker.problems == []


def test_memory_that_is_not_given_back_is_found() -> None:
    with _caught_up() as scene:
        (attempt,) = scene.mirrors[0].attempts.values()
        assert attempt.task_reader is not None
        ring = attempt.task_reader._ring
        region = ring.reserve(100)
        assert region is not None
        ring.lend(region, [region])
        scene.checker.judge(is_done=True)
        (problem,) = scene.checker.problems
        assert "has not given back 1 leases" in problem


def test_a_collection_that_grows_is_found() -> None:
    with _caught_up() as scene:
        (attempt,) = scene.mirrors[0].attempts.values()
        metrics = attempt.sender.task_metrics
        metrics.faults.update(dict.fromkeys(range(1000), ""))
        scene.checker.judge(is_done=True)
        (problem,) = scene.checker.problems
        assert "mirror 1 holds 1000 members in sender" in problem


def test_what_comes_again_from_before_the_position_is_found() -> None:
    with _caught_up() as scene:
        (attempt,) = scene.mirrors[0].attempts.values()
        log = scene.target.topics[scene.remote].partitions[0].log
        first = next(record for one in log.batches for record in one.records)
        attempt.writer.standing = scene._look_at_ledger()
        log.append(bytes(encode_batch([(first.key, first.value)])))
        for hear in scene.target.appends:
            hear(scene.target.topics[scene.remote].partitions[0], attempt.writer)
        (problem,) = scene.checker.problems
        assert "again, and the ledger stood at" in problem


def test_what_lies_open_is_found_where_no_coordinator_ends_it() -> None:
    with _caught_up(replace(_PLAIN, exactly_once=True, leaves_markers_out=True)) as scene:
        scene.checker.judge(is_done=True)
        assert scene.checker.problems == []
        log = scene.target.topics[scene.remote].partitions[0].log
        batch = bytearray(encode_batch([(b"k", b"v")]))
        stamp(memoryview(batch), 0, parse_header(batch, 0), 77, 0, 0, True)
        assert log.append(bytes(batch), is_open=True) == (0, log.end - 1)
        scene.checker.judge(is_done=True)
        (problem,) = scene.checker.problems
        assert "1 records from" in problem and "lie open on the target, and are nobody's to end" in problem


def _cut_source(scene: Scene, written: int) -> None:
    """Its last records are lost, of which so many places in a hundred are written to again."""
    (partition,) = scene.sources()
    log, end = partition.log, partition.log.end
    _, cut = FAULTS["unclean source"]
    assert "is cut to" in cut(scene, Random(3))
    for _ in range((end - log.end) * written // 100):
        value, topic_id = scene.truth.next_value(partition.where), scene.source.topics["orders"].topic_id
        scene.truth.write(partition.where, value, topic_id, log.end, Outcome.PLAIN, scene.world.now)
        log.append(bytes(encode_batch([(b"key", value)])))
    scene.source.replicate(partition)


@pytest.mark.parametrize("written", [0, 50, 100])
@pytest.mark.parametrize("kept", [None, Kept()], ids=["", "kept"])
def test_a_cut_of_the_source_that_nobody_has_met_is_waited_for(kept: Kept | None, written: int) -> None:
    with _caught_up(replace(_PLAIN, kept=kept)) as scene:
        scene.mirrors[0].kill()
        _cut_source(scene, written)
        assert not scene.checker.is_caught_up()
        scene.start_mirror()
        assert scene.world.run(scene.world.now + 60.0, scene.checker.is_caught_up)
        scene.world.run(scene.world.now + 3.0)
        assert bool(scene.causes.failed()) is (kept is not None)
        scene.checker.judge(is_done=True)
        assert scene.checker.problems == []


@pytest.mark.parametrize("written", [0, 100])
def test_where_offsets_are_kept_a_cut_of_the_source_that_fails_no_partition_is_found(written: int) -> None:
    with _caught_up(replace(_PLAIN, kept=Kept())) as scene:
        scene.mirrors[0].kill()
        _cut_source(scene, written)
        assert not scene.world.run(scene.world.now + 60.0, scene.checker.is_caught_up)
        scene.checker.judge(is_done=False)
        (problem,) = scene.checker.problems
        assert "orders-0 is not FAILED, and " in problem
