"""THE table of MirrorMaker 1's settings: the names of Kafka 0.7 to 3.9 and what becomes of each; data only.

Read by `config/formats/mm1.py`. Names that are not here are those of today's Java clients, which `config/keys/table.py`
knows. Taken from `ConsumerConfig` and `ProducerConfig` of Kafka 0.7, 0.8 and 0.9 and from MirrorMaker's own defaults.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dialect:
    """One of the two files. `renamed`: old name to today's. `explained`: no effect, and the sentence that says why.

    `quiet` names change nothing and are not worth a word.
    """

    renamed: Mapping[str, str]
    explained: Mapping[str, str]
    quiet: frozenset[str]


def _without_broker_ids(text: str) -> str:
    """`0:host:9092, 1:other:9092`, as Kafka 0.7 wrote `broker.list`, to `host:9092,other:9092`."""
    hosts = [item.strip() for item in text.split(",")]
    return ",".join(host.partition(":")[2] if host.count(":") == 2 and host[:1].isdigit() else host for host in hosts)


def _value_of(table: Mapping[str, str]) -> Callable[[str], str]:
    return lambda text: table.get(text.strip().lower(), text)


_RESET = _value_of({"smallest": "earliest", "largest": "latest"})
_CODEC = _value_of(
    {"0": "none", "1": "gzip", "2": "snappy", "3": "lz4", "nocompressioncodec": "none"}
    | {f"{name}compressioncodec": name for name in ("gzip", "snappy", "lz4")}
)

OLD_VALUES: Mapping[str, Callable[[str], str]] = {
    "auto.offset.reset": _RESET,
    "autooffset.reset": _RESET,
    "compression.codec": _CODEC,
    "broker.list": _without_broker_ids,
    "acks": _value_of({"-1": "all"}),
    "request.required.acks": _value_of({"-1": "all"}),
}
"""The old names of values, by the name under which the file has them."""

_SESSION = "there is no consumer group to keep alive: Spark's tasks share the partitions, and `group.id` holds progress"
_ZOOKEEPER = "brokers are asked, not ZooKeeper"
_QUEUE = "what waits is bounded by `lease.ring.bytes`; a full buffer holds the reader up and never drops a record"
_LIMIT = "the target's topic says how large a record may be, and a larger one is reported"
_RETRY = "what can be retried is retried until it succeeds"
_COMMIT = "progress is committed every --offset.commit.interval.ms, only up to what the target has"
_BYTES = "records are moved as bytes and are never deserialised"

_QUIET_CONSUMER = """
    zookeeper.session.timeout.ms zookeeper.connection.timeout.ms zookeeper.sync.time.ms zk.sessiontimeout.ms
    zk.connectiontimeout.ms zk.synctime.ms consumer.id consumerid auto.commit.enable autocommit.enable
    autocommit.interval.ms auto.commit.interval.ms enable.auto.commit queued.max.message.chunks queuedchunks.max
    rebalance.max.retries rebalance.retries.max rebalance.backoff.ms rebalance.backoff.ms
    refresh.leader.backoff.ms backoff.increment.ms fetcher.backoff.ms exclude.internal.topics
    partition.assignment.strategy num.consumer.fetchers offsets.channel.backoff.ms
    offsets.channel.socket.timeout.ms offsets.commit.max.retries key.deserializer value.deserializer
"""
CONSUMER = Dialect(
    renamed={
        "groupid": "group.id",
        "autooffset.reset": "auto.offset.reset",
        "socket.buffersize": "receive.buffer.bytes",
        "socket.receive.buffer.bytes": "receive.buffer.bytes",
        "socket.timeout.ms": "request.timeout.ms",
        "fetch.size": "max.partition.fetch.bytes",
        "fetch.message.max.bytes": "max.partition.fetch.bytes",
        "fetch.wait.max.ms": "fetch.max.wait.ms",
        "clientid": "client.id",
    },
    explained={
        **dict.fromkeys(("zookeeper.connect", "zk.connect"), _ZOOKEEPER),
        **dict.fromkeys(("mirror.topics.whitelist", "mirror.topics.blacklist"), "give --whitelist or --blacklist"),
        "mirror.consumer.numthreads": "give --num.streams",
        **dict.fromkeys(("offsets.storage", "dual.commit.enabled"), "progress is committed to Kafka, as `group.id`"),
        "consumer.timeout.ms": "a mirror waits for records for ever",
    },
    quiet=frozenset(_QUIET_CONSUMER.split()),
)

_QUIET_PRODUCER = """
    producer.type serializer.class key.serializer.class key.serializer value.serializer partitioner.class
    send.buffer connect.timeout.ms reconnect.interval reconnect.time.interval.ms zk.read.num.retries
    zk.sessiontimeout.ms zk.connectiontimeout.ms num.retries max.in.flight.requests.per.connection
    enable.idempotence max.block.ms
