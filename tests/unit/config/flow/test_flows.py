"""Files become flows: precedence in effect, filters of the command line, every problem at once with its line."""

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkmirror.config.flow.flows import FlowConfig, MirrorConfig, load_config, parse_config
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.config.precedence import connector_properties
from sparkmirror.errors import ConfigError
from sparkmirror.model import FlowName
from sparkmirror.policy.naming import DefaultReplicationPolicy, IdentityReplicationPolicy

BASE = """\
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
"""
SMALLEST = BASE + "A->B.enabled = true\n"
BOTH = SMALLEST + "B->A.enabled = true\n"
KEEP_NAMES = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"


def parse(text: str, targets: tuple[str, ...] = (), flows: tuple[str, ...] = ()) -> MirrorConfig:
    return parse_config(parse_properties(text.encode(), "mm2"), targets, flows)


def flow_of(lines: str) -> FlowConfig:
    (flow,) = parse(SMALLEST + lines).flows
    return flow


def names(config: MirrorConfig) -> list[str]:
    return [str(flow.name) for flow in config.flows]


def test_preparing_for_exactly_once_is_accepted_and_changes_nothing() -> None:
    """Predecessors are fenced in any case, so there is nothing to prepare."""
    config = parse(SMALLEST + "B.exactly.once.source.support = preparing\n")
    (flow,) = config.flows
    assert (flow.exactly_once_source_support, flow.is_exactly_once, config.warnings) == ("preparing", False, ())


def test_the_smallest_file_gives_one_flow_with_the_documented_defaults() -> None:
    config = parse(SMALLEST)
    (flow,) = config.flows
    assert (names(config), config.warnings, config.file) == (["A->B"], (), "mm2")
    assert flow.source.bootstrap_servers == "a:1"
    assert flow.target.bootstrap_servers == "b:1"
    assert flow.policy == DefaultReplicationPolicy()
    assert flow.remote_topic("orders") == "A.orders"
    assert flow.topics.exclude == (r"mm2.*\.internal", r".*\.replica", "__.*")
    assert (flow.tasks_max, flow.replication_factor) == (1, 2)
    assert (flow.refresh_topics_interval_seconds, flow.look_seconds, flow.offset_flush_interval_ms) == (600, 2.0, 1000)
    assert (flow.offset_storage_topic, flow.offset_storage_partitions) == ("mm2-offsets.A.internal", 25)
    assert (flow.epoch_seconds, flow.lease_ring_bytes, flow.connections_per_broker) == (600, 33554432, 2)
    assert (flow.on_data_loss.action, flow.exactly_once_source_support) == ("continue", "disabled")


