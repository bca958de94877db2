"""MirrorMaker 1's files and flags become the flows of a MirrorMaker 2 file, or say which line does not and why."""

from dataclasses import replace
from pathlib import Path

import pytest

from sparkmirror.config.flow.flows import MirrorConfig, parse_config
from sparkmirror.config.formats import mm1, mm1_names
from sparkmirror.config.formats.mm1 import MirrorMaker1, source_alias, split_patterns, translate_mm1
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.config.keys.key import Scope
from sparkmirror.errors import ConfigError
from sparkmirror.policy.naming import SameNamePolicy

CONSUMER = "bootstrap.servers=src1:9092,src2:9092\ngroup.id=mirror\n"
PRODUCER = "bootstrap.servers=dst:9092\n"


class Files:
    """Writes the files of one command and translates it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def command(self, consumer: str = CONSUMER, producer: str = PRODUCER, **options: object) -> MirrorMaker1:
        names = []
        for name, text in (("consumer.config", consumer), ("producer.config", producer)):
            (self.directory / name).write_text(text)
            names.append(str(self.directory / name))
        command = MirrorMaker1((names[0],), names[1], include=".*")
        return replace(command, **options)  # type: ignore[arg-type]

    def translate(self, consumer: str = CONSUMER, producer: str = PRODUCER, **options: object) -> MirrorConfig:
        return translate_mm1(self.command(consumer, producer, **options))

    def refusal(self, consumer: str = CONSUMER, producer: str = PRODUCER, **options: object) -> str:
        with pytest.raises(ConfigError) as caught:
            self.translate(consumer, producer, **options)
        return str(caught.value).replace(f"{self.directory}/", "")

    def warnings(self, consumer: str = CONSUMER, producer: str = PRODUCER) -> list[str]:
        return [text.replace(f"{self.directory}/", "") for text in self.translate(consumer, producer).warnings]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_two_files_and_a_list_of_topics_are_a_flow_that_keeps_names(files: Files) -> None:
    config = files.translate(include="orders, invoices")
    (flow,) = config.flows
    assert config.warnings == ()
    assert flow.name.target == "target"
    assert (flow.source.bootstrap_servers, flow.target.bootstrap_servers) == ("src1:9092,src2:9092", "dst:9092")
    assert flow.policy == SameNamePolicy(source=flow.name.source)
    assert [topic for topic in ("orders", "invoices", "orders2") if flow.should_replicate(topic)] == [
        "orders",
        "invoices",
    ]
    assert flow.remote_topic("server.heartbeats") == "server.heartbeats"
    assert (flow.progress_group, flow.progress_group_commit_interval_ms) == ("mirror", 60_000)
    assert (flow.tasks_max, flow.connections_per_broker) == (1, 2)
    assert (flow.topic_creation, flow.partitioning, flow.on_send_failure) == ("broker", "key", "fail")
    assert flow.consumer.auto_offset_reset == "latest", "as Java's consumer"
    assert flow.offset_storage_topic == f"mm2-offsets.{flow.name.source}.internal"


def test_workers_read_the_same_flow_from_the_text(files: Files) -> None:
    secret = 'sasl.jaas.config=x.PlainLoginModule required username="u" password="ü\\\\n;";\n'
    config = files.translate(CONSUMER + secret, include=r"a\d+")
    again = parse_config(parse_properties(config.text.encode("latin-1")))
    assert again.flows == config.flows
    assert "password" not in repr(config)


def test_the_options_of_the_command_take_effect(files: Files) -> None:
    (flow,) = files.translate(
        streams=4, producers=3, abort_on_send_failure=False, offset_commit_interval_ms=5000, include="x"
    ).flows
    assert (flow.tasks_max, flow.connections_per_broker, flow.on_send_failure) == (4, 3, "retry")
    assert flow.progress_group_commit_interval_ms == 5000


def test_a_blacklist_mirrors_all_else_but_what_brokers_and_mirrors_keep_for_themselves(files: Files) -> None:
    (flow,) = files.translate(include=None, exclude="test.*,tmp").flows
    names = ["orders", "test1", "tmp", "__consumer_offsets", "mm2-sparkmirror-status.x.internal", "app.internal"]
    assert [name for name in names if flow.should_replicate(name)] == ["orders", "app.internal"]


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        (".*", (".*",)),
        ("a, b ,c", ("a", "b", "c")),
        ("'a,b'", ("a", "b")),
        ('"a"', ("a",)),
        ("a,,a,", ("a",)),
        ("logs.(a,b)", ("logs.(a", "b)")),
    ],
)
def test_lists_are_read_as_topic_filter_reads_them(text: str, patterns: tuple[str, ...]) -> None:
    assert split_patterns(text) == patterns


def test_a_comma_inside_a_group_is_a_choice_there(files: Files) -> None:
    (flow,) = files.translate(include="logs.(a,b)").flows
    assert [name for name in ("logs.a", "logs.b", "b)") if flow.should_replicate(name)] == ["logs.a", "logs.b"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"include": None}, "neither"),
        ({"exclude": "a"}, "exclude each other"),
        ({"include": "a("}, "not a Java regular expression"),
        ({"include": "  "}, "holds no expression"),
    ],
)
def test_exactly_one_list_of_java_expressions_is_wanted(files: Files, options: dict[str, str], said: str) -> None:
    assert said in files.refusal(**options)


def test_several_consumer_files_are_several_flows_into_one_target(files: Files, tmp_path: Path) -> None:
    command = files.command()
    other = tmp_path / "west.config"
    other.write_text("bootstrap.servers=west:9092\ngroup.id=mirror\nfetch.size=1000000\n")
    config = translate_mm1(replace(command, consumer_files=(*command.consumer_files, str(other))))
    east, west = config.flows
    assert east.name != west.name, "the same group on two clusters keeps two sets of positions"
    assert (east.progress_group, west.progress_group) == ("mirror", "mirror")
    assert west.source.bootstrap_servers == "west:9092"
    assert west.consumer.max_partition_fetch_bytes == 1_000_000
    assert east.consumer.max_partition_fetch_bytes != 1_000_000


def test_the_same_source_twice_is_refused(files: Files, tmp_path: Path) -> None:
    command = files.command()
    again = tmp_path / "again.config"
    again.write_text("bootstrap.servers=SRC2:9092, src1:9092\ngroup.id=mirror\n")
    with pytest.raises(ConfigError, match="same group as"):
        translate_mm1(replace(command, consumer_files=(*command.consumer_files, str(again))))


def test_an_alias_is_legal_in_topic_names_and_the_same_whatever_the_order_of_the_addresses() -> None:
    assert source_alias("Größe/1", "a:1, B:2") == source_alias("Größe/1", "b:2,a:1")
    assert source_alias("g", "a:1") != source_alias("h", "a:1")
    assert source_alias("Größe/1.x", "a:1").startswith("Gr__e_1_x-")


def test_names_of_kafka_0_7_and_0_8_are_understood(files: Files) -> None:
    consumer = (
        "groupid=mirror\nbootstrap.servers=src:9092\nzk.connect=zk:2181\nsocket.buffersize=2097152\n"
        "fetch.size=3145728\nautooffset.reset=smallest\nshallowiterator.enable=true\nzk.sessiontimeout.ms=6000\n"
    )
    producer = (
        "broker.list=0:dst0:9092,1:dst1:9092\ncompression.codec=2\nqueue.enqueueTimeout.ms=-1\nbatch.size=200\n"
        "max.message.size=2000000\nproducer.type=async\nserializer.class=kafka.serializer.DefaultEncoder\n"
    )
    (flow,) = files.translate(consumer, producer).flows
    assert flow.progress_group == "mirror"
    assert flow.consumer.receive_buffer_bytes == 2 << 20
    assert flow.consumer.max_partition_fetch_bytes == 3 << 20
    assert flow.consumer.auto_offset_reset == "earliest"
    assert flow.target.bootstrap_servers == "dst0:9092,dst1:9092"
    warnings = files.warnings(consumer, producer)
    assert warnings[0].startswith("consumer.config:3: `zk.connect` has no effect: brokers are asked")
    assert "`shallowiterator.enable = true`: has no effect: the producer asks for snappy" in warnings[1]
    assert "`fetch.size` as `max.partition.fetch.bytes`" in warnings[2]
    assert any("never drops a record" in text for text in warnings)
    assert any(
        "`max.message.size` has no effect: the target's topic says how large a record" in text for text in warnings
    )
    assert any("`batch.size` has no effect: it counted messages in Kafka 0.7" in text for text in warnings)


def test_a_file_for_zookeeper_alone_says_what_to_add(files: Files) -> None:
    said = files.refusal("zookeeper.connect=zk:2181\ngroup.id=m\n")
    assert said.startswith("consumer.config:1: `zookeeper.connect` is not enough")
    assert "bootstrap.servers=broker1:9092" in said


def test_serialisers_and_assignors_are_tolerated(files: Files) -> None:
    consumer = CONSUMER + (
        "key.deserializer=org.apache.kafka.common.serialization.ByteArrayDeserializer\n"
        "value.deserializer=org.apache.kafka.common.serialization.StringDeserializer\n"
        "partition.assignment.strategy=org.apache.kafka.clients.consumer.RoundRobinAssignor\n"
        "session.timeout.ms=30000\nenable.auto.commit=false\n"
    )
    assert files.warnings(consumer) == [
        "consumer.config:4: `value.deserializer` has no effect: records are moved as bytes and are never deserialised",
        "consumer.config:6: `session.timeout.ms` has no effect: there is no consumer group to keep alive: Spark's "
        "tasks share the partitions, and `group.id` holds progress",
    ]


def test_what_would_have_changed_the_mirror_and_cannot_is_explained(files: Files) -> None:
    consumer = CONSUMER + "exclude.internal.topics=false\nauto.commit.enable=true\n"
    producer = PRODUCER + "partitioner.class=com.example.ByCountry\n"
    internal, commit, partitioner = files.warnings(consumer, producer)
    assert (
        internal
        == "consumer.config:3: `exclude.internal.topics` has no effect: the brokers' own topics are never mirrored"
    )
    assert commit.startswith("consumer.config:4: `auto.commit.enable` has no effect: progress is committed every")
    assert partitioner.startswith("producer.config:2: `partitioner.class` has no effect: records keep their partition")
    assert files.warnings(CONSUMER + "exclude.internal.topics=true\n") == []


def test_a_slip_of_the_pen_is_named_with_its_line(files: Files) -> None:
    assert files.warnings(CONSUMER + "fetch.max.byte=1\n") == [
        "consumer.config:3: `fetch.max.byte` is not a known setting and has no effect; did you mean `fetch.max.bytes`?"
    ]


def test_an_old_name_beside_its_new_one_gives_way(files: Files) -> None:
    consumer = CONSUMER + "fetch.size=1\nmax.partition.fetch.bytes=5000\n"
    (flow,) = files.translate(consumer).flows
    assert flow.consumer.max_partition_fetch_bytes == 5000
    assert "`fetch.size` has no effect beside" in files.warnings(consumer)[0]


def test_all_problems_of_both_files_are_reported_at_once_with_their_lines(files: Files) -> None:
    said = files.refusal("bootstrap.servers=src\nfetch.size=big\n", "request.timeout.ms=0\n", include=None)
    for part in (
        "6 reasons",
        "consumer.config:1: `bootstrap.servers = src` must list `host:port`",
        "consumer.config:2: `fetch.size = big` must be a whole number",
        "consumer.config: `group.id` is missing",
        "producer.config:1: `request.timeout.ms = 0`",
        "producer.config: `bootstrap.servers` is missing",
        "the command line: neither",
    ):
        assert part in said


def test_source_and_target_must_differ(files: Files) -> None:
    assert "same cluster: both files name dst:9092" in files.refusal("bootstrap.servers=a:1, DST:9092\ngroup.id=g\n")


def test_config_providers_and_inline_comments_are_understood_as_everywhere(files: Files) -> None:
    secrets = files.directory / "secrets.properties"
    secrets.write_text("servers=src:9092\n")
    consumer = (
        "config.providers=file\n"
        "config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
        f"bootstrap.servers=${{file:{secrets}:servers}}\n"
        "group.id=mirror # of the east\n"
    )
    (flow,) = files.translate(consumer).flows
    assert (flow.source.bootstrap_servers, flow.progress_group) == ("src:9092", "mirror")
    assert len(files.warnings(consumer)) == 1, "the comment is told, nothing else"


def test_a_log_in_that_lacks_something_is_reported_with_the_line_of_its_own_file(files: Files) -> None:
    with pytest.raises(ConfigError, match=r"consumer.*:\d+: cluster `source`: sasl.jaas.config is missing"):
        files.translate(CONSUMER + "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n")


def test_security_reaches_the_right_cluster(files: Files) -> None:
    security = (
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nssl.truststore.type=PEM\n"
        'sasl.jaas.config=x.PlainLoginModule required username="u" password="p";\n'
    )
    (flow,) = files.translate(CONSUMER + security).flows
    assert flow.source.client["security.protocol"] == "SASL_SSL"
    assert "security.protocol" not in flow.target.client


def test_a_star_alone_stands_for_all_topics_as_in_the_manual(files: Files) -> None:
    assert split_patterns("*") == split_patterns("'*'") == (".*",)
    (flow,) = files.translate(include="*").flows
    assert flow.should_replicate("orders")


def test_what_looks_like_a_shells_wildcard_is_explained(files: Files) -> None:
    (note,) = files.translate(include="orders*").warnings
    assert "it matches order, orders, orderss and so on; all topics that begin with orders are `orders.*`" in note
    assert "`.*` stands for any text, where a shell has `*`" in files.refusal(include="*.orders")


def test_the_page_and_the_log_can_be_set_in_either_file(files: Files) -> None:
    config = files.translate(CONSUMER + "status.listen=localhost:8080\n", PRODUCER + "log.format=json\n")
    assert (str(config.status.listen), config.status.log_format, config.warnings) == ("localhost:8080", "json", ())
    assert "status.listen=" in config.text


SHALLOW = CONSUMER + "shallowiterator.enable=true\n"


@pytest.mark.parametrize("none", ["compression.codec=0", "compression.codec=none", "compression.type=none"])
def test_without_a_codec_compressed_sets_are_unpacked_unless_iteration_is_shallow(files: Files, none: str) -> None:
    producer = f"{PRODUCER}{none}\n"
    (flow,) = files.translate(CONSUMER, producer).flows
    assert flow.producer.compression_type == "none"
    said, *_ = files.warnings(CONSUMER, producer)
    key = none.partition("=")[0]
    assert said.startswith(f"producer.config:2: `{key} = none`: compressed sets of ")
    assert "consumer.config are unpacked, as by MirrorMaker 1; without this line, or with" in said
    (flow,) = files.translate(SHALLOW, producer).flows
    assert flow.producer.compression_type == "source"
    said, *_ = files.warnings(SHALLOW, producer)
    assert said == "consumer.config:3: `shallowiterator.enable = true`: compressed sets stay as they are"


def test_shallow_iteration_is_reported_beside_every_other_codec(files: Files) -> None:
    (flow,) = files.translate(SHALLOW).flows
    assert flow.producer.compression_type == "source"
    (said,) = files.warnings(SHALLOW, PRODUCER + "compression.type=lz4\n")
    assert "has no effect: the producer asks for lz4" in said
    (said,) = files.warnings(CONSUMER + "shallowiterator.enable=false\n")
    assert "whether sets are unpacked, `compression.type` of the producer says" in said


def test_one_of_two_sources_may_be_read_shallow(files: Files, tmp_path: Path) -> None:
    command = files.command(SHALLOW, PRODUCER + "compression.codec=0\n")
    other = tmp_path / "west.config"
    other.write_text("bootstrap.servers=west:9092\ngroup.id=mirror\n")
    config = translate_mm1(replace(command, consumer_files=(*command.consumer_files, str(other))))
    assert [flow.producer.compression_type for flow in config.flows] == ["source", "none"]
    said = "\n".join(config.warnings)
    assert f"compressed sets of {other} are unpacked" in said and "compressed sets stay as they are" in said


def test_security_that_has_no_effect_is_named(files: Files) -> None:
    (said,) = files.warnings(CONSUMER + "ssl.protocol=TLSv1.2\nsasl.kerberos.kinit.cmd=/bin/kinit\n")
    assert said == "consumer.config: no effect here: `ssl.protocol`, `sasl.kerberos.kinit.cmd`"


def test_old_names_become_those_of_today(files: Files) -> None:
    consumer = CONSUMER + "socket.timeout.ms=4000\nfetch.wait.max.ms=70\n"
    producer = PRODUCER + "queue.buffering.max.ms=30\nclientid=w\nbuffer.size=9000\nsocket.timeout.ms=5000\n"
    producer += "topic.metadata.refresh.interval.ms=60000\n"
    (flow,) = files.translate(consumer, producer).flows
    assert (flow.consumer.request_timeout_ms, flow.consumer.fetch_max_wait_ms) == (4000, 70)
    assert (flow.producer.linger_ms, flow.producer.client_id) == (30, "w")
    assert (flow.producer.send_buffer_bytes, flow.producer.request_timeout_ms) == (9000, 5000)
    assert flow.producer.metadata_max_age_ms == 60000


def test_an_interval_that_asks_only_after_failures_is_explained(files: Files) -> None:
    (said,) = files.warnings(producer=PRODUCER + "topic.metadata.refresh.interval.ms=-1\n")
    assert "`topic.metadata.refresh.interval.ms` has no effect: leaders are also looked up" in said


DOCUMENTED_CONSUMER = """
    groupid socket.timeout.ms socket.buffersize fetch.size backoff.increment.ms queuedchunks.max autocommit.enable
    autocommit.interval.ms autooffset.reset consumer.timeout.ms rebalance.retries.max mirror.topics.whitelist
    mirror.topics.blacklist mirror.consumer.numthreads shallowiterator.enable zk.connect zk.connectiontimeout.ms
    zk.sessiontimeout.ms zk.synctime.ms clientid consumerid fetcher.backoff.ms rebalance.backoff.ms
    zookeeper.connect consumer.id socket.receive.buffer.bytes fetch.message.max.bytes num.consumer.fetchers
    auto.commit.enable auto.commit.interval.ms queued.max.message.chunks rebalance.max.retries fetch.min.bytes
    fetch.wait.max.ms refresh.leader.backoff.ms auto.offset.reset exclude.internal.topics
    partition.assignment.strategy client.id zookeeper.session.timeout.ms zookeeper.connection.timeout.ms
    zookeeper.sync.time.ms offsets.storage offsets.channel.backoff.ms offsets.channel.socket.timeout.ms
    offsets.commit.max.retries dual.commit.enabled heartbeat.interval.ms max.partition.fetch.bytes session.timeout.ms
    ssl.key.password ssl.keystore.location ssl.truststore.location connections.max.idle.ms enable.auto.commit
    fetch.max.bytes max.poll.interval.ms max.poll.records receive.buffer.bytes request.timeout.ms
    sasl.kerberos.service.name sasl.mechanism security.protocol send.buffer.bytes ssl.enabled.protocols check.crcs
    fetch.max.wait.ms interceptor.classes metadata.max.age.ms metric.reporters metrics.num.samples
    metrics.recording.level metrics.sample.window.ms reconnect.backoff.max.ms reconnect.backoff.ms retry.backoff.ms
    sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin ssl.cipher.suites isolation.level
    ssl.endpoint.identification.algorithm ssl.secure.random.implementation default.api.timeout.ms client.dns.lookup
    group.instance.id allow.auto.create.topics client.rack security.providers key.deserializer value.deserializer
    socket.connection.setup.timeout.ms
