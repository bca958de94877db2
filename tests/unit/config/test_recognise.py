"""No line is ignored in silence: each without effect gives a warning that says what to do."""

import pytest

from sparkmirror.config.flows import parse_config
from sparkmirror.config.keys import KEYS
from sparkmirror.config.properties import parse_properties

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
        ("A->B.enable = true", "did you mean `A->B.enabled`?"),
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
        ("producer.max.request.size = 1", "write `T.producer.max.request.size`"),
        ("A->B.producer.max.request.size = 1", "or `S->T.producer.override.max.request.size`"),
        ("A->B.admin.client.id = x", "`X.admin.client.id`"),
        ("consumer.ssl.protocol = x", "write `X.ssl.protocol` or `ssl.protocol`"),
        ("B.replication.factor = 1", "write `replication.factor` or `S->T.replication.factor`"),
        ("A.topics = x", "write `topics` or `S->T.topics`"),
        ("A.refresh.topics.enabled = true", "write `refresh.topics.enabled` or `S->T.refresh.topics.enabled`"),
        ("A->B.clusters = x", "write `clusters`"),
        ("use.defaults.from = source", "has no effect there, as in MirrorMaker; write `S->T.use.defaults.from`"),
        ("A->B.sync.group.offsets.enabled = true", "does not use it in this version"),
        ("B.session.timeout.ms = 1", "does not use it in this version"),
        ("B.producer.compression.type = zstd", "does not use it in this version"),
    ],
)
def test_a_line_without_effect_is_named(line: str, warning: str) -> None:
    (said,) = warnings(f"{line}\n")
    assert said.startswith(("mm2:5: ", "mm2:4: "))
    assert warning in said


@pytest.mark.parametrize(
    "line",
    [
        "topics = x",
        "A->B.topics = x",
        "B->A.topics = x",
        "ssl.truststore.location = x",
        "A.ssl.truststore.location = x",
        "A.consumer.sasl.mechanism = PLAIN",
        "A->B.source.consumer.client.rack = x",
        "A->B.source.cluster.ssl.protocol = x",
        "A->B.producer.override.max.request.size = 1",
        "B.offset.storage.topic = x",
        "offset.storage.topic = x",
        "A.admin.request.timeout.ms = 1",
    ],
)
def test_a_line_with_effect_is_not(line: str) -> None:
    assert warnings(f"{line}\n") == ()


def test_every_key_of_the_table_has_a_place_where_it_is_known() -> None:
    for key in KEYS:
        for place in key.scope.value.split(" or "):
            spelling = place.replace("KEY", key.name).replace("S", "A").replace("T", "B").replace("X", "A")
            text = f"{spelling} = {_some_value(key.name, key.default)}\n"
            assert [said for said in warnings(text) if "no effect" in said] == [], spelling


def _some_value(name: str, default: object) -> str:
    given = {"clusters": "A, B", "bootstrap.servers": "x:1", "enabled": "true"}
    if name in given:
        return given[name]
    if name == "replication.policy.class":
        return f"org.apache.kafka.connect.mirror.{default}"
    return ", ".join(default) if isinstance(default, tuple) else str(default) or "x"
