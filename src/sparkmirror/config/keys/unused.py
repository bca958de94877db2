"""The part of the table of keys (`config/keys/table.py`) that has no effect here, each with the reason.

Every key of MirrorMaker 2, of Connect's workers and source connectors, and of Kafka's clients 4.3 that is in neither
other part stands here (`tests/parity/test_keys.py` compares with the real `ConfigDef`s). Called by
`config/recognise.py`, which says the reason to the person who wrote such a line.
"""

from collections.abc import Iterator

from sparkmirror.config.keys.client_keys import IDLE_SECURITY
from sparkmirror.config.keys.key import Scope, Unused

_NO_WORKER = "there is no Kafka Connect worker; Spark runs the tasks"
_NO_REST = "processes find each other through Kafka; nothing listens"
_NO_CONVERTER = "keys and values are copied as they are, without a converter"
_METRICS = "figures are on the status topic, and MBeans have the names of docs/jmx.md"
_RETRY = "what can be retried is retried until it succeeds"
_CONNECTION = "the defaults of SparkMirror's own connections hold"
_NO_POLL = "records are not polled; fetch.max.bytes and lease.ring.bytes bound what is read"
_NO_GROUP = "the reader joins no consumer group"
_WHOLE_BATCHES = "batches are passed on whole, without a serializer"
_SMALL = "only requests, or their answers, go that way; the operating system's buffers do for them"
_ALWAYS = "always so: partitions keep their order, and lost answers repeat nothing"

