"""The options of `kafka-records`, and of `kafka-runs` without a mirror: read, and refused by name. Pure; called by
`records.entry`.

Names and meanings are those of Spark's Kafka connector where it has the same option. Spark hands them over in small
letters.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from sparkmirror.batch.header import Codec
from sparkmirror.batch.unpacking import USUAL_BOUND, Bound
from sparkmirror.config.keys.client_keys import SECURITY_NAMES
from sparkmirror.errors import ConfigError
from sparkmirror.kafka.settings import ClientSettings, client_settings
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.policy.java_regex import JavaPatternError, compile_java
from sparkmirror.records.offset_limits import (
    OffsetLimit,
    assigned_partitions,
    ending_limit,
    starting_limit,
)

ALIAS: Final = "kafka"
"""Under which errors know the cluster: a setting is then named as the option is, `kafka.sasl.jaas.config`."""
_KAFKA: Final = "kafka."

RECORDS: Final = "kafka-records"
RUNS: Final = "kafka-runs"
"""The sources, which have the same options where they mean the same."""

_TOPICS: Final = ("subscribe", "subscribePattern", "assign")
_STARTING: Final = (
    "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy"
)  # fmt: skip
_ENDING: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_READ: Final = (
    "bootstrap.servers", *_TOPICS, *_STARTING, "failOnDataLoss", "minPartitions", "maxRecordsPerPartition",
    "maxUnpackedBytes",
)  # fmt: skip
_OF_RECORDS: Final = ("includeHeaders",)
_OF_STREAMS: Final = ("maxOffsetsPerTrigger", "identicalOffsets")
_WRITE: Final = ("bootstrap.servers", "topic", "offsetsFile")
_OF_SINKS: Final = ("checkpointLocation", "queryName", "path")
"""Spark's own of a streaming write, which it hands on."""

_COMPRESSION: Final = "compression.type"
_CLIENT: Final = frozenset(
    ("bootstrap.servers", "security.protocol", "ssl.ca.location", *SECURITY_NAMES, "client.id", "request.timeout.ms",
     "connections.max.idle.ms", "metadata.max.age.ms")
)  # fmt: skip
_CONSUMER: Final = _CLIENT | {"isolation.level"}
_PRODUCER: Final = _CLIENT | {
    _COMPRESSION, "acks", "enable.idempotence", "delivery.timeout.ms", "transactional.id", "transaction.timeout.ms"
}  # fmt: skip
_TIMEOUT_MS: Final = 60_000
"""Java's default of `transaction.timeout.ms`."""

_REFUSED: Final = {
    "minoffsetspertrigger": "A batch begins when there are records. Set the trigger of the query instead.",
    "maxtriggerdelay": "It belongs to minOffsetsPerTrigger, which is not supported.",
    "groupidprefix": "No consumer group takes part: positions are in Spark's checkpoint.",
    "kafka.group.id": "No consumer group takes part: positions are in Spark's checkpoint.",
    "kafka.auto.offset.reset": "Use startingOffsets.",
    "kafka.enable.auto.commit": "Positions are in Spark's checkpoint; nothing is committed to Kafka.",
    "transactional": "Use kafka.transactional.id, the prefix of the tasks' ids.",
    "kafka.client.rack": "Records are read from leaders.",
}
_OF_A_MIRROR: Final = (
    "It belongs to the streams of a mirror, which have `config` and `flow`, and no kafka.bootstrap.servers."
)
_REFUSED_BY: Final = {
    RECORDS: {
        "config": "It belongs to the source `kafka-runs`.",
        "flow": "It belongs to the source `kafka-runs`.",
    },
    RUNS: {
        "config": _OF_A_MIRROR,
        "flow": _OF_A_MIRROR,
        "includeheaders": "Headers are in the batches.",
        "kafka.compression.type": "Batches keep their codec.",
    },
}


