"""The faults of the matrix, each with a name and what it does to a scene, healing included."""

import os
import re
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from tests.faults.clock import SteppedClock
from tests.faults.scene import AT_LEAST_ONCE, EXACTLY_ONCE, IDENTICAL, Scene
from tests.faults.tree import is_gone
from tests.scenarios.mirror import COMMAND
from tests.scenarios.quotas import quota

from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.fencing import transactional_id
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Cluster, Connector, TopicPartition
from sparkmirror.policy.fillers import id_prefix, transactional_ids
from sparkmirror.testing.kafka import Broker, KafkaCluster
from sparkmirror.testing.kill_points import KILL_POINTS

HOLD_SECONDS = 6.0
"""Longer than the patience between a reader and its writer (5 s), than a broker's session (3 s)."""
SHORT_SECONDS = 2.0
EVERY_DELIVERY = (AT_LEAST_ONCE, EXACTLY_ONCE, IDENTICAL)


@dataclass(frozen=True, slots=True)
class Breakage:
    """A fault. `strike` returns when it is healed; `deliveries` and `brokers_min` say where it can be.

    While the fault lasts, `strike` calls `hold` or `meanwhile` of the scene: there a second event may happen.
    """

    name: str
    strike: Callable[[Scene], None]
    deliveries: tuple[str, ...] = EVERY_DELIVERY
    brokers_min: int = 1

    @property
    def key(self) -> str:
        """The name as one word, for `-k`."""
        return re.sub(r"\W+", "-", self.name)


def _worker(scene: Scene, *, is_writer: bool) -> psutil.Process:
    rings = sorted(scene.run.rings())
    assert rings, "no worker holds a ring"
    return psutil.Process(scene.dice.choice(rings)[is_writer])


def _kill_worker(scene: Scene, *, is_writer: bool) -> None:
    victim = _worker(scene, is_writer=is_writer)
    victim.kill()
    scene.wait_until(lambda: is_gone(victim.pid), "it is gone")
    scene.meanwhile(SHORT_SECONDS)


def _pause(scene: Scene, victim: psutil.Process) -> None:
    victim.suspend()
    scene.hold(HOLD_SECONDS)
    with suppress(psutil.NoSuchProcess):
        victim.resume()


def _pause_worker(scene: Scene, *, is_writer: bool) -> None:
    _pause(scene, _worker(scene, is_writer=is_writer))


def _pick(scene: Scene, cluster: KafkaCluster) -> Broker:
    return cluster.broker(scene.dice.randint(1, cluster.size))


def _bounce(scene: Scene, broker: Broker) -> None:
    broker.kill()
    scene.hold(SHORT_SECONDS)
    broker.start()


def _pause_broker(scene: Scene, broker: Broker) -> None:
    broker.pause()
    try:
        scene.hold(HOLD_SECONDS)
    finally:
        broker.resume()


def _fill_disk(scene: Scene, broker: Broker) -> None:
    """No file of the broker grows beyond 64 KiB any more, as on a full disk; with its one log directory it ends."""
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (64 << 10, 64 << 10))
    scene.wait_until(lambda: not broker.running, "it ends", 60)
    scene.hold(SHORT_SECONDS)
    broker.start()


def _leader_of_positions(scene: Scene) -> Broker:
    topic = ledger_topics(scene.story.alias).offsets
    with open_admin(Cluster("backup", {"bootstrap.servers": scene.story.target}), "matrix") as admin:
        return scene.target.broker(admin.leaders([topic])[TopicPartition(topic, 0)].node_id)


def _coordinator(scene: Scene) -> Broker:
    """Where the transactions of the first task, or of the first partition's fillers, are kept: `__transaction_state` by
    the hash of an id."""
    connector = Connector.of_dedicated_mode(scene.story.alias)
    name = transactional_id(connector, 0)
    if scene.mode.delivery == IDENTICAL:
        name = transactional_ids(f"{id_prefix(connector.group)}{TopicPartition(scene.story.remote_topic, 0)}")[0]
    with open_admin(Cluster("backup", {"bootstrap.servers": scene.story.target}), "matrix") as admin:
        leaders = admin.leaders(["__transaction_state"])
        number = _java_hash(name) % len(leaders)
        return scene.target.broker(leaders[TopicPartition("__transaction_state", number)].node_id)


