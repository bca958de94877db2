"""Persons who change settings of topics on either side, and the judge of what the settings job makes of them.

What is expected is written from MirrorMaker's rules as `docs/keys.md` has them, not from the job's planner.
"""

from collections.abc import Iterator, Mapping
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.cluster import Cluster
from tests.simulation.settings import BY_FILE, BYTES_KEY, DEFAULT, KNOWN, TOPIC_SET

if TYPE_CHECKING:
    from tests.simulation.history import Scene

PROTECTED = "delete.retention.ms"
_EXCLUDED = frozenset(
    {
        "follower.replication.throttled.replicas", "message.timestamp.type", "unclean.leader.election.enable",
        "min.insync.replicas",
    }
)  # fmt: skip
"""Of the settings that are known here, those that MirrorMaker leaves alone where nobody says otherwise."""
_VALUES = {
    BYTES_KEY: ("2097152", "4194304"),
    "message.timestamp.after.max.ms": ("7200000", "86400000"),
    "cleanup.policy": ("compact", "compact,delete"),
    "compression.type": ("zstd", "gzip"),
    "delete.retention.ms": ("1000", "60000"),
    "follower.replication.throttled.replicas": ("*",),
    "message.downconversion.enable": ("false", "true"),
    "max.compaction.lag.ms": ("3600000", "60000"),
    "message.timestamp.type": ("LogAppendTime",),
    "min.cleanable.dirty.ratio": ("0.1", "0.9"),
    "min.insync.replicas": ("2",),
    "retention.ms": ("3600000", "7200000", "604800000"),
    "segment.bytes": ("1048576", "536870912"),
    "segment.ms": ("60000", "86400000"),
    "unclean.leader.election.enable": ("true",),
}
_FOR_ALL_SHARE, _DELETES_SHARE = 0.15, 0.35
_SOURCE_SHARE, _PAUSE_SECONDS = 0.6, 8.0
_QUIET_SECONDS = 30.0
_TOPIC = "orders"


