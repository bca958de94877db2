"""Each example of Kafka's geo-replication documentation, misprints included, does what its text says."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from sparkmirror.config.flow.flows import FlowConfig, MirrorConfig, load_config

FILES = Path(__file__).parent / "files"


def load(name: str, targets: Sequence[str] = ()) -> MirrorConfig:
    return load_config(FILES / f"{name}.properties", targets)


def flows(config: MirrorConfig) -> dict[str, FlowConfig]:
    return {str(flow.name): flow for flow in config.flows}


def mirrored(flow: FlowConfig, *topics: str) -> list[str]:
    return [flow.remote_topic(topic) for topic in topics if flow.should_replicate(topic)]


def test_first_steps() -> None:
    config = load("first-steps")
    (flow,) = config.flows
    assert (str(flow.name), flow.tasks_max) == ("us-west->us-east", 5)
    assert mirrored(flow, "foo", "other") == ["us-west.foo", "us-west.other"]
    said = "\n".join(config.warnings)
    assert (
        "`us-west->us.east.topics` has no effect: `clusters` does not list `us.east`; did you mean `us-east`?" in said
    )
    assert "`# two aliases` is left out of `clusters = us-west, us-east`" in said
    assert flow.offset_storage_topic == "mm2-offsets.us-west.internal", "the flow's positions are on its target"


def test_clients_of_either_cluster() -> None:
    config = load("clients")
    (flow,) = config.flows
    assert flow.consumer.isolation_level == "read_committed"
    assert flow.source.bootstrap_servers == "broker3-west:9092"
    admins = {alias: cluster.bootstrap_servers for alias, cluster in config.clusters.items()}
    assert admins == {"us-west": "broker57-primary:9092", "us-east": "broker8-secondary:9092"}


def test_exactly_once() -> None:
    config = load("exactly-once")
    (flow,) = config.flows
    assert (flow.is_exactly_once, flow.consumer.isolation_level) == (True, "read_committed")
    assert len(config.warnings) == 2, "what MirrorMaker's nodes need to talk to each other has no effect"


def test_settings_of_one_flow() -> None:
    config = load("flow-settings")
    (flow,) = config.flows
    assert mirrored(flow, "foo1", "bar") == ["us-west_foo1"]
    (said,) = config.warnings
    assert "`us-west->us-east.emit.heartbeats` is read as `us-west->us-east.emit.heartbeats.enabled`" in said
    assert [str(beat.flow) for beat in config.heartbeats] == ["us-east->us-west"]


def test_security_towards_one_cluster() -> None:
    config = load("security")
    (flow,) = config.flows
    assert "security.protocol" not in flow.source.client
    target = flow.target.client
    assert (target["security.protocol"], target["ssl.keystore.location"]) == ("SSL", "/path/to/keystore.jks")
    assert config.clusters["us-east"].client["ssl.key.password"] == "my-secret-password"
    assert "my-secret" not in repr(config)
    assert all("everybody on this machine may read" in warning for warning in config.warnings), "as it lies here"


def test_active_passive() -> None:
    config = load("active-passive")
    (flow,) = config.flows
    assert str(flow.name) == "primary->secondary"
    assert mirrored(flow, "foo.1", "bar") == ["primary.foo.1"]
    assert "read as `clusters = primary, secondary`" in config.warnings[0]


def test_active_active_without_loops() -> None:
    config = load("active-active")
    there, back = config.flows
    assert (there.target.bootstrap_servers, back.source.bootstrap_servers) == (
        "broker3-east:9092,broker4-east:9092",
    ) * 2
    assert mirrored(there, "x", "us-east.x") == ["us-west.x"]
    assert mirrored(back, "x", "us-west.x") == ["us-east.x"]
    assert "`Us-east.bootstrap.servers` is read as `us-east.bootstrap.servers`" in config.warnings[0]


@pytest.mark.parametrize(
    ("targets", "into"),
    [
        (("west-1", "west-2"), ["east-1->west-1", "north-1->west-1", "west-1->west-2", "west-2->west-1"]),
        (("north-1", "north-2"), ["east-1->north-1", "north-1->north-2", "north-2->north-1", "west-1->north-1"]),
        (("east-2",), ["east-1->east-2"]),
    ],
)
def test_six_clusters_each_data_centre_takes_what_leads_into_it(targets: Sequence[str], into: list[str]) -> None:
    assert sorted(flows(load("six-clusters", targets))) == into
    assert len(load("six-clusters").flows) == 12
    assert load("six-clusters").warnings == ()


def test_six_clusters_pass_topics_on_but_not_back() -> None:
    every = flows(load("six-clusters"))
    assert mirrored(every["west-1->east-1"], "west-2.x", "x", "east-1.x") == ["west-1.west-2.x", "west-1.x"]
    assert mirrored(every["east-1->east-2"], "west-1.west-2.x") == ["east-1.west-1.west-2.x"]


def test_settings_of_old_and_comments_of_another_language() -> None:
    config = load("per-connector")
    (flow,) = config.flows
    assert flow.target.client == {
        "bootstrap.servers": "backup:9093",
        "security.protocol": "SSL",
        "ssl.truststore.location": "/etc/ssl/cacerts",
    }
    said = "\n".join(config.warnings)
    assert "`primary->backup.topics.blacklist` has no effect: MirrorMaker has not known it since 4.0" in said
    assert "`primary->backup.sync.group.offsets` is read as `primary->backup.sync.group.offsets.enabled`" in said
    assert flow.offsets.sync_groups
    assert "`# disabled by default` is left out of `primary->backup.enabled = true`" in said