@pytest.mark.parametrize(
    ("lines", "read", "value"),
    [
        ("topics = a\n", lambda flow: flow.topics.include, ("a",)),
        ("topics = a\nA->B.topics = b\n", lambda flow: flow.topics.include, ("b",)),
        ("A->B.topics = b\ntopics = a\n", lambda flow: flow.topics.include, ("b",)),
        ("B->A.topics = c\n", lambda flow: flow.topics.include, (".*",)),
        ("topics =\n", lambda flow: flow.topics.include, ()),
        ("topics.exclude =\n", lambda flow: flow.topics.exclude, ()),
        (r"topics = a\\.b" + "\n", lambda flow: flow.topics.include, (r"a\.b",)),
        ("heartbeats.replication.enabled = false\n", lambda flow: flow.topics.heartbeats, False),
        ("tasks.max = 4\nA.tasks.max = 5\n", lambda flow: flow.tasks_max, 4),
        ("replication.factor = -1\n", lambda flow: flow.replication_factor, -1),
        ("replication.policy.separator = _\n", lambda flow: flow.remote_topic("x"), "A_x"),
        (
            "replication.policy.separator = _\nreplication.policy.internal.topic.separator.enabled = false\n",
            lambda flow: flow.policy.checkpoints_topic("A"),
            "A.checkpoints.internal",
        ),
        (KEEP_NAMES, lambda flow: flow.policy, IdentityReplicationPolicy(source="A")),
        ("offset.storage.topic = t\nB.offset.storage.topic = u\n", lambda flow: flow.offset_storage_topic, "t"),
        ("B.offset.storage.topic = u\n", lambda flow: flow.offset_storage_topic, "u"),
        ("A.offset.storage.topic = u\n", lambda flow: flow.offset_storage_topic, "mm2-offsets.A.internal"),
        ("B.offset.flush.interval.ms = 7\n", lambda flow: flow.offset_flush_interval_ms, 7),
        ("offset.flush.interval.ms = 7\n", lambda flow: flow.offset_flush_interval_ms, 1000),
        ("A->B.offset.flush.interval.ms = 7\n", lambda flow: flow.offset_flush_interval_ms, 1000),
        ("exactly.once.source.support = enabled\n", lambda flow: flow.exactly_once_source_support, "disabled"),
        ("A.consumer.isolation.level = read_committed\n", lambda flow: flow.consumer.isolation_level, "read_committed"),
        ("A->B.consumer.client.rack = r\n", lambda flow: flow.consumer.client_rack, "r"),
        ("A->B.consumer.client.rack = r\nA.consumer.client.rack = s\n", lambda flow: flow.consumer.client_rack, "s"),
        ("consumer.client.rack = r\n", lambda flow: flow.consumer.client_rack, ""),
        ("B.producer.batch.size = 9\n", lambda flow: flow.producer.batch_size_bytes, 9),
        ("A.consumer.fetch.max.bytes = 9\n", lambda flow: flow.fetch_bytes_max, 9),
        ("lease.ring.bytes = 16777216\n", lambda flow: flow.fetch_bytes_max, 4 << 20),
        ("lease.ring.bytes = 0\n", lambda flow: flow.fetch_bytes_max, 1 << 20),
        ("A->B.sync.group.offsets = true\n", lambda flow: flow.offsets.sync_groups, True),
        (
            "A->B.sync.group.offsets = true\nA->B.sync.group.offsets.enabled = false\n",
            lambda f: f.offsets.sync_groups,
            False,
        ),
        ("refresh.topics = false\n", lambda flow: flow.refresh_topics_enabled, False),
        ("A->B.producer.override.client.id = w\n", lambda flow: flow.producer.client_id, "w"),
        ("A->B.producer.client.id = w\n", lambda flow: flow.producer.client_id, ""),
        ("B.producer.buffer.memory = 67108864\n", lambda flow: flow.lease_ring_bytes, 64 << 20),
        ("B.producer.buffer.memory = 9\n", lambda flow: flow.lease_ring_bytes, 1 << 20),
        ("B.producer.buffer.memory = 9\nlease.ring.bytes = 0\n", lambda flow: flow.lease_ring_bytes, 0),
        ("security.protocol = ssl\n", lambda flow: flow.target.client["security.protocol"], "ssl"),
        ("A.consumer.sasl.mechanism = PLAIN\n", lambda flow: flow.source.client["sasl.mechanism"], "PLAIN"),
        ("A.ssl.protocol = TLSv1.2 \n", lambda flow: flow.source.client["ssl.protocol"], "TLSv1.2"),
        (
            "epoch.seconds = 3\nA->B.on.data.loss = FAIL\n",
            lambda flow: (flow.epoch_seconds, flow.on_data_loss.action),
            (3, "fail"),
        ),
    ],
)
def test_the_most_specific_line_of_a_setting_counts(
    lines: str, read: Callable[[FlowConfig], object], value: object
) -> None:
    assert read(flow_of(lines)) == value


@pytest.mark.parametrize(
    ("switches", "enabled"),
    [
        ("A->B.enabled = true", ["A->B"]),
        ("A->B.enabled = TRUE", ["A->B"]),
        ("A->B.enabled = true\nB->A.enabled = yes", ["A->B"]),
        ("A->B.enabled = true\nB->A.enabled = false", ["A->B"]),
        ("A->B.enabled = true\nB->A.enabled = true", ["A->B", "B->A"]),
        ("enabled = true", ["A->B", "B->A"]),
        ("enabled = true\nB->A.enabled = false", ["A->B"]),
        ("enabled = true\nB->A.emit.heartbeats.enabled = false", ["A->B"]),
        ("enabled = true\nemit.heartbeats.enabled = false\nA->B.enabled = true", ["A->B"]),
    ],
)
def test_which_flows_mirror_data(switches: str, enabled: list[str]) -> None:
    assert names(parse(BASE + switches + "\n")) == enabled