_SECTIONS: tuple[tuple[str, tuple[Scope, ...], str], ...] = (
    (
        "the status tells it: a partition that the target refuses is paused and tried again, the others go on",
        (Scope.FLOW,),
        """
        errors.log.enable errors.log.include.messages errors.retry.delay.max.ms errors.retry.timeout errors.tolerance
        """,
    ),
    (
        "S->T names the flow, and its parts have fixed names",
        (Scope.FLOW,),
        "connector.class connector.plugin.version name source.cluster.alias target.cluster.alias",
    ),
    (_NO_WORKER, (Scope.FLOW,), "config.action.reload tasks.max.enforce"),
    (_NO_POLL, (Scope.FLOW,), "consumer.poll.timeout.ms"),
    (_RETRY, (Scope.FLOW,), "admin.timeout.ms"),
    (_METRICS, (Scope.FLOW,), "metric.reporters"),
    (
        "exactly-once is decided by `T.exactly.once.source.support` alone",
        (Scope.FLOW_ONLY,),
        "exactly.once.support",
    ),
    (
        "remote topics are created with the source's settings and replication.factor",
        (Scope.FLOW_ONLY,),
        "topic.creation.groups topic.creation.<group>.<setting>",
    ),
    (
        _NO_CONVERTER,
        (Scope.FLOW, Scope.STORAGE),
        """
        header.converter key.converter value.converter header.converter.plugin.version key.converter.plugin.version
        value.converter.plugin.version key.converter.<setting> value.converter.<setting> header.converter.<setting>
        """,
    ),
    (
        _NO_REST,
        (Scope.FILE, Scope.WORKER),
        """
        access.control.allow.methods access.control.allow.origin admin.listeners dedicated.mode.enable.internal.rest
        inter.worker.key.generation.algorithm inter.worker.key.size inter.worker.key.ttl.ms
        inter.worker.signature.algorithm inter.worker.verification.algorithms listeners response.http.headers.config
        rest.advertised.host.name rest.advertised.listener rest.advertised.port rest.extension.classes ssl.client.auth
        admin.listeners.https.<setting> listeners.https.<setting>
        """,
    ),
    (
        _NO_WORKER,
        (Scope.STORAGE,),
        """
        config.storage.replication.factor config.storage.topic status.storage.partitions
        status.storage.replication.factor status.storage.topic task.shutdown.graceful.timeout.ms
        worker.sync.timeout.ms worker.unsync.backoff.ms config.storage.<setting> status.storage.<setting>
        """,
    ),
    (
        _NO_WORKER,
        (Scope.WORKER,),
        """
        connect.protocol connector.client.config.override.policy heartbeat.interval.ms
        offset.flush.timeout.ms plugin.discovery rebalance.timeout.ms scheduled.rebalance.max.delay.ms
        topic.creation.enable topic.tracking.allow.reset topic.tracking.enable client.id
        request.timeout.ms receive.buffer.bytes send.buffer.bytes
        """,
    ),
    (_NO_POLL, (Scope.CONSUMER,), "max.poll.interval.ms max.poll.records"),
    (
        _NO_GROUP,
        (Scope.CONSUMER,),
        """
        auto.commit.interval.ms enable.auto.commit group.id group.instance.id group.protocol group.remote.assignor
        heartbeat.interval.ms partition.assignment.strategy session.timeout.ms share.acknowledgement.mode
        share.acquire.mode internal.throw.on.fetch.stable.offset.unsupported
        """,
    ),
    ("topics are read by name, never created or guessed", (Scope.CONSUMER,), "allow.auto.create.topics"),
    ("internal topics are recognised by their names", (Scope.CONSUMER,), "exclude.internal.topics"),
    ("checksums are folded on the way, and every target broker checks them", (Scope.CONSUMER,), "check.crcs"),
    (_WHOLE_BATCHES, (Scope.CONSUMER,), "interceptor.classes key.deserializer value.deserializer"),
    (_WHOLE_BATCHES, (Scope.PRODUCER,), "interceptor.classes key.serializer value.serializer"),
    (
        "a record stays in the partition of its source",
        (Scope.PRODUCER,),
        """
        partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class
        partitioner.ignore.keys
        """,
    ),
    (
        "the codec's usual level is used",
        (Scope.PRODUCER,),
        "compression.gzip.level compression.lz4.level compression.zstd.level",
    ),
    ("all in-sync replicas must have a batch before it counts", (Scope.PRODUCER,), "acks"),
    (_RETRY, (Scope.PRODUCER,), "delivery.timeout.ms max.block.ms"),
    (_RETRY, (Scope.PRODUCER, Scope.ADMIN), "retries"),
    (_ALWAYS, (Scope.PRODUCER,), "enable.idempotence max.in.flight.requests.per.connection"),
    (
        "transactions are decided by `T.exactly.once.source.support` alone",
        (Scope.PRODUCER,),
        "transaction.two.phase.commit.enable transactional.id",
    ),
    ("the brokers of the cluster are asked", (Scope.ADMIN,), "bootstrap.controllers"),
    (_CONNECTION, (Scope.CONSUMER, Scope.PRODUCER, Scope.WORKER), "connections.max.idle.ms"),
    (_CONNECTION, (Scope.WORKER,), "metadata.max.age.ms"),
    (_CONNECTION, (Scope.PRODUCER,), "metadata.max.idle.ms"),
    (_CONNECTION, (Scope.CONSUMER, Scope.ADMIN), "default.api.timeout.ms"),
    (_CONNECTION, (Scope.ADMIN,), "receive.buffer.bytes send.buffer.bytes"),
    (_SMALL, (Scope.CONSUMER,), "send.buffer.bytes"),
    (_SMALL, (Scope.PRODUCER,), "receive.buffer.bytes"),
    (
        "a request takes what waits, up to 8 MiB, and a larger batch alone; the target's topic says what is too large",
        (Scope.PRODUCER,),
        "max.request.size",
    ),
    (
        _CONNECTION,
        (Scope.CONSUMER, Scope.PRODUCER, Scope.ADMIN, Scope.WORKER),
        """
        client.dns.lookup metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy reconnect.backoff.max.ms
        reconnect.backoff.ms retry.backoff.max.ms retry.backoff.ms security.providers
        socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
        """,
    ),
    (
        _METRICS,
        (Scope.CONSUMER, Scope.PRODUCER, Scope.ADMIN, Scope.WORKER),
        """
        auto.include.jmx.reporter enable.metrics.push metric.reporters metrics.context.<setting> metrics.num.samples
        metrics.recording.level metrics.sample.window.ms
        """,
    ),
)


def _entries() -> Iterator[Unused]:
    for reason, scopes, names in _SECTIONS:
        yield from (Unused(name, scope, reason) for name in names.split() for scope in scopes)
    for reason, names in IDLE_SECURITY:
        yield from (Unused(name, Scope.CLIENT, reason) for name in names.split())


UNUSED: tuple[Unused, ...] = tuple(_entries())