def _java_hash(text: str) -> int:
    """`Utils.abs(text.hashCode())`."""
    code = 0
    for character in text:
        code = (31 * code + ord(character)) & 0xFFFFFFFF
    return (code - (1 << 32) if code >= 1 << 31 else code) & 0x7FFFFFFF


def _link(verb: str, seconds: float) -> Callable[[Scene, bool], None]:
    def strike(scene: Scene, is_target: bool) -> None:
        proxy = (scene.target if is_target else scene.source).proxy
        getattr(proxy, verb)()
        try:
            scene.hold(seconds)
        finally:
            proxy.heal()

    return strike


def _latency(round_trip_seconds: float) -> Callable[[Scene, bool], None]:
    def strike(scene: Scene, is_target: bool) -> None:
        proxy = (scene.target if is_target else scene.source).proxy
        proxy.delay(round_trip_seconds)
        try:
            scene.hold(2 * HOLD_SECONDS)
        finally:
            proxy.delay(0.0)

    return strike


def _throttle(bytes_per_second: int) -> Callable[[Scene], None]:
    def strike(scene: Scene) -> None:
        client = {"bootstrap.servers": scene.story.target.split(",")[0]}
        with quota(client, f"{scene.story.alias}-writer", "producer_byte_rate", bytes_per_second):
            scene.hold(2 * HOLD_SECONDS)

    return strike


def _end_by_signal(scene: Scene, number: signal.Signals, victim: Callable[[Scene], int]) -> None:
    scene.restart_after(lambda: os.kill(victim(scene), number), HOLD_SECONDS)


def _passing(point: str) -> tuple[str, ...]:
    """The deliveries whose workers come to a kill point."""
    if "hole" in point:
        return (IDENTICAL,)
    if "compiled" in point:
        return (AT_LEAST_ONCE,)
    return (EXACTLY_ONCE,) if "end-txn" in point else EVERY_DELIVERY


def _kill_at(name: str) -> Callable[[Scene], None]:
    def strike(scene: Scene) -> None:
        armed = scene.points / name
        aside = scene.points / f".{name}"
        aside.write_text(str(scene.dice.randint(1, 20)))
        aside.rename(armed)
        scene.wait_until(lambda: not armed.exists(), f"a worker dies at {name}", 60)
        scene.meanwhile(SHORT_SECONDS)

    return strike


def _without_shared_memory(scene: Scene) -> None:
    """The ring cannot be had; the run goes on inline, and the next one has its ring again."""

    def limit_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (700 << 10, 700 << 10))

    scene.run.stop(30)
    scene.run.close()
    scene.start_run(before_start=limit_files)
    scene.settle()
    scene.meanwhile(SHORT_SECONDS)
    scene.settle()
    assert max(scene.run.ring_sizes()) <= 700 << 10
    scene.run.stop(30)
    scene.run.close()
    scene.start_run()


def _full_disk(scene: Scene) -> None:
    """Spark's scratch directory is on a disk that is full when an epoch ends, and has room again later."""
    with _small_disk(scene.directory / f"scratch-{scene.dice.randint(0, 1 << 30)}") as disk:
        scene.run.stop(30)
        scene.run.close()
        scene.start_run({"TMPDIR": str(disk)})
        scene.settle()
        filler = disk / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(bytes(1 << 12)):
                pass
        _restart_tasks(scene)
        scene.hold(HOLD_SECONDS)
        filler.unlink()
        scene.settle()
        scene.run.stop(30)
        scene.run.close()
        scene.start_run()