@pytest.mark.parametrize(
    ("targets", "flows", "kept"),
    [
        (("B",), (), ["A->B"]),
        (("A", "B"), (), ["A->B", "B->A"]),
        ((), ("B->A",), ["B->A"]),
        (("A",), ("B->A",), ["B->A"]),
    ],
)
def test_the_command_line_keeps_some_flows(targets: tuple[str, ...], flows: tuple[str, ...], kept: list[str]) -> None:
    assert names(parse(BOTH, targets, flows)) == kept


@pytest.mark.parametrize(
    ("text", "targets", "beating"),
    [
        (BASE, (), ["A->B", "B->A"]),
        (BASE + "A->B.enabled = true\n", ("A",), ["B->A"]),
        (BASE + "B->A.emit.heartbeats.enabled = false\n", (), ["A->B"]),
    ],
)
def test_a_process_may_have_heartbeats_to_write_only(text: str, targets: tuple[str, ...], beating: list[str]) -> None:
    properties = parse_properties(text.encode(), "mm2")
    with pytest.raises(ConfigError, match=r"no flow is enabled|no enabled flow is left"):
        parse_config(properties, targets)
    config = parse_config(properties, targets, heartbeats_suffice=True)
    assert not config.flows
    assert [str(beat.flow) for beat in config.heartbeats] == beating
    assert f"only the heartbeats of {', '.join(beating)} are written" in config.warnings[-1]


def test_neither_a_flow_nor_heartbeats_is_an_error() -> None:
    properties = parse_properties((BASE + "emit.heartbeats.enabled = false\n").encode(), "mm2")
    with pytest.raises(ConfigError, match="there is nothing to mirror"):
        parse_config(properties, heartbeats_suffice=True)