"""
DOCUMENTED_PRODUCER = """
    broker.list zk.connect buffer.size connect.timeout.ms socket.timeout.ms reconnect.interval
    reconnect.time.interval.ms max.message.size compression.codec compressed.topics zk.read.num.retries queue.time
    queue.size batch.size serializer.class callback.handler callback.handler.props event.handler event.handler.props
    partitioner.class producer.type queue.enqueueTimeout.ms num.retries
    metadata.broker.list request.required.acks request.timeout.ms key.serializer.class message.send.max.retries
    retry.backoff.ms topic.metadata.refresh.interval.ms queue.buffering.max.ms queue.buffering.max.messages
    queue.enqueue.timeout.ms batch.num.messages send.buffer.bytes client.id
    acks buffer.memory compression.type retries linger.ms max.request.size receive.buffer.bytes timeout.ms
    block.on.buffer.full metadata.fetch.timeout.ms metadata.max.age.ms metric.reporters metrics.num.samples
    metrics.sample.window.ms reconnect.backoff.ms key.serializer value.serializer ssl.key.password
    connections.max.idle.ms max.block.ms sasl.mechanism security.protocol interceptor.classes
    max.in.flight.requests.per.connection enable.idempotence transaction.timeout.ms transactional.id
    delivery.timeout.ms client.dns.lookup security.providers metadata.max.idle.ms partitioner.ignore.keys
    partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms
"""


def test_every_documented_key_is_known(files: Files) -> None:
    """Of Kafka's manuals 0.7, 0.8 and on: what the consumer and the producer of a MirrorMaker 1 could be given."""
    consumer = CONSUMER.replace("group.id", "groupid") + _lines(DOCUMENTED_CONSUMER, "groupid")
    producer = PRODUCER + _lines(DOCUMENTED_PRODUCER)
    said: list[str] = []
    for client, dialect, scope in (
        (consumer, mm1_names.CONSUMER, Scope.CONSUMER),
        (producer, mm1_names.PRODUCER, Scope.PRODUCER),
    ):
        file = files.directory / "any.config"
        file.write_text(client)
        read = mm1._read_client(str(file), dialect, scope)
        said += map(str, [*read.problems.warnings(), *read.notes])
    assert [text for text in said if "not a known setting" in text] == []


def _lines(names: str, *but: str) -> str:
    return "".join(f"{name}=1\n" for name in names.split() if name not in but)
