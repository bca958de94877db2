"""No line is ignored in silence: each without effect gives a warning that says what to do."""

import re

import pytest

from sparkmirror.config.flow.flows import examine, parse_config
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.config.keys.places import place_of, places_of
from sparkmirror.config.keys.table import KEYS

FILE = """\
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
"""


def warnings(lines: str) -> tuple[str, ...]:
    return parse_config(parse_properties((FILE + lines).encode(), "mm2")).warnings


@pytest.mark.parametrize(
    ("line", "warning"),
    [
        ("topcs = x", "`topcs` is not a known key and has no effect; did you mean `topics`?"),
        ("A->B.topic = x", "did you mean `A->B.topics`?"),
        ("A->B.enable = true", "`A->B.enable` has no effect beside `A->B.enabled`"),
        ("B->A.enable = true", "`B->A.enable` is read as `B->A.enabled`; to MirrorMaker it says nothing"),
        ("A.bootstrap.server = x", "did you mean `A.bootstrap.servers`?"),
        ("A.consumer.client.rak = x", "did you mean `A.consumer.client.rack`?"),
        ("A.ssl.truststore.locations = x", "did you mean `A.ssl.truststore.location`?"),
        ("quite.something.else = x", "`quite.something.else` is not a known key and has no effect"),
        ("C.bootstrap.servers = c:1", "`clusters` does not list `C`"),
        ("A -> B.topics = x", "a blank ends a key, so write `A->B` without blanks"),
        ("A-> B.topics = x", "a blank ends a key, so write `A->B` without blanks"),
        ("A->B = true", "write `A->B.enabled` to turn the flow on"),
        ("B->A.enabled = yes", "`B->A.enabled` is `yes`, which counts as false"),
        ("B->A.enabled = 1", "only `true` turns a flow on"),
        ("enabled = true", "`enabled` at the top level turns on B->A"),
        ("A->B.enabled = true", "`A->B.enabled` is given again on line 5, which counts"),
        ("offset.flush.interval.ms = 1", "has no effect there, as in MirrorMaker; write `T.offset.flush.interval.ms`"),
        ("A->B.offset.flush.interval.ms = 1", "write `T.offset.flush.interval.ms`"),
        ("exactly.once.source.support = enabled", "write `T.exactly.once.source.support`"),
        ("consumer.fetch.min.bytes = 1", "write `S.consumer.fetch.min.bytes` or `S->T.consumer.fetch.min.bytes`"),
        ("A.fetch.min.bytes = 1", "write `S.consumer.fetch.min.bytes`"),
        ("producer.linger.ms = 1", "write `T.producer.linger.ms`"),
        ("A->B.producer.linger.ms = 1", "or `S->T.producer.override.linger.ms`"),
        ("B.producer.max.request.size = 1", "has no effect: a request takes what waits, up to 8 MiB"),
        ("A.consumer.send.buffer.bytes = 1", "has no effect: only requests, or their answers, go that way"),
        ("A->B.admin.client.id = x", "`X.admin.client.id`"),
        ("consumer.ssl.keystore.type = PEM", "write `X.ssl.keystore.type` or `ssl.keystore.type`"),
        ("B.replication.factor = 1", "write `replication.factor` or `S->T.replication.factor`"),
        ("A.topics = x", "write `topics` or `S->T.topics`"),
        ("A.refresh.topics.enabled = true", "write `refresh.topics.enabled` or `S->T.refresh.topics.enabled`"),
        ("A->B.clusters = x", "write `clusters`"),
        ("use.defaults.from = source", "has no effect there, as in MirrorMaker; write `S->T.use.defaults.from`"),
        ("A->C.topics = x", "`A->C.topics` has no effect: `clusters` does not list `C`"),
        ("A->b.topics.exclude = x", "`A->b.topics.exclude` is read as `A->B.topics.exclude`"),
        ("a->b.topics.exclude = x", "`a->b.topics.exclude` is read as `A->B.topics.exclude`"),
        ("a.bootstrap.servers = a:1", "`a.bootstrap.servers` has no effect beside `A.bootstrap.servers`"),
        ("a.consumer.client.rack = r", "`a.consumer.client.rack` is read as `A.consumer.client.rack`"),
        ("A.brokers.list = a:1", "write `bootstrap.servers`"),
        ("A.ssl.enabled.protocols = TLSv1.3 // why", "`// why` is left out of `A.ssl.enabled.protocols = TLSv1.3`"),
        ("A->C.errors.tolerance = all", "has no effect: `clusters` does not list `C`"),
        ("A->A.enabled = true", "the flow leads from a cluster to itself"),
        ("topics.blacklist = x", "MirrorMaker has not known it since 4.0; write `topics.exclude`"),
        ("A->B.emit.heartbeats = false", "`A->B.emit.heartbeats` is read as `A->B.emit.heartbeats.enabled`"),
        ("emit.checkpoints = true", "`emit.checkpoints` is read as `emit.checkpoints.enabled`; to MirrorMaker"),
        ("A.refresh.groups = true", "`A.refresh.groups` has no effect: write `refresh.groups.enabled`"),
        ("use.incremental.alter.configs = never", "nothing takes its place"),
        ("topics = foo.* # only these", "`# only these` is left out of `topics = foo.*`"),
        ("A->B.tasks.max = 2\t# two", "`# two` is left out of `A->B.tasks.max = 2`"),
        ("B.offset.flush.timeout.ms = 1", "has no effect: there is no Kafka Connect worker"),
        ("B.exactly.once.source.support = enabled", "copies records of aborted transactions of A too"),
        ("A->B.preserve.offsets.enabled = true", "copies records of aborted transactions of A too"),
        ("session.timeout.ms = 1", "has no effect there, as in MirrorMaker; write `T.session.timeout.ms`"),
        ("A.consumer.session.timeout.ms = 1", "the reader joins no consumer group"),
        ("A->B.consumer.max.poll.records = 1", "records are not polled"),
        ("B.producer.retries = 1", "what can be retried is retried until it succeeds"),
        ("A.admin.retries = 1", "what can be retried is retried until it succeeds"),
        ("A->B.topic.creation.default.partitions = 1", "created with the source's settings"),
        ("key.converter = x", "keys and values are copied as they are"),
        ("listeners = http://:8080", "processes find each other through Kafka"),
    ],
)
def test_a_line_without_effect_is_named(line: str, warning: str) -> None:
    (said,) = warnings(f"{line}\n")
    assert said.startswith(("mm2:5: ", "mm2:4: "))
    assert warning in said