"""
PRODUCER = Dialect(
    renamed={
        "metadata.broker.list": "bootstrap.servers",
        "broker.list": "bootstrap.servers",
        "request.required.acks": "acks",
        "compression.codec": "compression.type",
        "queue.buffering.max.ms": "linger.ms",
        "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
        "message.send.max.retries": "retries",
        "buffer.size": "send.buffer.bytes",
        "socket.buffersize": "send.buffer.bytes",
        "socket.timeout.ms": "request.timeout.ms",
        "clientid": "client.id",
    },
    explained={
        **dict.fromkeys(("zookeeper.connect", "zk.connect"), _ZOOKEEPER),
        **dict.fromkeys(
            (
                "queue.enqueueTimeout.ms", "queue.enqueue.timeout.ms", "queue.size", "queue.time",
                "queue.buffering.max.messages", "batch.num.messages", "block.on.buffer.full",
            ),
            _QUEUE,
        ),
        **dict.fromkeys(("max.message.size", "max.request.size"), _LIMIT),
        "compressed.topics": "`compression.type` holds for all topics",
        **dict.fromkeys(
            ("callback.handler", "callback.handler.props", "event.handler", "event.handler.props"),
            "Java classes cannot be loaded here",
        ),
        **dict.fromkeys(("timeout.ms", "metadata.fetch.timeout.ms"), _RETRY),
    },
    quiet=frozenset(_QUIET_PRODUCER.split()),
)  # fmt: skip

SHALLOW = ("shallowiterator.enable", "enable.shallow.iterator")
"""The consumer's setting by which compressed sets are not opened. With a producer that names no codec they stay as they
are."""

OLD_MESSAGE_BATCH_SIZE = 1000
"""Kafka 0.7's `batch.size` counted messages, today's counts bytes: below this it can only have been messages."""

_SERIALIZERS = """
    key.deserializer value.deserializer key.serializer value.serializer serializer.class key.serializer.class
"""
SERIALIZERS: Mapping[str, str] = dict.fromkeys(_SERIALIZERS.split(), _BYTES)
"""Worth a word when they name anything but bytes."""
BYTE_CLASSES = ("ByteArraySerializer", "ByteArrayDeserializer", "DefaultEncoder", "DefaultDecoder")
AUTO_COMMIT: Mapping[str, str] = dict.fromkeys(
    ("enable.auto.commit", "auto.commit.enable", "autocommit.enable"), _COMMIT
)
"""Worth a word when they are true."""
INTERNAL_TOPICS: Mapping[str, str] = {"exclude.internal.topics": "the brokers' own topics are never mirrored"}
"""Worth a word when they are false."""
PARTITIONERS: Mapping[str, str] = {
    "partitioner.class": "records keep their partition, or go by key where the target topic has another number of them"
}
"""Worth a word when they name a class of one's own."""
OWN_PARTITIONERS = ("DefaultPartitioner", "UniformStickyPartitioner", "RoundRobinPartitioner")
GROUP_MEMBERSHIP: Mapping[str, str] = dict.fromkeys(
    ("session.timeout.ms", "heartbeat.interval.ms", "group.instance.id", "max.poll.interval.ms"), _SESSION
)
"""Client settings of today that are about being a member of a group."""

IDLE_OPTIONS: Mapping[str, str] = {
    "--new.consumer": "there is one consumer",
    "--new.producer": "there is one producer",
    "--no.data.loss": "progress is committed only up to what the target has, always",
}
IDLE_OPTIONS_WITH_VALUE: Mapping[str, str] = dict.fromkeys(("--queue.size", "--queue.byte.size"), _QUEUE)
"""Options of the command that change nothing, without and with a value, and why: they are accepted."""

REFUSED_OPTIONS: Mapping[str, str] = {
    "--message.handler": "a MirrorMakerMessageHandler is a Java class and cannot run here",
    "--message.handler.args": "it belongs to --message.handler, which cannot run here",
    "--consumer.rebalance.listener": "a ConsumerRebalanceListener is a Java class, and there is no rebalance here",
    "--rebalance.listener": "a ConsumerRebalanceListener is a Java class, and there is no rebalance here",
    "--rebalance.listener.args": "it belongs to --consumer.rebalance.listener, which cannot run here",
}
"""Options of the command that would change what is mirrored, and why they are refused."""