@pytest.mark.parametrize(
    ("targets", "flows", "message"),
    [
        (("C",), (), "`clusters` does not list it"),
        ((), ("A->C",), "there is no such enabled flow"),
        (("B",), ("B->A",), "no enabled flow is left"),
    ],
)
def test_the_command_line_may_not_ask_for_what_is_not_there(
    targets: tuple[str, ...], flows: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(BOTH, targets, flows)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "mm2: `clusters` is missing"),
        ("clusters =\n", "mm2:1: `clusters` is empty"),
        ("clusters = A,,B\n", "mm2:1: `clusters = A,,B` has an empty item"),
        ("clusters = A, A\n", "`clusters` lists one cluster; a mirror needs two"),
        ("clusters = A\nA.bootstrap.servers = a:1\n", "mm2:1: `clusters` lists one cluster"),
        (
            "clusters = A, B\nA.bootstrap.servers = a:1\nA->B.enabled=true\n",
            "mm2:1: the cluster `B` has no `bootstrap.servers`",
        ),
        (BASE, "mm2:1: no flow is enabled.*\n.*add the line `A->B.enabled = true`"),
        (BASE + "A->B.enabled = yes\n", "add the line `A->B.enabled = true`"),
        (SMALLEST + "tasks.max = x\n", "mm2:5: `tasks.max = x` must be a whole number"),
        (SMALLEST + "topics = a{1,2}\n", r"mm2:5: `topics = a\{1,2\}` is not usable: `a\{1`"),
        (SMALLEST + "A->B.topics.exclude = (\n", "mm2:5: `A->B.topics.exclude = .` is not usable"),
        (SMALLEST + "transforms = a, a\n", "mm2:5: `transforms = a, a` names `a` twice"),
        (SMALLEST + "A.security.protocol = TLS\n", "mm2:5: `A.security.protocol = TLS` must be `PLAINTEXT`"),
        (SMALLEST + "B.bootstrap.servers = b\n", "mm2:5: `B.bootstrap.servers = b` must list `host:port`"),
        (SMALLEST + "B.exactly.once.source.support = on\n", "must be `disabled` or `preparing` or `enabled`"),
        (
            SMALLEST + "A->B.transaction.boundary = connector\n",
            "`A->B.transaction.boundary = connector` must be `poll`",
        ),
        (
            SMALLEST + "replication.policy.class = com.x.Mine\n",
            "names a Java class, and nothing says where it is",
        ),
        (SMALLEST + "transforms = t\n", "mm2:5: `transforms` lists `t`, which has no `transforms.t.type`"),
        (
            SMALLEST + "A->B.transforms.t.type = x\n",
            "`A->B.transforms.t.type` belongs to nothing that `transforms` lists",
        ),
        (
            SMALLEST + "topic.filter.class = com.x.Mine\n",
            "names a Java class, and nothing says where it is",
        ),
        (BOTH + KEEP_NAMES, "mm2:6: the flows A->B, B->A would copy the same topics round and round"),
        (BOTH + f"A->B.{KEEP_NAMES}", "would copy the same topics round and round"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(text)


def test_identity_naming_both_ways_is_fine_for_topics_that_share_nothing() -> None:
    assert len(parse(BOTH + KEEP_NAMES + "A->B.topics = eu-.*\nB->A.topics = us-.*\n").flows) == 2


def test_the_default_filter_class_may_be_named() -> None:
    line = "topic.filter.class = org.apache.kafka.connect.mirror.DefaultTopicFilter\n"
    assert names(parse(SMALLEST + line)) == ["A->B"]


def test_all_problems_are_reported_at_once_by_line() -> None:
    text = "clusters = A, B\ntasks.max = 0\nA.bootstrap.servers = a\nreplication.factor = x\nA->B.enabled = true\n"
    with pytest.raises(ConfigError) as caught:
        parse(text)
    lines = [line for line in str(caught.value).splitlines() if line.startswith("- ")]
    assert str(caught.value).startswith("mm2 has 4 problems:")
    assert [line.split(" ")[1] for line in lines] == ["mm2:1:", "mm2:2:", "mm2:3:", "mm2:4:"]


def test_a_single_problem_carries_key_line_and_file() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(SMALLEST + "A->B.tasks.max = 0\n")
    assert (caught.value.key, caught.value.line, caught.value.file) == ("A->B.tasks.max", 5, "mm2")


def test_aliases_may_hold_dots_and_stay_apart() -> None:
    config = parse(
        "clusters = us, us.west\nus.bootstrap.servers = u:1\nus.west.bootstrap.servers = w:1\n"
        "us->us.west.enabled = true\nus.west.producer.client.id = r\n"
    )
    assert names(config) == ["us->us.west"]
    assert config.warnings == ()
    assert config.clusters["us.west"].bootstrap_servers == "w:1"


def test_the_top_level_serves_every_cluster_without_its_own_address() -> None:
    config = parse("clusters = A, B\nbootstrap.servers = x:1\nA.bootstrap.servers = a:1\nA->B.enabled = true\n")
    assert {alias: cluster.bootstrap_servers for alias, cluster in config.clusters.items()} == {"A": "a:1", "B": "x:1"}


def test_no_secret_is_in_the_repr_of_a_configuration() -> None:
    config = parse(SMALLEST + "A.ssl.key.password = hunter2\nsasl.jaas.config = hunter2\n")
    assert config.flows[0].source.client["ssl.key.password"] == "hunter2"
    assert "hunter2" not in repr(config)


def test_a_flow_travels_to_a_worker() -> None:
    flow = flow_of("topics = orders\n")
    assert pickle.loads(pickle.dumps(flow)) == flow


def test_a_file_is_read_from_disk(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(SMALLEST)
    assert names(load_config(path)) == ["A->B"]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("transforms.where = true", "transforms"),
        ("partitioning = key", "`partitioning = key`"),
        ("B.exactly.once.source.support = enabled", "`exactly.once.source.support = enabled`"),
    ],
)
def test_what_would_move_records_to_other_offsets_is_refused_where_offsets_are_kept(line: str, what: str) -> None:
    assert flow_of("A->B.preserve.offsets.enabled = true").preserves_offsets
    with pytest.raises(ConfigError, match=f"A->B: {what} and `preserve.offsets.enabled = true` do not go together"):
        flow_of(f"preserve.offsets.enabled = true\n{line}")