CHAIN = (
    "clusters = A, B, C", "C.bootstrap.servers = c:1", "B->C.enabled = true", "A->B.preserve.offsets.enabled = true",
    "A.consumer.isolation.level = read_committed",
)  # fmt: skip
ABORTED = "A->B.preserve.offsets.filler = aborted"
KEEPS_NAMES = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def named_copiers(*lines: str) -> list[str]:
    """The flows that are said to copy the empty records of A->B."""
    said = warnings("\n".join((*CHAIN, *lines)))
    return [re.findall(r"(\S+) reads uncommitted records", one)[0] for one in said if "A->B fills holes" in one]


@pytest.mark.parametrize(
    ("lines", "is_named"),
    [
        ((ABORTED,), True),
        ((ABORTED, "B.consumer.isolation.level = read_committed"), False),
        (("A->B.preserve.offsets.filler = markers",), False),
        ((ABORTED, "A->B.topics = orders", "B->C.topics = payments"), False),
        ((ABORTED, "A->B.topics = orders", "B->C.topics = A\\\\.orders"), True),
        ((ABORTED, "A->B.topics = orders", "B->C.topics = orders"), False),
        ((ABORTED, KEEPS_NAMES, "A->B.topics = orders", "B->C.topics = orders"), True),
        ((ABORTED, KEEPS_NAMES, "A->B.preserve.offsets.topics = orders", "B->C.topics = payments"), False),
        ((ABORTED, KEEPS_NAMES, "A->B.preserve.offsets.topics = orders", "B->C.topics = orders"), True),
        ((ABORTED, KEEPS_NAMES, "A->B.topics = payments", "A->B.preserve.offsets.topics = orders"), False),
        ((ABORTED, "A->B.preserve.offsets.topics = orders", "B->C.topics = A\\\\.payments"), False),
    ],
)
def test_empty_records_that_another_flow_would_copy_on_are_named(lines: tuple[str, ...], *, is_named: bool) -> None:
    assert named_copiers(*lines) == (["B->C"] if is_named else [])


def test_a_flow_back_does_not_mirror_topics_whose_names_say_that_they_come_from_there() -> None:
    back = "B->A.enabled = true"
    assert named_copiers(ABORTED, back, "B->C.consumer.isolation.level = read_committed") == []
    assert named_copiers(ABORTED, back) == ["B->C"]


@pytest.mark.parametrize(
    ("line", "warning"),
    [
        (
            "A.offset.storage.topic = x",
            "`A.offset.storage.topic` has no effect: it is about flows into A, and none is enabled; "
            "for A->B write `B.offset.storage.topic`",
        ),
        ("A.exactly.once.source.support = enabled", "for A->B write `B.exactly.once.source.support`"),
        ("A.offset.flush.interval.ms = 5", "for A->B write `B.offset.flush.interval.ms`"),
        (
            "A.producer.linger.ms = 5",
            "it is about flows into A, and none is enabled; for A->B write `B.producer.linger.ms`",
        ),
        ("A.producer.ssl.key.password = x", "for A->B write `B.producer.ssl.key.password`"),
        (
            "B.consumer.client.rack = r",
            "about flows out of B, and none is enabled; for A->B write `A.consumer.client.rack`",
        ),
        ("B->A.topics = x", "B->A is not enabled; add `B->A.enabled = true` if it is to be"),
        ("B->A.consumer.client.rack = r", "B->A is not enabled"),
    ],
)
def test_a_line_that_reaches_no_flow_is_named(line: str, warning: str) -> None:
    (said,) = warnings(f"{line}\n")
    assert said.startswith("mm2:5: ")
    assert warning in said


