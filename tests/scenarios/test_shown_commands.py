"""Each command that a page of the documentation shows is run on a mirror between real brokers, or by the test that is
named here. Only names of clusters, topics and groups differ, as the brokers are shared with other tests."""

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.oracle import Client, count_records
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import COMMAND, Mirror, StartMirror
from tests.scenarios.test_mirror_maker_1 import committed
from tests.scenarios.test_moving_group import read_some
from tests.unit.test_documents import DOCUMENTS, shown_commands

from sparkmirror.cli.main import main

ROOT = Path(__file__).parents[2]
PARTITIONS, RECORDS = 4, 8_000
ELSEWHERE = {
    "sparkmirror run": "tests/scenarios/test_live.py",
    "sparkmirror run mm2.properties --jars": "tests/parity/test_beside_mirrormaker.py",
    "sparkmirror run connect-distributed.properties": "tests/scenarios/test_connectors.py",
    "sparkmirror submit": "tests/faults/test_spark_cluster.py",
    "sparkmirror demo": "tests/scenarios/test_demo.py",
    "sparkmirror status --consumer.config": "tests/scenarios/test_mirror_maker_1.py",
    "sparkmirror pause --consumer.config": "tests/scenarios/test_mirror_maker_1.py",
    "sparkmirror tail": "tests/brokers/test_verbs.py",
    "sparkmirror verify": "tests/scenarios/test_verify.py",
    "sparkmirror failover drill mirror.properties --fence": "tests/scenarios/test_failover.py",
    "sparkmirror failover run": "tests/scenarios/test_failover.py",
    "sparkmirror failback": "tests/scenarios/test_failover.py",
    "sparkmirror migrate run": "tests/scenarios/test_migrate.py",
}
"""How a command begins that takes long or needs other brokers, and the test that runs it."""
_WATCHING = "--watch"
_NAMES = re.compile(r"\b(west|east|A|B|orders|audit|billing)\b")
_FILES = re.compile(r"\b(mirror\.properties|mm2\.properties|FILE)\b")
_AT_REST = re.compile(r"sparkmirror (positions|offsets rebuild)")
"""What is done while no mirror runs, as its page says."""


def commands() -> Iterator[str]:
    """Each once, those of a running mirror first."""
    shown = {command for document in DOCUMENTS for command in shown_commands(document)}
    return iter(
        sorted(
            (one for one in shown if not elsewhere(one) and _WATCHING not in one),
            key=lambda one: (bool(_AT_REST.match(one)), one),
        )
    )


def elsewhere(command: str) -> str:
    """The test that runs it, of the longest beginning; empty where this one does."""
    found = [begin for begin in ELSEWHERE if command.startswith(begin)]
    return ELSEWHERE[max(found, key=len)] if found else ""


@dataclass(frozen=True, slots=True)
class Scene:
    """A mirror with a file beside it, and what its names stand for."""

    mirror: Mirror
    file: Path
    names: dict[str, str]

    def words(self, command: str) -> list[str]:
        named = _NAMES.sub(lambda found: self.names[found[0]], command)
        return shlex.split(_FILES.sub(str(self.file), named))[1:]


@pytest.fixture
def scene(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror, tmp_path: Path
) -> Scene:
    names = {name: unique(name) for name in ("west", "east", "orders", "audit", "billing")}
    names |= {"A": names["west"], "B": names["east"]}
    west, east, orders = names["west"], names["east"], names["orders"]
    make_topics(source, {orders: PARTITIONS, f"{names['audit']}.log": 1})
    write(source, orders, numbered(0, RECORDS, partitions=PARTITIONS))
    read_some(source, names["billing"], orders, 100)
    text = "\n".join(
        [
            f"clusters = {west}, {east}",
            f"{west}.bootstrap.servers = {source['bootstrap.servers']}",
            f"{east}.bootstrap.servers = {target['bootstrap.servers']}",
            f"{west}->{east}.enabled = true",
            f"topics = {orders}, {names['audit']}.*",
            f"groups = {names['billing']}",
            "sync.group.offsets.enabled = true",
            "sync.group.offsets.interval.seconds = 1",
            "refresh.groups.interval.seconds = 1",
            "heartbeats.replication.enabled = false",
            "emit.checkpoints.interval.seconds = 1",
            "replication.factor = 1",
            "offset.storage.replication.factor = 1",
        ]
    )
    (file := tmp_path / "mirror.properties").write_text(text)
    mirror = start_mirror(text)
    mirror.wait_until(lambda: count_records(target, f"{west}.{orders}") == RECORDS, "all is mirrored")
    mirror.wait_until(lambda: committed(target, names["billing"]), "the group is on both sides")
    return Scene(mirror, file, names)


def watch(scene: Scene, start_mirror: StartMirror) -> None:
    """What goes on until Ctrl-C, which ends it."""
    program = (str(COMMAND), *scene.words(f"sparkmirror status mirror.properties {_WATCHING}"))
    watching = start_mirror("", program=program)
    watching.wait_until(lambda: watching.output.count(scene.names["west"]) > 1, "the status is shown twice")
    watching.interrupt()
    assert watching.finish().status == 130, watching.errors


@pytest.mark.long
def test_each_command_that_is_shown_does_what_it_says(
    scene: Scene,
    start_mirror: StartMirror,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    watch(scene, start_mirror)
    failed = []
    for command in commands():
        if _AT_REST.match(command) and scene.mirror.running:
            scene.mirror.stop()
        try:
            status = main(scene.words(command))
        except SystemExit as ended:
            status = int(str(ended.code or 0))
        printed = capsys.readouterr()
        if status or not printed.out.strip() or "Traceback" in printed.err:
            failed.append(f"{command}: status {status}\n{printed.out}{printed.err}")
    assert failed == [], "\n".join(failed)


def test_what_is_run_elsewhere_is_shown_and_its_test_is_there() -> None:
    shown = [command for document in DOCUMENTS for command in shown_commands(document)]
    assert [begin for begin in ELSEWHERE if not any(one.startswith(begin) for one in shown)] == []
    assert [test for test in ELSEWHERE.values() if not (ROOT / test).exists()] == []
