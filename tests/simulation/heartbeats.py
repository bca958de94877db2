"""The judge of heartbeats: whether they come while a process leads and the target can take them, and from one only.

Source of their layout: org.apache.kafka.connect.mirror.Heartbeat of Apache Kafka 4.3.
"""

import struct
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.scheduler import Process

if TYPE_CHECKING:
    from tests.simulation.history import Scene

TOPIC = "heartbeats"
_LOOK_SECONDS = 0.5
_WELL_SECONDS, _LATE_SECONDS = 8.0, 4.0
"""Where all has been well for so long, the last heartbeat is no older than that."""
_AT_ONCE_SECONDS, _BOTH_SECONDS_MAX = 2.5, 45.0
"""Two beat at once if each has in the former time; they do no longer than the latter. Who slept learns that it was
replaced when it writes: over a connection that has fallen silent, half a minute later, when it is given up."""


class HeartbeatJudge:
    """Of the flow's heartbeats on the target, of which each comes a second after the one before."""

    def __init__(self, scene: "Scene") -> None:
        self._scene = scene
        self._last: dict[Process, float] = {}
        self._well_since: float | None = None
        self._both_since: float | None = None
        scene.target.publications.append(self._take)

    # What persons do.

    def delete(self) -> str:
        if TOPIC not in self._scene.target.topics:
            return ""
        self._scene.target.delete_topic(TOPIC)
        return "the topic of heartbeats is deleted"

    def hold(self, random: Random) -> str:
        topic, seconds = self._scene.target.topics.get(TOPIC), random.choice((1.0, 6.0, 20.0))
        if topic is None:
            return ""
        partition = topic.partitions[0]
        partition.is_stuck = True
        self._scene.world.after(seconds, lambda: setattr(partition, "is_stuck", False))
        return f"the target takes no heartbeat for {seconds} s"

    # What comes.

    def _take(self, topic: str, by: Process, key: bytes, value: bytes | None) -> None:
        if topic != TOPIC:
            return
        now = self._scene.world.now
        if key != b"\0\1A\0\1B" or value is None or len(value) != struct.calcsize(">hq"):
            self._scene.checker.fail(f"{key!r} {value!r} is no heartbeat of the flow")
        elif (version := struct.unpack(">hq", value)[0]) != 0:
            self._scene.checker.fail(f"a heartbeat has version {version}")
        self._last[by] = now
        others = [at for one, at in self._last.items() if one is not by and now - at < _AT_ONCE_SECONDS]
        self._both_since = (self._both_since or now) if others else None
        if self._both_since is not None and now - self._both_since > _BOTH_SECONDS_MAX:
            self._scene.checker.fail(f"two processes have sent heartbeats for {now - self._both_since:.0f} s")
            self._both_since = now

    def look(self) -> None:
        """Now and then."""
        scene, now = self._scene, self._scene.world.now
        if not self._is_well():
            self._well_since = None
        elif self._well_since is None:
            self._well_since = now
        elif now - self._well_since > _WELL_SECONDS and (problems := self.problems()):
            scene.checker.fail(problems[0])
            self._well_since = now
        scene.world.after(_LOOK_SECONDS, self.look)

    def _is_well(self) -> bool:
        """Whether a process leads that runs, and nothing is between it and the target's brokers. A topic that somebody
        deletes is made again when its publisher gives up."""
        scene, target, now = self._scene, self._scene.target, self._scene.world.now
        leads = [one for one in scene.mirrors if one.driver.is_alive and one.jobs is not None and one.jobs.run_now]
        topic = target.topics.get(TOPIC)
        partition = None if topic is None else topic.partitions[0]
        return (
            any(not one.driver.is_held for one in leads)
            and now >= scene.thaws_at
            and not scene.net.loss
            and not scene.net.slow
            and all(node.is_up and node.frozen_until <= now for node in target.nodes.values())
            and (not self._last if partition is None else partition.leader is not None and not partition.is_stuck)
        )

    def problems(self) -> list[str]:
        """What does not hold where all is well."""
        now, last = self._scene.world.now, max(self._last.values(), default=0.0)
        return [f"no heartbeat for {now - last:.1f} s"] if now - last > _LATE_SECONDS else []
