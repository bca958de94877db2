"""Names that Kafka and MirrorMaker 2 know and `keys.py` does not carry out, so that no file is misread in silence.

Taken from the `ConfigDef`s of connect-mirror and kafka-clients 4.3.0. Called by `config/recognise.py`.
"""

_SECURITY = """
    sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds
    sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer sasl.oauthbearer.header.urlencode
    sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope
    sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url
    ssl.cipher.suites ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.engine.factory.class
    ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key
    ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates
    ssl.truststore.location ssl.truststore.password ssl.truststore.type
"""
SECURITY_NAMES: tuple[str, ...] = tuple(_SECURITY.split())
"""Every `ssl.*` and `sasl.*` client key (`withClientSslSupport`, `withClientSaslSupport`); passed on to the clients."""

CLIENT_COMMON: tuple[str, ...] = ("bootstrap.servers", "security.protocol", *SECURITY_NAMES)
"""What every client of a cluster shares: `MirrorClientConfig.CLIENT_CONFIG_DEF`."""

REFUSED: dict[str, str] = {
    "transforms": "records would be copied unchanged",
    "predicates": "records would be copied unchanged",
    "topic.filter.class": "other topics would be mirrored",
    "config.property.filter.class": "other settings would be copied",
    "forwarding.admin.class": "topics would be created directly",
    "config.providers": "`${…}` in values would be taken as it stands",
    "offsets.storage.topic": "positions would be looked for in another topic",
}
"""What would mirror something else if it were ignored, and what would happen then."""

HARMLESS_VALUES: dict[str, str] = {
    "topic.filter.class": "org.apache.kafka.connect.mirror.DefaultTopicFilter",
    "config.property.filter.class": "org.apache.kafka.connect.mirror.DefaultConfigPropertyFilter",
    "forwarding.admin.class": "org.apache.kafka.clients.admin.ForwardingAdmin",
}
"""The defaults of refused keys, which change nothing."""

_UNUSED = """
    access.control.allow.methods access.control.allow.origin admin.timeout.ms checkpoints.topic.replication.factor
    config.action.reload config.storage.replication.factor config.storage.topic connect.protocol connector.class
    consumer.poll.timeout.ms dedicated.mode.enable.internal.rest emit.checkpoints.enabled
    emit.checkpoints.interval.seconds emit.heartbeats.enabled emit.heartbeats.interval.seconds
    emit.offset-syncs.enabled errors.log.enable errors.log.include.messages errors.retry.delay.max.ms
    errors.retry.timeout errors.tolerance exactly.once.support group.filter.class group.id groups groups.exclude
    header.converter heartbeat.interval.ms heartbeats.topic.replication.factor key.converter listeners
    metric.names.formats metric.reporters name offset-syncs.topic.location offset-syncs.topic.replication.factor
    offset.flush.timeout.ms offset.lag.max rebalance.timeout.ms refresh.groups.enabled
    refresh.groups.interval.seconds rest.advertised.host.name rest.advertised.listener rest.advertised.port
    scheduled.rebalance.max.delay.ms session.timeout.ms source.cluster.alias status.storage.partitions
    status.storage.replication.factor status.storage.topic sync.group.offsets.enabled
    sync.group.offsets.interval.seconds
    target.cluster.alias task.shutdown.graceful.timeout.ms tasks.max.enforce
    topic.creation.enable value.converter
    acks batch.size buffer.memory compression.type delivery.timeout.ms enable.idempotence linger.ms
    max.in.flight.requests.per.connection enable.auto.commit max.poll.records max.poll.interval.ms metadata.max.age.ms
    connections.max.idle.ms retry.backoff.ms retries reconnect.backoff.ms allow.auto.create.topics check.crcs
    client.dns.lookup default.api.timeout.ms max.block.ms partitioner.class interceptor.classes
"""
UNUSED: frozenset[str] = frozenset(_UNUSED.split())
"""MirrorMaker, Connect and client keys that have no effect in this version."""
