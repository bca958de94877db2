"""Settings of a simulated cluster's topics. Its controller keeps them, and each broker learns of a change by itself.

Source of the rules: org.apache.kafka.controller.ConfigurationControlManager, kafka.server.ConfigHelper and
org.apache.kafka.storage.internals.log.LogConfig of Apache Kafka 4.3.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafka.protocol.admin import DescribeConfigsResponse, IncrementalAlterConfigsResponse
from tests.simulation.scheduler import World

DESCRIBE_CONFIGS, ALTER_CONFIGS = 32, 44
BYTES_MAX = 1048588
BYTES_KEY = "max.message.bytes"
TOPIC_SET, FOR_ALL, BY_FILE, DEFAULT = 1, 3, 4, 5
"""Where a value comes from, by Kafka's numbers: the topic, the brokers as all of them were told, a broker's file."""
_NO_ERROR, _UNKNOWN_TOPIC, _INVALID_CONFIG, _POLICY_VIOLATION = 0, 3, 40, 44
_TOPIC = 2
_SET, _DELETE = 0, 1
_BOOLEAN, _STRING, _INT, _LONG, _DOUBLE, _LIST = 1, 2, 3, 5, 6, 7
_DELAY_SECONDS = (0.001, 0.03, 0.03, 1.0)


class Setting(NamedTuple):
    """A setting that Kafka knows: its default and type. Brokers of 4.0 and later know no `is_old` one any more."""

    default: str
    kind: int
    is_old: bool = False


KNOWN = {
    BYTES_KEY: Setting(str(BYTES_MAX), _INT),
    "message.timestamp.after.max.ms": Setting("3600000", _LONG),
    "cleanup.policy": Setting("delete", _LIST),
    "compression.type": Setting("producer", _STRING),
    "delete.retention.ms": Setting("86400000", _LONG),
    "follower.replication.throttled.replicas": Setting("", _LIST),
    "message.downconversion.enable": Setting("true", _BOOLEAN, is_old=True),
    "max.compaction.lag.ms": Setting("9223372036854775807", _LONG),
    "message.timestamp.type": Setting("CreateTime", _STRING),
    "min.cleanable.dirty.ratio": Setting("0.5", _DOUBLE),
    "min.insync.replicas": Setting("1", _INT),
    "retention.ms": Setting("604800000", _LONG),
    "segment.bytes": Setting("1073741824", _INT),
    "segment.ms": Setting("604800000", _LONG),
    "unclean.leader.election.enable": Setting("false", _BOOLEAN),
}
"""Some of those that topics have."""


@dataclass(slots=True, eq=False)
class Overrides:
    """What one topic sets itself, or all brokers were told: as the controller has it, and where a broker goes by
    something else yet, that; `told` is what brokers are told, one after another."""

    now: dict[str, str] = field(default_factory=dict)
    known: dict[int, dict[str, str]] = field(default_factory=dict)
    told: list[dict[str, str]] = field(default_factory=list)

    def of(self, node: int) -> dict[str, str]:
        return self.known.get(node, self.now)


class Settings:
    """`by_file` is what the brokers' files say of topics, `for_all` what all brokers were told since; `forbidden` are
    settings that a policy of the cluster lets nobody alter. `watchers` hear of each alteration by a request: of which
    topic, what to set or, None, to delete, and what the topic set itself before."""

    def __init__(
        self, world: World, topics: Callable[[str], Overrides | None], nodes: Iterable[int], *,
        is_old: bool, frozen_until: Callable[[int], float],
    ) -> None:  # fmt: skip
        self.by_file: dict[str, str] = {}
        self.for_all = Overrides()
        self.forbidden: set[str] = set()
        self.refuses_until = 0.0
        self.watchers: list[Callable[[str, Mapping[str, str | None], Mapping[str, str]], None]] = []
        self.creation_watchers: list[Callable[[str, Mapping[str, str]], None]] = []
        self.names = [name for name, one in KNOWN.items() if is_old or not one.is_old]
        self._world = world
        self._topics = topics
        self._frozen_until = frozen_until
        self._learns_at = dict.fromkeys(nodes, 0.0)

    def value(self, overrides: Mapping[str, str], name: str, node: int | None = None) -> tuple[str, int]:
        """A topic's value that counts, for one broker as it knows, and where it comes from."""
        for_all = self.for_all.now if node is None else self.for_all.of(node)
        for source, values in ((TOPIC_SET, overrides), (FOR_ALL, for_all), (BY_FILE, self.by_file)):
            if name in values:
                return values[name], source
        return KNOWN[name].default, DEFAULT

    def alter(self, overrides: Overrides, changes: Mapping[str, str | None]) -> None:
        """A person or a request sets, or deletes what is None. One broker learns a moment later than another."""
        before = {node: overrides.of(node) for node in self._learns_at}
        overrides.known = {node: dict(known) for node, known in before.items()}
        for name, value in changes.items():
            if value is None:
                overrides.now.pop(name, None)
            else:
                overrides.now[name] = value
        after, world = dict(overrides.now), self._world
        overrides.told.append(after)
        for node in self._learns_at:
            delay = world.random.choice(_DELAY_SECONDS) * world.random.random()
            at = self._learns_at[node] = max(self._learns_at[node], world.now + delay, self._frozen_until(node))
            world.at(at, lambda node=node: overrides.known.update({node: after}))

    def problem(self, changes: Mapping[str, str | None]) -> tuple[int, str]:
        """Why a topic cannot be given these; an error of 0 where it can."""
        for name, value in changes.items():
            if name not in self.names:
                return _INVALID_CONFIG, f"Unknown topic config name: {name}"
            if KNOWN[name].kind in (_INT, _LONG) and not (value is None or value.lstrip("-").isdecimal()):
                return _INVALID_CONFIG, f"Invalid value {value} for configuration {name}: Not a number"
        return _NO_ERROR, ""

    def answer_alter(self, request: Any) -> Any:
        """All changes of a topic are made, or none."""
        kind = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
        told = []
        for one in request.resources:
            changes = {c.name: c.value if c.config_operation == _SET else None for c in one.configs}
            overrides = self._topics(one.resource_name) if one.resource_type == _TOPIC else None
            error, message = self.problem(changes)
            if overrides is None:
                error, message = _UNKNOWN_TOPIC, f"The topic '{one.resource_name}' does not exist."
            elif not error and (self._world.now < self.refuses_until or self.forbidden & changes.keys()):
                error, message = _POLICY_VIOLATION, "A policy does not allow it."
            if overrides is not None and not error:
                for watch in self.watchers:
                    watch(one.resource_name, changes, overrides.now)
                self.alter(overrides, changes)
            told.append(
                kind(error_code=error, error_message=message or None, resource_type=one.resource_type,
                     resource_name=one.resource_name)
            )  # fmt: skip
        return IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=told)

    def answer_describe(self, node: int, request: Any) -> Any:
        kind = DescribeConfigsResponse.DescribeConfigsResult
        results = []
        for one in request.resources:
            overrides = self._topics(one.resource_name) if one.resource_type == _TOPIC else None
            error = _UNKNOWN_TOPIC if one.resource_type == _TOPIC and overrides is None else _NO_ERROR
            known = {} if overrides is None else overrides.of(node)
            wanted = one.configuration_keys
            results.append(
                kind(
                    error_code=error, error_message=None, resource_type=one.resource_type,
                    resource_name=one.resource_name,
                    configs=[
                        self._entry(node, known, name) for name in self.names if wanted is None or name in wanted
                    ] if not error else [],
                )
            )  # fmt: skip
        return DescribeConfigsResponse(throttle_time_ms=0, results=results)

    def _entry(self, node: int, overrides: Mapping[str, str], name: str) -> Any:
        value, source = self.value(overrides, name, node)
        return DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult(
            name=name, value=value, read_only=False, config_source=source, is_sensitive=False, synonyms=[],
            config_type=KNOWN[name].kind, documentation=None,
        )  # fmt: skip
