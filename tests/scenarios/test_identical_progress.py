"""What an administrator sees while offsets without a record are filled, by `status`, the page and metrics."""

import json
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from tests.oracle import Client
from tests.scenarios.data import Note, make_topics, write
from tests.scenarios.mirror import Mirror, StartMirror
from tests.scenarios.test_identical_offsets import assert_identical, begin_at, file_of, places, spans

from sparkmirror.cli.main import main
from sparkmirror.kafka.offset_fillers import FillerClients, HoleFiller
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.policy.fillers import ABORTED, Hole

SLOWLY = {"max.message.bytes": "1000"}
"""Of a topic of the target: a start is filled by batches of some thousand empty records instead of half a million."""
AS_IT_IS = "sync.topic.configs.enabled = false"
BEGIN = 10_000_000
HOLE = 12_000
"""On an idle machine a second fills more than a thousand of these, and almost a million before a start. Reports come
every two."""
SECONDS_MAX = 300
SPARE = 4
"""So many of its last offsets are of transactions of their own on the source, and a hole of their own."""


class Asked:
    """`sparkmirror status` about a flow of one partition."""

    def __init__(self, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._file = file
        self._capsys = capsys
        self.seen: list[dict[str, Any]] = []

    def ask(self, *more: str) -> str:
        self._capsys.readouterr()
        assert main(["status", str(self._file), *more]) == 0
        return self._capsys.readouterr().out

    def place(self) -> tuple[int | None, dict[str, Any] | None]:
        """The partition's next offset, and what it says of filling; nothing before it knows the partition."""
        (page,) = json.loads(self.ask("--format", "json"))
        return next(((one["offset"], one["filling"]) for one in page["partitions"]), (None, None))

    def filling(self) -> dict[str, Any] | None:
        """What it says of filling; kept where something is being filled."""
        _, found = self.place()
        if found is not None:
            self.seen.append(found)
        return found

    def assert_moved(self, what: str, wanted: int) -> None:
        reached = [one["reached"] for one in self.seen]
        assert {(one["what"], one["wanted"]) for one in self.seen} == {(what, wanted)}, self.seen
        assert reached == sorted(reached) and reached[0] < reached[-1]
        last = self.seen[-1]
        assert last["offsets_per_second"] > 0 and last["seconds_left"] >= 0
        share = 100 * (last["reached"] - last["first"]) / (wanted - last["first"])
        assert abs(last["percent"] - share) < 0.1


def has_moved(asked: Asked) -> bool:
    asked.filling()
    return len({one["reached"] for one in asked.seen}) > 2


def metrics_of(mirror: Mirror) -> str:
    found = re.search(r"http://127\.0\.0\.1:\d+", mirror.errors)
    assert found, mirror.errors
    with urlopen(f"{found[0]}/metrics", timeout=30) as answer:
        return str(answer.read().decode())


@pytest.mark.long
def test_a_far_start_is_seen_in_status_and_metrics_while_it_is_filled_and_so_is_its_end(
    source: Client,
    target: Client,
    unique: Callable[[str], str],
    start_mirror: StartMirror,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic, alias = unique("ledger"), unique("same")
    remote = f"{alias}.{topic}"
    make_topics(source, {topic: 1})
    begin_at(source, topic, BEGIN)
    write(source, topic, [Note(b"v%d" % at, b"k", 0) for at in range(50)])
    make_topics(target, {remote: 1}, SLOWLY)
    mirror = start_mirror(file_of(source, target, alias, topic, [AS_IT_IS, "status.listen = 127.0.0.1:0"]))
    asked = Asked(mirror.file, capsys)
    mirror.wait_until(lambda: has_moved(asked), "the start is filled, and it is seen")
    asked.assert_moved("start", BEGIN)
    said = asked.ask()
    assert "offsets are being filled in 1 partition" in said and f"{BEGIN:,}" in said and "lag 50" in said
    ratio = re.search(r'sparkmirror_partition_filling_ratio\{[^}]*topic="ledger[^}]*\} (\S+)', metrics_of(mirror))
    assert ratio and 0 < float(ratio[1]) < 1

    mirror.wait_until(lambda: spans(target, remote, 1) == {0: (BEGIN, BEGIN + 50)}, "it is mirrored", SECONDS_MAX)
    mirror.wait_until(lambda: asked.filling() is None, "it is over")
    assert "being filled" not in asked.ask()
    mirror.wait_until(lambda: "sparkmirror_partition_filling_ratio{" not in metrics_of(mirror), "metrics say so too")
    mirror.stop()
    assert_identical(source, target, topic, remote, 1)


def test_a_large_hole_is_seen_while_it_is_filled_and_is_no_standstill(
    source: Client,
    target: Client,
    unique: Callable[[str], str],
    start_mirror: StartMirror,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic, alias = unique("ledger"), unique("same")
    make_topics(source, {topic: 1})
    write(source, topic, [Note(b"before", b"k", 0)])
    with closing(FillerClients(Cluster("any", source))) as clients:
        filler = HoleFiller(clients, unique("aborts"), TopicPartition(topic, 0), -1)
        assert filler.fill(Hole(1, HOLE), ABORTED, 60.0) == HOLE
        filler.close()
    write(source, topic, [Note(b"behind", b"k", 0)])
    mirror = start_mirror(file_of(source, target, alias, topic))
    asked = Asked(mirror.file, capsys)
    mirror.wait_until(lambda: has_moved(asked), "the hole is filled, and it is seen")
    asked.assert_moved("hole", HOLE - SPARE)
    assert asked.seen[0]["first"] == 1
    remote = f"{alias}.{topic}"
    mirror.wait_until(lambda: spans(target, remote, 1) == {0: (0, HOLE + 1)}, "it is mirrored", SECONDS_MAX)
    mirror.wait_until(lambda: asked.filling() is None, "it is over")
    mirror.stop()
    committed = {"isolation.level": "read_committed"}
    assert places(target, remote) == places({**source, **committed}, topic)