@contextmanager
def _small_disk(path: Path) -> Iterator[Path]:
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(path)], capture_output=True)
    if mounted.returncode:
        raise Impossible(f"a small disk cannot be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def _restart_tasks(scene: Scene) -> None:
    file = scene.directory / "restart.properties"
    file.write_text(scene.story.text())
    subprocess.run([str(COMMAND), "restart", str(file)], check=True, capture_output=True, timeout=60)


class Impossible(Exception):
    """This machine lacks what the fault needs; the sentence says what."""


def _step_clock(hours: int) -> Callable[[Scene], None]:
    """Our own processes' wall clock jumps while they run, and back."""

    def strike(scene: Scene) -> None:
        try:
            clock = SteppedClock(scene.directory / "clock")
        except OSError as reason:
            raise Impossible(str(reason)) from None
        scene.run.stop(30)
        scene.run.close()
        scene.start_run(clock.environment)
        scene.settle()
        clock.step(hours * 3600)
        scene.hold(HOLD_SECONDS)
        scene.settle()
        clock.step(0)
        scene.wait(SHORT_SECONDS)
        scene.settle()
        scene.run.stop(30)
        scene.run.close()
        scene.start_run()

    return strike


def _both_sides(what: str, strike: Callable[[Scene, bool], None]) -> list[Breakage]:
    return [
        Breakage(f"{what}, {side}", lambda scene, is_target=is_target: strike(scene, is_target))
        for is_target, side in enumerate(("source", "target"))
    ]


def _cluster(scene: Scene, is_target: bool) -> KafkaCluster:
    return scene.target if is_target else scene.source


BREAKAGES = (
    Breakage("SIGKILL of a reader", lambda scene: _kill_worker(scene, is_writer=False)),
    Breakage("SIGKILL of a writer", lambda scene: _kill_worker(scene, is_writer=True)),
    Breakage("SIGKILL of the driver", lambda scene: _end_by_signal(scene, signal.SIGKILL, lambda at: at.run.pid)),
    Breakage("SIGKILL of the JVM", lambda scene: _end_by_signal(scene, signal.SIGKILL, lambda at: at.run.jvm().pid)),
    Breakage("SIGSTOP of a reader, 6 s", lambda scene: _pause_worker(scene, is_writer=False)),
    Breakage("SIGSTOP of a writer, 6 s", lambda scene: _pause_worker(scene, is_writer=True)),
    Breakage("SIGSTOP of the driver, 6 s", lambda scene: _pause(scene, psutil.Process(scene.run.pid))),
    Breakage("SIGSTOP of the JVM, 6 s", lambda scene: _pause(scene, scene.run.jvm())),
    *_both_sides("SIGKILL of a broker", lambda scene, at: _bounce(scene, _pick(scene, _cluster(scene, at)))),
    *_both_sides("SIGSTOP of a broker, 6 s", lambda scene, at: _pause_broker(scene, _pick(scene, _cluster(scene, at)))),
    Breakage(
        "disk full on a target broker", lambda scene: _fill_disk(scene, _pick(scene, scene.target)), brokers_min=3
    ),
    Breakage(
        "SIGKILL of the offsets topic's leader",
        lambda scene: _bounce(scene, _leader_of_positions(scene)),
        brokers_min=3,
    ),
    Breakage(
        "SIGKILL of the transaction coordinator",
        lambda scene: _bounce(scene, _coordinator(scene)),
        deliveries=(EXACTLY_ONCE, IDENTICAL),
        brokers_min=3,
    ),
    *_both_sides("connections cut, 2 s", _link("cut", SHORT_SECONDS)),
    *_both_sides("black hole, 6 s", _link("freeze", HOLD_SECONDS)),
    *_both_sides("half-open connections, 6 s", _link("halve", HOLD_SECONDS)),
    *_both_sides("round trip of 200 ms, 12 s", _latency(0.2)),
    *_both_sides("round trip of 2 s, 12 s", _latency(2.0)),
    Breakage("target's quota of 100 kB/s, 12 s", _throttle(100_000)),
    Breakage("target's quota of 20 kB/s, 12 s", _throttle(20_000)),
    *(
        Breakage(
            f"SIGKILL {point.name.replace('-', ' ')}",
            _kill_at(point.name),
            deliveries=_passing(point.name),
        )
        for point in KILL_POINTS
    ),
    Breakage("no shared memory", _without_shared_memory),
    Breakage("scratch disk full at an epoch's end", _full_disk),
    Breakage("clock steps forward 1 h, and back", _step_clock(1)),
    Breakage("clock steps back 1 h, and forth", _step_clock(-1)),
)
