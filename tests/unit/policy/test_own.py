"""Classes of the user's own for naming and filtering, named `module:Class` in the file."""

import sys
from collections.abc import Mapping
from types import ModuleType

import pytest

from sparkmirror.config.flow.flows import FlowConfig, parse_config
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.errors import ConfigError
from sparkmirror.policy.naming import DefaultReplicationPolicy, IdentityReplicationPolicy
from sparkmirror.sync.flow import config_rules

FILE = """clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
"""


class Suffixed(DefaultReplicationPolicy):
    """`orders` becomes `orders@A`, or with another separator than `@` after it."""

    def format_remote_topic(self, source: str, topic: str) -> str:
        return f"{topic}{self.separator}{source}"

    def topic_source(self, topic: str) -> str | None:
        return topic.rpartition(self.separator)[2] if self.separator in topic else None

    def upstream_topic(self, topic: str) -> str | None:
        return topic.rpartition(self.separator)[0] if self.separator in topic else None


class Kept(IdentityReplicationPolicy):
    """An identity naming of one's own."""


class Sampled:
    """Every topic whose name has the configured word."""

    def configure(self, properties: Mapping[str, str]) -> None:
        self.word = properties["my.word"]

    def should_replicate_topic(self, topic: str) -> bool:
        return self.word in topic

    def should_replicate_config_property(self, name: str) -> bool:
        return name.startswith("retention")

    def should_replicate_source_default(self, name: str) -> bool:
        return name == "retention.ms"

    def should_replicate_group(self, group: str) -> bool:
        return group.startswith(self.word)


class Broken:
    def __init__(self) -> None:
        raise RuntimeError("no way")


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    """The classes of this file as a module that can be imported."""
    own = ModuleType("own_classes")
    for found in (Suffixed, Kept, Sampled, Broken):
        setattr(own, found.__name__, found)
    monkeypatch.setitem(sys.modules, "own_classes", own)
    monkeypatch.delenv("CLASSPATH", raising=False)


def flow(*lines: str) -> FlowConfig:
    config = parse_config(parse_properties((FILE + "\n".join(lines)).encode(), "mm2"))
    assert config.warnings == ()
    return config.flows[0]


def test_a_naming_of_ones_own_gets_the_separator() -> None:
    found = flow("replication.policy.class = own_classes:Suffixed", "replication.policy.separator = __")
    assert found.remote_topic("orders") == "orders__A"
    assert found.has_own_classes
    assert found.should_replicate("orders")
    assert not found.should_replicate("orders__B"), "it is on its way home (invariant 8)"


def test_an_identity_of_ones_own_knows_its_source() -> None:
    policy = flow("replication.policy.class = own_classes:Kept").policy
    assert (policy.topic_source("orders"), policy.format_remote_topic("A", "orders")) == ("A", "orders")


def test_a_circle_of_flows_that_keep_names_is_refused_for_a_class_of_ones_own_too() -> None:
    with pytest.raises(ConfigError, match="round and round"):
        flow("B->A.enabled = true", "replication.policy.class = own_classes:Kept")


def test_filters_of_ones_own_are_configured_and_asked() -> None:
    name = "own_classes:Sampled"
    kinds = ("topic", "config.property", "group")
    lines = [*(f"{kind}.filter.class = {name}" for kind in kinds), "A->B.my.word = sample"]
    found = flow(*lines)
    assert found.has_own_classes
    wanted = {
        topic for topic in ("sample-a", "b", "__sample", "B.sample", "heartbeats") if found.should_replicate(topic)
    }
    assert wanted == {"sample-a", "heartbeats"}, "internal topics and those on their way home stay out in any case"
    rules = config_rules(found.sync)
    assert [key for key in ("retention.ms", "segment.ms") if rules.is_copied(key)] == ["retention.ms"]
    assert (rules.copies_default("retention.ms"), rules.copies_default("retention.bytes")) == (True, False)
    assert [group for group in ("sample-1", "other") if found.offsets.groups.accepts(group)] == ["sample-1"]


def test_the_built_in_classes_may_be_named_as_in_java() -> None:
    mirror = "org.apache.kafka.connect.mirror"
    found = flow(
        f"topic.filter.class = {mirror}.DefaultTopicFilter",
        f"group.filter.class = {mirror}.DefaultGroupFilter",
        f"config.property.filter.class = {mirror}.DefaultConfigPropertyFilter",
        f"replication.policy.class = {mirror}.DefaultReplicationPolicy",
    )
    assert not found.has_own_classes
    assert found.remote_topic("orders") == "A.orders"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("replication.policy.class = com.acme.Policy", "a Java class, and nothing says where it is: its jar"),
        ("replication.policy.class = com/acme", "must be the name of a Java class, or `module:Class` of Python"),
        ("topic.filter.class = nowhere:Filter", "names the module nowhere, which Python does not find; see PYTHONPATH"),
        ("topic.filter.class = own_classes:Missing", "names Missing, and the module own_classes has no such class"),
        ("topic.filter.class = own_classes:Suffixed", "lacks should_replicate_topic"),
        ("topic.filter.class = own_classes:Broken", "own_classes:Broken raised RuntimeError: no way"),
        ("topic.filter.class = own_classes:Sampled", "raised KeyError: 'my.word'"),
        ("replication.policy.class = own_classes:Sampled", "lacks format_remote_topic, topic_source"),
    ],
)
def test_a_class_that_cannot_be_used_is_reported_with_its_line(line: str, words: str) -> None:
    with pytest.raises(ConfigError, match=f"^mm2:5: `{line}` .*{words}"):
        flow(line)