class Selection(NamedTuple):
    """The topics of a read: by `names`, or all that match a Java `pattern`, or single `partitions`."""

    names: tuple[str, ...] = ()
    pattern: str = ""
    partitions: tuple[TopicPartition, ...] = ()

    def takes_some_of(self, topic: str) -> bool:
        """Whether any partition of the topic is read."""
        return any(one.topic == topic for one in self.partitions) or self.takes(TopicPartition(topic, 0))

    def takes(self, where: TopicPartition) -> bool:
        if self.partitions:
            return where in self.partitions
        return where.topic in self.names or bool(self.pattern and compile_java(self.pattern).fullmatch(where.topic))


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a read is to do. `offsets_max` is of a micro-batch, `partitions_min` and `records_max` of its tasks,
    `unpacked_max` of a record batch. With `are_identical` a checkpoint's offsets hold on other clusters too. `source`,
    RECORDS or RUNS, says what the rows are."""

    cluster: Cluster
    topics: Selection
    starting: OffsetLimit
    ending: OffsetLimit
    read_committed: bool = False
    fail_on_data_loss: bool = True
    are_identical: bool = False
    offsets_max: int | None = None
    partitions_min: int | None = None
    records_max: int | None = None
    unpacked_max: int | None = None
    source: str = RECORDS

    @property
    def bound(self) -> Bound:
        """What a batch may become when it is unpacked."""
        return USUAL_BOUND if self.unpacked_max is None else Bound(self.unpacked_max, self.unpacked_max)

    @property
    def settings(self) -> ClientSettings:
        """How the tasks reach the cluster. Raises ConfigError."""
        return client_settings(self.cluster, "records")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a write is to do. All records go to `topic`, if there is one; where they lie is noted in `offsets_file`.
    `codec` is of records, not of batches. With a `transactional_id` each task writes in a transaction of the id
    `<transactional_id>-<task>`."""

    cluster: Cluster
    topic: str = ""
    offsets_file: str = ""
    codec: Codec = Codec.NONE
    delivery_seconds: float = 120.0
    source: str = RECORDS
    transactional_id: str = ""
    transaction_timeout_ms: int = _TIMEOUT_MS

    @property
    def settings(self) -> ClientSettings:
        """How the tasks reach the cluster. Raises ConfigError."""
        return client_settings(self.cluster, "records")


def check_names(given: Mapping[str, str], source: str = RECORDS) -> None:
    """Refuses options that no read has. Raises ConfigError."""
    _refuse_unknown(given, (*_read_names(source), *_ENDING, *_OF_STREAMS), _CONSUMER, "a read", source)


def _read_names(source: str) -> tuple[str, ...]:
    return (*_READ, *_OF_RECORDS) if source == RECORDS else _READ


def read_options(given: Mapping[str, str], *, is_stream: bool, source: str = RECORDS) -> ReadOptions:
    """Raises ConfigError, which names the option."""
    names = (*_read_names(source), *(_OF_STREAMS if is_stream else _ENDING))
    _refuse_unknown(given, names, _CONSUMER, "a streaming read" if is_stream else "a batch read", source)
    if given.get("includeheaders", "true").lower() != "true":
        raise ConfigError("includeHeaders=false is not supported: headers are always there.", "Select the columns.")
    isolation = given.get("kafka.isolation.level", "read_uncommitted").strip().lower()
    if isolation not in ("read_uncommitted", "read_committed"):
        raise ConfigError(f"kafka.isolation.level={isolation} is neither read_uncommitted nor read_committed.")
    options = ReadOptions(
        cluster=_cluster(given, source),
        topics=_selection(given, source),
        starting=starting_limit(given, is_stream=is_stream),
        ending=ending_limit(given),
        read_committed=isolation == "read_committed",
        fail_on_data_loss=_switch(given, "failOnDataLoss", default=True),
        are_identical=_switch(given, "identicalOffsets", default=False),
        offsets_max=_count(given, "maxOffsetsPerTrigger"),
        partitions_min=_count(given, "minPartitions"),
        records_max=_count(given, "maxRecordsPerPartition"),
        unpacked_max=_count(given, "maxUnpackedBytes"),
        source=source,
    )
    _ = options.settings
    return options


