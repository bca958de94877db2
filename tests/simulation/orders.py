"""Orders of persons, as `sparkmirror` gives them: a pause, a rate limit, a new try, an orderly stop. And quotas, by
which brokers hold a flow back themselves (KIP-219)."""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final

from sparkmirror.batch.records import encode_batch
from sparkmirror.control.commands import Command, Pause, Restart, Resume, Retry, Selection, Throttle, command_record
from sparkmirror.model import TopicPartition

if TYPE_CHECKING:
    from tests.simulation.history import Scene

_PAUSE_SECONDS_MAX = 12.0
_RATES_BYTES: Final = (1, 500, 20_000)
_LIMITED_SECONDS_MAX, _STOP_SECONDS_MAX = 10.0, 20.0
_STARTED_SECONDS: Final = (0.0, 0.1, 3.0)
"""After a stop was asked for, somebody looks whether to start the next process."""
_THROTTLE_MS: Final = (5, 200, 2000)
_QUOTA_SECONDS: Final = (1.0, 5.0)


def say(scene: "Scene", command: Command) -> None:
    """A person's order comes to the command topic, if that has a leader."""
    partition = scene.target.partition(TopicPartition(scene.ledger.commands, 0))
    if partition is None or partition.leader is None:
        return
    key, value = command_record(command)
    partition.log.append(bytes(encode_batch([(key, value)], timestamp=int(scene.world.wall * 1000))))
    scene.target.replicate(partition)


def lift_orders(scene: "Scene") -> None:
    """What is paused is to be read again, of all runs, and what a person has limited is limited no more."""
    for run in sorted({mirror.run for mirror in scene.mirrors}):
        say(scene, Resume.of(run, Selection(), int(scene.world.wall * 1000)))
    for run in sorted(scene.limited):
        say(scene, Throttle(run, "", None))


def _order(scene: "Scene", random: Random) -> str:
    kind: type[Pause | Resume | Retry | Restart] = random.choice((Pause, Resume, Resume, Retry, Restart))
    mirror, at_ms = scene.mirror, int(scene.world.wall * 1000)
    if kind is Pause:
        scene.world.after(2.0 * random.random(), lambda: lift_orders(scene))
    say(scene, Restart(mirror.run, at_ms) if issubclass(kind, Restart) else kind.of(mirror.run, Selection(), at_ms))
    return f"{kind.__name__} is ordered of {mirror.name}"


def _long_pause(scene: "Scene", random: Random) -> str:
    """All partitions rest while other things happen."""
    seconds = _PAUSE_SECONDS_MAX * random.random()
    say(scene, Pause.of(scene.mirror.run, Selection(), int(scene.world.wall * 1000)))
    scene.world.after(seconds, lambda: lift_orders(scene))
    return f"{scene.mirror.name} is to pause for {seconds:.1f} s"


def _pause_one(scene: "Scene", random: Random) -> str:
    """One partition rests, and is resumed by itself, or with all others when all is well."""
    number, mirror = random.randrange(scene.script.partitions), scene.mirror
    chosen, run = Selection("orders", number), mirror.run
    say(scene, Pause.of(run, chosen, int(scene.world.wall * 1000)))
    seconds = _PAUSE_SECONDS_MAX * random.random()
    if random.random() < 1 / 2:
        scene.world.after(seconds, lambda: say(scene, Resume.of(run, chosen, int(scene.world.wall * 1000))))
    return f"partition {number} of {mirror.name} is to pause"


def _limit_rate(scene: "Scene", random: Random) -> str:
    mirror, rate = scene.mirror, random.choice(_RATES_BYTES)
    scene.limited.add(mirror.run)
    say(scene, Throttle(mirror.run, "", rate))
    if random.random() < 1 / 2:
        run = mirror.run
        scene.world.after(_LIMITED_SECONDS_MAX * random.random(), lambda: say(scene, Throttle(run, "", None)))
    return f"{mirror.name} is limited to {rate} bytes/s"


def _stop(scene: "Scene", random: Random) -> str:
    """As Ctrl-C does: the process's tasks end their epoch with all they have; who does not end in time is killed."""
    mirror = scene.mirror
    if not mirror.driver.is_alive or mirror.is_over:
        return ""
    mirror.stop()
    say(scene, mirror.stop_command())
    is_hasty = random.random() < 1 / 3
    start = scene.start_mirror if is_hasty else scene.start_missing
    scene.world.after(random.choice(_STARTED_SECONDS) + random.random(), lambda: None if scene.is_ended else start())
    scene.world.after(_STOP_SECONDS_MAX, mirror.kill)
    return f"{mirror.name} is to stop, and the next one starts {'beside it' if is_hasty else 'when it has'}"


def _quota(scene: "Scene", random: Random) -> str:
    cluster = random.choice((scene.source, scene.target, scene.target))
    seconds = random.choice(_QUOTA_SECONDS)
    cluster.quota_until, cluster.throttle_ms = scene.world.now + seconds, random.choice(_THROTTLE_MS)
    return f"a quota of {cluster.alias} holds clients back for {cluster.throttle_ms} ms each time, for {seconds} s"


_Kind = tuple[int, Callable[["Scene", Random], str]]
ORDERS: Final[dict[str, _Kind]] = {"order": (4, _order), "long pause": (2, _long_pause)}
LATER_ORDERS: Final[dict[str, _Kind]] = {
    "pause one": (2, _pause_one),
    "limit rate": (2, _limit_rate),
    "stop": (3, _stop),
    "quota": (3, _quota),
}
"""These were added later; they come beside others, which stay as they were drawn."""