class SettingsJudge:
    """Of the topic and its remote topic. Each cluster's brokers have one setting in their file."""

    def __init__(self, scene: "Scene", defaults_from: str) -> None:
        self._scene = scene
        self._copies_defaults = defaults_from == "source"
        self._touched_at = 0.0
        self._changed: set[str] = set()
        """What persons have changed on the source at any time."""
        scene.source.settings.by_file = {"segment.bytes": "536870912"}
        scene.target.settings.by_file = {"segment.ms": "86400000"}
        scene.source.settings.watchers.append(self._take_on_source)
        scene.target.settings.watchers.append(self._take_on_target)
        scene.target.settings.creation_watchers.append(self._take_creation)

    # What persons do.

    def begin(self, random: Random) -> None:
        """Now and then they change a setting."""
        if self._scene.is_healed:
            return
        cluster = self._scene.source if random.random() < _SOURCE_SHARE else self._scene.target
        self._scene.world.tell(self.change(cluster, random))
        self._scene.world.after(_PAUSE_SECONDS * random.random(), lambda: self.begin(random))

    def change(self, cluster: Cluster, random: Random) -> str:
        """Sets or deletes one setting of the topic, or of all topics that do not set it."""
        topic = cluster.topics.get(_TOPIC if cluster is self._scene.source else self._scene.remote)
        if topic is None:
            return ""
        self._touched_at = self._scene.world.now
        name = random.choice([one for one in cluster.settings.names if one in _VALUES])
        is_deleted, value = random.random() < _DELETES_SHARE, random.choice(_VALUES[name])
        if cluster is self._scene.source:
            self._changed.add(name)
        done = f"{name} is {'deleted' if is_deleted else f'set to {value}'}"
        if random.random() < _FOR_ALL_SHARE and name != BYTES_KEY:
            cluster.settings.alter(cluster.settings.for_all, {name: None if is_deleted else value})
            return f"{done} for all brokers of {cluster.alias}"
        cluster.settings.alter(topic.overrides, {name: None if is_deleted else value})
        return f"{done} on {topic.name} of {cluster.alias}"

    def remake(self, random: Random) -> None:
        """Who makes the source's topic again gives it a few settings."""
        for _ in range(random.choice((0, 0, 1, 3))):
            self._scene.world.tell(self.change(self._scene.source, random))

    def forbid(self, random: Random) -> str:
        """From now on a policy of the target lets nobody alter one setting, which the source has otherwise."""
        source, target = self._scene.source, self._scene.target
        name = random.choice([one for one in target.settings.names if one in _VALUES.keys() - _EXCLUDED])
        topic = source.topics.get(_TOPIC)
        if topic is not None and name in source.settings.names:
            self._changed.add(name)
            source.settings.alter(topic.overrides, {name: random.choice(_VALUES[name])})
        target.settings.forbidden = {name}
        return f"a policy of the target forbids to alter {name}, which is set on the source"

    # What the mirror asks for.

    def _take_on_source(self, topic: str, changes: Mapping[str, str | None], _: Mapping[str, str]) -> None:
        self._scene.checker.fail(f"{', '.join(changes)} of {topic} on the source is altered")

    def _take_on_target(self, topic: str, changes: Mapping[str, str | None], before: Mapping[str, str]) -> None:
        scene = self._scene
        scene.world.tell(f"settings of {topic} are altered: {dict(changes)}")
        if topic != scene.remote:
            scene.checker.fail(f"{', '.join(changes)} of {topic} is altered, which is no remote topic")
        if untouchable := changes.keys() & (_EXCLUDED | {PROTECTED}):
            scene.checker.fail(f"{', '.join(sorted(untouchable))} of {topic} is altered, and is excluded or protected")
        self._judge_files(topic, changes)
        if any(before.get(name) != value for name, value in changes.items()):
            self._touched_at = scene.world.now
        elif self._is_quiet():
            scene.checker.fail(f"settings of {topic} are altered to what they are: {dict(changes)}")

    def _take_creation(self, topic: str, configs: Mapping[str, str]) -> None:
        self._touched_at = self._scene.world.now
        if topic == self._scene.remote:
            self._judge_files(topic, configs)
        if topic == self._scene.remote and (untouchable := configs.keys() & _EXCLUDED):
            self._scene.checker.fail(f"{topic} is made with {', '.join(sorted(untouchable))}, which is excluded")

    def _judge_files(self, topic: str, names: Mapping[str, str | None]) -> None:
        """What the source's brokers have from their file is no business of the target's."""
        if copied := names.keys() & (self._scene.source.settings.by_file.keys() - self._changed):
            self._scene.checker.fail(f"{topic} is given {', '.join(copied)}, as a file of the source's brokers says")

    def _is_quiet(self) -> bool:
        """Whether brokers have long known all, and nothing was in anybody's way."""
        scene = self._scene
        since = max(self._touched_at, scene.healed_at)
        return scene.is_healed and scene.world.now - since > _QUIET_SECONDS

    # What has to be in the end.

    def problems(self) -> list[str]:
        source = self._scene.source.topics.get(_TOPIC)
        remote = self._scene.target.topics.get(self._scene.remote)
        if source is None or remote is None:
            return [f"{self._scene.remote} is not there"]
        return list(self._differences(source.overrides.now, remote.overrides.now))

    def _differences(self, source: Mapping[str, str], remote: Mapping[str, str]) -> Iterator[str]:
        target = self._scene.target.settings
        for name in KNOWN.keys() - _EXCLUDED - {PROTECTED} - target.forbidden:
            if name not in target.names or name not in self._scene.source.settings.names:
                continue
            value, origin = self._scene.source.settings.value(source, name)
            if origin == BY_FILE:
                continue
            wanted = value if origin != DEFAULT or self._copies_defaults else None
            found = remote.get(name)
            if found != wanted:
                where = "set on the topic" if origin == TOPIC_SET else "the source's"
                yield f"{name} of {self._scene.remote} is {found}, and not {wanted}, as {value} is {where}"