def write_options(given: Mapping[str, str], *, is_stream: bool, source: str = RECORDS) -> WriteOptions:
    """Raises ConfigError, which names the option."""
    known = (*_WRITE, *_OF_SINKS) if is_stream else _WRITE
    clients = _PRODUCER if source == RECORDS else _PRODUCER - {_COMPRESSION}
    _refuse_unknown(given, known, clients, "a streaming write" if is_stream else "a batch write", source)
    if given.get("kafka.acks", "all").strip() not in ("all", "-1"):
        raise ConfigError("kafka.acks: all replicas in sync acknowledge each write.", "Leave it out.")
    if given.get("kafka.enable.idempotence", "true").strip().lower() != "true":
        raise ConfigError("kafka.enable.idempotence: every write is idempotent.", "Leave it out.")
    name = given.get("kafka.compression.type", "none").strip().upper()
    if name not in Codec.__members__:
        known_codecs = ", ".join(codec.name.lower() for codec in Codec)
        raise ConfigError(f"kafka.compression.type={name.lower()} is not supported.", f"Use one of {known_codecs}.")
    delivery_ms = _count(given, "kafka.delivery.timeout.ms") or 120_000
    topic, file = given.get("topic", "").strip(), given.get("offsetsfile", "").strip()
    name_of_all = given.get("kafka.transactional.id", "").strip()
    timeout_ms = _count(given, "kafka.transaction.timeout.ms") or _TIMEOUT_MS
    options = WriteOptions(
        _cluster(given, source), topic, file, Codec[name], delivery_ms / 1000, source, name_of_all, timeout_ms
    )
    _ = options.settings
    return options


def _refuse_unknown(
    given: Mapping[str, str], known: tuple[str, ...], clients: frozenset[str], what: str, source: str
) -> None:
    refused = _REFUSED | _REFUSED_BY[source]
    names = {name.lower() for name in known}
    for name in sorted(given):
        if name in names or (name.removeprefix(_KAFKA) in clients and name.startswith(_KAFKA)):
            continue
        if name in refused:
            raise ConfigError(f"{source} has no option `{name}`. {refused[name]}")
        spelt = next(
            (one for one in (*_read_names(source), *_ENDING, *_OF_STREAMS, *_WRITE) if one.lower() == name), ""
        )
        if spelt:
            raise ConfigError(f"The option `{spelt}` of {source} has no meaning in {what}.", "Leave it out.")
        if name.startswith(_KAFKA):
            hint = f"Client settings that have an effect in {what}: {', '.join(sorted(clients - set(SECURITY_NAMES)))}."
            raise ConfigError(f"The client setting `{name}` has no effect in {what} of {source}.", hint)
        raise ConfigError(f"{source} has no option `{name}`.", f"Options of {what}: {', '.join(known)}, kafka.*.")


def _cluster(given: Mapping[str, str], source: str) -> Cluster:
    client = {name.removeprefix(_KAFKA): value for name, value in given.items() if name.startswith(_KAFKA)}
    if "bootstrap.servers" in given:
        client["bootstrap.servers"] = given["bootstrap.servers"]
    if not client.get("bootstrap.servers", "").strip():
        raise ConfigError(
            f"{source} needs the option `kafka.bootstrap.servers`.",
            'Add .option("kafka.bootstrap.servers", "broker:9092").',
        )
    return Cluster(ALIAS, client)


def _selection(given: Mapping[str, str], source: str) -> Selection:
    named = [name for name in _TOPICS if given.get(name.lower(), "").strip()]
    if len(named) != 1:
        what = f"not {' and '.join(named)}" if named else "and has none"
        raise ConfigError(
            f"{source} needs one of the options subscribe, subscribePattern and assign, {what}.",
            'Add for example .option("subscribe", "orders").',
        )
    text = given[named[0].lower()].strip()
    match named[0]:
        case "subscribe":
            names = tuple(sorted({name.strip() for name in text.split(",")} - {""}))
            if not names:
                raise ConfigError(f"subscribe={text} names no topic.")
            return Selection(names=names)
        case "subscribePattern":
            try:
                compile_java(text)
            except JavaPatternError as problem:
                raise ConfigError(f"subscribePattern={text} is no regular expression: {problem}.") from None
            return Selection(pattern=text)
        case _:
            return Selection(partitions=assigned_partitions(text))


def _switch(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = given.get(name.lower(), str(default)).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{name}={text} is neither true nor false.")
    return text == "true"


def _count(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.strip().isdecimal() or not int(text):
        raise ConfigError(f"{name}={text} is not a whole number from 1 on.")
    return int(text)
