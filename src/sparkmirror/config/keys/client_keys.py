"""The part of the table of keys (`config/keys/table.py`) that Kafka's clients share: addresses, security, reader and
writer. `SECURITY_NAMES` and `CLIENT_COMMON` are taken from the `ConfigDef`s of kafka-clients and connect-mirror 4.3.0.
"""

from typing import Any

from sparkmirror.config import types
from sparkmirror.config.keys.key import Key, Scope

BOOTSTRAP_SERVERS = Key(
    "bootstrap.servers",
    Scope.CLIENT,
    types.HOSTS,
    "",
    "Where to find the cluster: `host:port, …`, an IPv6 address in brackets, `[::1]:9092`. Required per cluster.",
)
SECURITY_PROTOCOL = Key(
    "security.protocol",
    Scope.CLIENT,
    types.choice("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "PLAINTEXT",
    "How connections are secured. At the top level it serves every cluster that has none of its own.",
)

ISOLATION_LEVEL = Key(
    "isolation.level",
    Scope.CONSUMER,
    types.choice("read_uncommitted", "read_committed"),
    "read_uncommitted",
    "With read_committed, records of aborted transactions are left out.",
)
AUTO_OFFSET_RESET = Key(
    "auto.offset.reset",
    Scope.CONSUMER,
    types.START,
    "earliest",
    "Where to begin in a partition without a stored position: at its first record, behind its last one, or with "
    "`by_duration:P7D` at the first record of the last seven days (KIP-1106).",
)
FETCH_MAX_BYTES = Key(
    "fetch.max.bytes", Scope.CONSUMER, types.whole(1, unit="bytes"), 16 << 20, "Most bytes of one fetch.", "52428800"
)
MAX_PARTITION_FETCH_BYTES = Key(
    "max.partition.fetch.bytes",
    Scope.CONSUMER,
    types.whole(1, unit="bytes"),
    4 << 20,
    "Most bytes of one partition in a fetch.",
    "1048576",
)
FETCH_MAX_WAIT = Key(
    "fetch.max.wait.ms", Scope.CONSUMER, types.whole(0, unit="ms"), 500, "How long a broker waits for fetch.min.bytes."
)
FETCH_MIN_BYTES = Key(
    "fetch.min.bytes", Scope.CONSUMER, types.whole(0, unit="bytes"), 1, "What a broker waits for before it answers."
)
CLIENT_RACK = Key(
    "client.rack", Scope.CONSUMER, types.STRING, "", "Where the reader runs, for fetching from near replicas."
)

COMPRESSION_TYPE = Key(
    "compression.type",
    Scope.PRODUCER,
    types.choice("source", "none", "gzip", "snappy", "lz4", "zstd"),
    "source",
    "Codec of all records on the target. With `source` each batch keeps the codec that it has there, and is not "
    "decompressed.",
    "none",
)
BATCH_SIZE = Key(
    "batch.size",
    Scope.PRODUCER,
    types.whole(0, unit="bytes"),
    4 << 20,
    "Small batches are merged up to this size, where that pays. Larger ones stay as they are.",
    "16384",
)
LINGER = Key(
    "linger.ms",
    Scope.PRODUCER,
    types.whole(0, unit="ms"),
    0,
    "How long a partition that has less than `batch.size` waits for more, so that there is something to merge.",
    "5",
)
BUFFER_MEMORY = Key(
    "buffer.memory",
    Scope.PRODUCER,
    types.whole(0, unit="bytes"),
    32 << 20,
    "What a task may hold of what is under way, at least 1048576, where `lease.ring.bytes` is not set.",
)

_BUFFER = types.whole(1, unit="bytes", also=-1)
_TIMEOUT = types.whole(1, unit="ms")
_METADATA_AGE = types.whole(0, 2**63 - 1, unit="ms")
_BUFFER_DOC = "Socket buffer; -1 leaves it to the operating system."

CONSUMER_RECEIVE_BUFFER = Key("receive.buffer.bytes", Scope.CONSUMER, _BUFFER, -1, _BUFFER_DOC, "65536")
CONSUMER_REQUEST_TIMEOUT = Key("request.timeout.ms", Scope.CONSUMER, _TIMEOUT, 30000, "When a request is given up.")
CONSUMER_METADATA_AGE = Key(
    "metadata.max.age.ms",
    Scope.CONSUMER,
    _METADATA_AGE,
    300000,
    "When a task asks again who leads the source's partitions, at least a second.",
)
CONSUMER_CLIENT_ID = Key("client.id", Scope.CONSUMER, types.STRING, "", "Put before the name that brokers see.")
PRODUCER_SEND_BUFFER = Key("send.buffer.bytes", Scope.PRODUCER, _BUFFER, -1, _BUFFER_DOC, "131072")
PRODUCER_REQUEST_TIMEOUT = Key("request.timeout.ms", Scope.PRODUCER, _TIMEOUT, 30000, "When a request is given up.")
PRODUCER_METADATA_AGE = Key(
    "metadata.max.age.ms",
    Scope.PRODUCER,
    _METADATA_AGE,
    300000,
    "When a task asks again who leads the target's partitions, at least a second.",
)
TRANSACTION_TIMEOUT = Key(
    "transaction.timeout.ms",
    Scope.PRODUCER,
    _TIMEOUT,
    60000,
    "With exactly-once: when the target aborts a transaction that is not ended; it is then sent again.",
)
PRODUCER_CLIENT_ID = Key("client.id", Scope.PRODUCER, types.STRING, "", "Put before the name that brokers see.")
ADMIN_REQUEST_TIMEOUT = Key("request.timeout.ms", Scope.ADMIN, _TIMEOUT, 30000, "When a request is given up.")
ADMIN_IDLE = Key(
    "connections.max.idle.ms", Scope.ADMIN, _TIMEOUT, 540000, "When a connection without requests is closed.", "300000"
)
ADMIN_METADATA_AGE = Key(
    "metadata.max.age.ms", Scope.ADMIN, _TIMEOUT, 300000, "When brokers and leaders are asked for again."
)
ADMIN_CLIENT_ID = Key("client.id", Scope.ADMIN, types.STRING, "", "Put before the name that brokers see.")

CLIENT_KEYS: tuple[Key[Any], ...] = tuple(value for value in list(globals().values()) if isinstance(value, Key))

_SECURITY = """
    sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.service.name sasl.login.callback.handler.class
    sasl.login.class sasl.mechanism sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.scope sasl.oauthbearer.token.endpoint.url
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.template.file sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.header.urlencode
    ssl.cipher.suites ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.key.password
    ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password ssl.keystore.type
    ssl.truststore.certificates ssl.truststore.location ssl.truststore.password ssl.truststore.type
"""
SECURITY_NAMES: tuple[str, ...] = tuple(_SECURITY.split())
"""The `ssl.*` and `sasl.*` client keys that `kafka.settings` reads; what they mean is Kafka's."""

IDLE_SECURITY: tuple[tuple[str, str], ...] = (
    (
        "TLS is OpenSSL's, without Java's providers and classes",
        """
        ssl.engine.factory.class ssl.keymanager.algorithm ssl.protocol ssl.provider ssl.secure.random.implementation
        ssl.trustmanager.algorithm
        """,
    ),
    (
        "the Kerberos ticket is the system's, which renews it",
        """
        sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.ticket.renew.jitter
        sasl.kerberos.ticket.renew.window.factor
        """,
    ),
    (
        "a token is asked for within 10 s, and renewed when 80 % of its life are over",
        """
        sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
        sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
        sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
        """,
    ),
    (
        "the brokers check a token, the mirror does not",
        """
        sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
        sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
        sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
        sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
        """,
    ),
)
"""The others of `withClientSslSupport` and `withClientSaslSupport`, by why they have no effect."""

CLIENT_COMMON: tuple[str, ...] = (
    *("bootstrap.servers", "security.protocol", *SECURITY_NAMES),
    *(name for _, names in IDLE_SECURITY for name in names.split()),
)
"""The keys that every client of a cluster shares: `MirrorClientConfig.CLIENT_CONFIG_DEF`."""