@pytest.mark.parametrize(
    ("lines", "warning"),
    [
        (
            "offset.storage.topic = x\nB.offset.storage.topic = y",
            "mm2:6: `B.offset.storage.topic` has no effect: `offset.storage.topic` on line 5 counts before it",
        ),
        (
            "A->B.consumer.client.rack = r\nA.consumer.client.rack = s",
            "mm2:5: `A->B.consumer.client.rack` has no effect: `A.consumer.client.rack` on line 6 counts before it",
        ),
    ],
)
def test_a_line_that_another_one_beats_is_named(lines: str, warning: str) -> None:
    assert warnings(f"{lines}\n")[0] == warning


def test_lines_without_effect_for_one_reason_are_reported_together() -> None:
    (said,) = warnings("A.producer.linger.ms = 1\nA.exactly.once.source.support = enabled\n")
    assert said.startswith("mm2:5: `A.producer.linger.ms` has no effect (nor line 6): it is about flows into A")
    assert said.endswith("for A->B write `B.producer.linger.ms`")


def test_two_flows_make_a_line_of_either_count() -> None:
    lines = "B->A.enabled = true\nA.exactly.once.source.support = preparing\nB.consumer.client.rack = r\n"
    assert warnings(lines) == ()


def test_without_any_flow_that_alone_is_said() -> None:
    text = FILE.replace("A->B.enabled = true", "A.producer.linger.ms = 1")
    config, _ = examine(parse_properties(text.encode(), "mm2"))
    assert len(config.warnings) == 1 and "no flow is enabled" in config.warnings[0]


def test_a_key_without_effect_is_named_once() -> None:
    (said,) = warnings("A.consumer.check.crcs = true\ntopics = x\nB.consumer.check.crcs = true\n")
    assert said.startswith("mm2:5: `A.consumer.check.crcs` has no effect (nor line 7): checksums")


def test_aliases_that_differ_in_case_only_are_two_clusters() -> None:
    text = "clusters = A, a\nA.bootstrap.servers = a:1\na.bootstrap.servers = b:1\nA->a.enabled = true\n"
    (said,) = parse_config(parse_properties(text.encode(), "mm2")).warnings
    assert said.startswith("mm2:1: `A` and `a` are two clusters: capitals count")


def test_an_alias_with_a_dot_is_distinguished_from_the_key_behind_it() -> None:
    text = (
        "clusters = us-west, us-east\nus-west.bootstrap.servers = a:1\nus-east.bootstrap.servers = b:1\n"
        "us-west->us-east.enabled = true\nus-west->us.east.topics = x\n"
    )
    (said,) = parse_config(parse_properties(text.encode(), "mm2")).warnings
    assert said.endswith("`clusters` does not list `us.east`; did you mean `us-east`?")


def test_a_secret_may_hold_what_looks_like_a_comment() -> None:
    text = FILE + 'A.ssl.key.password = a #b\nA.sasl.jaas.config = x password="a #b";\n'
    client = parse_config(parse_properties(text.encode())).clusters["A"].client
    assert (client["ssl.key.password"], client["sasl.jaas.config"]) == ("a #b", 'x password="a #b";')


@pytest.mark.parametrize(
    "line",
    [
        "topics = x",
        "A->B.topics = x",
        "B->A.emit.heartbeats.interval.seconds = 5",
        "B->A.enabled = false\nB->A.topics = x",
        "ssl.truststore.location = x",
        "A.ssl.truststore.location = x",
        "A.consumer.ssl.enabled.protocols = TLSv1.3",
        "A->B.source.consumer.client.rack = x",
        "A->B.source.cluster.ssl.truststore.type = PEM",
        "A->B.producer.override.linger.ms = 1",
        "B.offset.storage.topic = x",
        "offset.storage.topic = x",
        "A.admin.request.timeout.ms = 1",
        "B.producer.linger.ms = 1\nA->B.producer.override.linger.ms = 2",
        "topics = x\nA->B.topics = y",
    ],
)
def test_a_line_with_effect_is_not(line: str) -> None:
    assert warnings(f"{line}\n") == ()


def test_every_key_of_the_table_has_a_place_where_it_is_known() -> None:
    for key in KEYS:
        name = re.sub("<.*?>", "x", key.name)
        for place in key.scope.spellings(name):
            spelling = place.replace("S", "A").replace("T", "B").replace("X", "A")
            assert place_known(spelling), spelling


def place_known(spelling: str) -> bool:
    place = place_of(spelling, tuple(places_of(("A", "B"))))
    return place.level.knows(spelling.removeprefix(place.prefix))