def test_offsets_of_some_topics_may_be_kept_and_no_others() -> None:
    flow = flow_of("preserve.offsets.enabled = true\npreserve.offsets.topics = orders, audit.x")
    assert [flow.keeps_offsets(topic) for topic in ("orders", "audit.x", "orders2", "heartbeats")] == [
        True, True, False, False,
    ]  # fmt: skip
    some = flow_of("preserve.offsets.enabled = true\npreserve.offsets.topics = orders\npreserve.offsets.adopt = .*")
    assert [some.adopts(topic) for topic in ("orders", "users")] == [True, False]
    whole = flow_of("preserve.offsets.enabled = true")
    assert not whole.adopts("orders"), "only where somebody has said so"
    assert (whole.keeps_offsets("anything"), whole.keeps_offsets(whole.canary_topic)) == (True, False)
    config = parse(SMALLEST + "preserve.offsets.topics = orders")
    assert not config.flows[0].keeps_offsets("orders")
    (warning,) = config.warnings
    assert "`preserve.offsets.topics` has no effect without `preserve.offsets.enabled = true`" in warning


IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
TWO_SOURCES = """clusters = A, B, C
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
C.bootstrap.servers = c:1
A->C.enabled = true
B->C.enabled = true
A->C.preserve.offsets.enabled = true
"""


@pytest.mark.parametrize(
    ("lines", "is_refused"),
    [
        (IDENTITY, True),
        (IDENTITY + "A->C.preserve.offsets.topics = orders", True),
        (IDENTITY + "A->C.topics = orders, users\nB->C.topics = users, logs", True),
        (IDENTITY + "A->C.topics = orders, users\nB->C.topics = users\nA->C.preserve.offsets.topics = orders", False),
        (IDENTITY + "A->C.topics = orders.*\nB->C.topics = users.*", False),
        (IDENTITY + "A->C.preserve.offsets.enabled = false", False),
        ("", False),
    ],
)
def test_two_sources_that_may_meet_in_a_topic_whose_offsets_are_kept_are_refused(lines: str, is_refused: bool) -> None:
    if is_refused:
        with pytest.raises(ConfigError, match="A->C and B->C may mirror topics of one name into one topic of C"):
            parse(TWO_SOURCES + lines)
    else:
        parse(TWO_SOURCES + lines)


def test_an_interval_below_zero_switches_off_as_in_mirror_maker() -> None:
    lines = (
        "refresh.topics.interval.seconds = -1\nsync.topic.configs.interval.seconds = -1\n"
        "A->B.sync.topic.acls.interval.seconds = -5 \nrefresh.groups.interval.seconds = -1\n"
        "A->B.emit.checkpoints.interval.seconds = -1\nsync.group.offsets.enabled = true\n"
        "sync.group.offsets.interval.seconds = -1\n"
    )
    (flow,) = parse_config(parse_properties((SMALLEST + lines).encode(), "mm2")).flows
    assert not flow.refresh_topics_enabled
    assert not flow.sync.configs_enabled
    assert not flow.sync.acls_enabled
    assert not flow.offsets.refresh_groups
    assert not flow.offsets.emit_checkpoints
    assert not flow.offsets.sync_groups
    for value in ("0", "-", "--1"):
        with pytest.raises(ConfigError, match=r"mm2:5: `refresh.topics.interval.seconds = .*` must be a whole number"):
            parse_config(parse_properties(f"{SMALLEST}refresh.topics.interval.seconds = {value}\n".encode(), "mm2"))


def test_a_sharp_in_a_step_is_text_and_no_comment() -> None:
    """It may be what a transformation writes into records, or part of an expression."""
    lines = (
        "A->B.transforms = note\nA->B.transforms.note.type = org.apache.kafka.connect.transforms.InsertHeader\n"
        "A->B.transforms.note.header = h\nA->B.transforms.note.value.literal = order # 5\n"
        "transforms.where = topic <> 'a // b'\ntasks.max = 2 # two\n"
    )
    config = parse_config(parse_properties((SMALLEST + lines).encode(), "mm2"))
    layer = connector_properties(config.lines, FlowName("A", "B"))
    assert layer["transforms.note.value.literal"].value == "order # 5"
    assert layer["transforms.where"].value == "topic <> 'a // b'"
    assert [warning.key for warning in config.warned] == ["tasks.max"]
