"""A dozen files mean to SparkMirror what they mean to MirrorMaker 2 4.3.0: flows, settings, clients, topic names.

Each file is about one rule of `MirrorMakerConfig`, and the examples of Kafka's documentation come with them as far as
MirrorMaker takes them. MirrorMaker is asked itself, by its own classes.
"""

from pathlib import Path
from typing import Any

import pytest
from tests.parity.mirror_maker import mirror_maker_flows

from sparkmirror.config.flow.flows import FlowConfig, load_config, understand
from sparkmirror.config.formats.files import read_mirror_file
from sparkmirror.config.keys.key import Scope
from sparkmirror.config.keys.table import keys_of
from sparkmirror.config.precedence import FlowLayers, admin_properties, cluster_properties, flow_layers
from sparkmirror.config.reading import Problems

OWN = sorted((Path(__file__).parent / "files").glob("*.properties"))
DOCUMENTED = sorted((Path(__file__).parents[1] / "unit" / "config" / "files").glob("*.properties"))
REFUSED = {"active-active", "active-passive", "first-steps", "per-connector"}
"""Examples of the documentation that MirrorMaker itself refuses, in whole or for one of their flows."""
MISPRINTED = {("flow-settings", "emit.heartbeats.enabled")}
"""What the documentation means and MirrorMaker does not read; we read it as meant and say so."""
TOPICS = (
    *("orders", "inv.1", "all", "all.x", "a.b", "aXb", "x", "xx", "über", "my.tmp", "foo.1", "foo", "bar", "o.1"),
    *("A.orders", "B.orders", "A._.orders", "B._.orders", "A-orders", "B-orders", "A.B.x", "us.o", "us.west.o", "eu.o"),
    *(
        "heartbeats",
        "A.heartbeats",
        "B.heartbeats",
        "my.heartbeats",
        "A.checkpoints.internal",
        "x.checkpoints.internal",
    ),
    *("mm2-offsets.A.internal", "mm2-configs.B.internal", "mm2-offset-syncs.B.internal", "us-west.foo", "us-east.foo"),
)
ENVIRONMENT = {"PARITY_SECRET": "hunter2", "PARITY_TOPICS": "orders"}
# What Connect and MirrorMaker set by themselves, whatever a file says.
CONNECT_SETS = {
    *("key.serializer", "value.serializer", "max.block.ms", "acks", "enable.idempotence", "delivery.timeout.ms"),
    *("max.in.flight.requests.per.connection", "client.id"),
}


@pytest.fixture(scope="module")
def real() -> dict[str, dict[str, Any]]:
    return mirror_maker_flows([*OWN, *DOCUMENTED], TOPICS, ENVIRONMENT)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


FILES = [file for file in (*OWN, *DOCUMENTED) if file.stem not in REFUSED]
each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


def enabled(real: dict[str, dict[str, Any]], file: Path) -> dict[str, dict[str, Any]]:
    return {name: flow for name, flow in real[file.stem].items() if flow["enabled"]}


def flows_of(file: Path) -> list[tuple[FlowConfig, FlowLayers]]:
    properties = understand(read_mirror_file(file), Problems(str(file)))
    return [(flow, flow_layers(properties, flow.name)) for flow in load_config(file).flows]


def test_there_are_a_dozen_files() -> None:
    assert len(OWN) >= 12


@each_file
def test_the_same_flows_mirror_data(file: Path, real: dict[str, dict[str, Any]]) -> None:
    assert sorted(str(flow.name) for flow, _ in flows_of(file)) == sorted(enabled(real, file))


@each_file
def test_the_same_topics_get_the_same_names(file: Path, real: dict[str, dict[str, Any]]) -> None:
    for flow, _ in flows_of(file):
        ours = {topic: flow.remote_topic(topic) for topic in TOPICS if flow.should_replicate(topic)}
        theirs = enabled(real, file)[str(flow.name)]
        assert ours == theirs["topics"], flow.name
        assert flow.policy.checkpoints_topic(flow.name.source) == theirs["checkpoints_topic"]


@each_file
def test_clients_get_the_same_settings(file: Path, real: dict[str, dict[str, Any]]) -> None:
    properties = understand(read_mirror_file(file), Problems(str(file)))
    for flow, layers in flows_of(file):
        theirs = enabled(real, file)[str(flow.name)]
        reader = {name: entry.value.strip() for name, entry in layers.consumer.items()}
        assert {"auto.offset.reset": "earliest", **reader, "client.id": ""} == _plain(theirs["consumer"])
        writer = {name: entry.value.strip() for name, entry in layers.producer.items()}
        by_itself = {name for name in theirs["producer"] if name in CONNECT_SETS or name.startswith("metrics.context.")}
        for name in writer.keys() | theirs["producer"].keys() - by_itself:
            assert writer.get(name) == theirs["producer"].get(name), (flow.name, name)
        for side, alias in (("source", flow.name.source), ("target", flow.name.target)):
            admin = admin_properties(cluster_properties(properties, alias))
            ours = {name: entry.value.strip() for name, entry in admin.items()}
            assert ours | {"client.id": ""} == _plain(theirs[f"{side}_admin"]), (flow.name, side)


def _plain(client: dict[str, str]) -> dict[str, str]:
    """A client's settings as MirrorMaker makes them, without what it always adds."""
    added = ("enable.auto.commit", "replication.policy.", "metrics.context.")
    return {name: value for name, value in client.items() if not name.startswith(added)} | {"client.id": ""}


@each_file
def test_each_line_of_a_flow_sets_the_same_value(file: Path, real: dict[str, dict[str, Any]]) -> None:
    for flow, layers in flows_of(file):
        theirs = enabled(real, file)[str(flow.name)]
        values = theirs["heartbeat"] | theirs["checkpoint"] | theirs["values"]
        for key in keys_of(Scope.FLOW, Scope.FLOW_ONLY):
            if (file.stem, key.name) in MISPRINTED:
                assert "is read as" in load_config(file).warnings[0]
            elif key.name in values and (entry := layers.connector.get(key.name)) is not None:
                assert _listed(entry.value) == _listed(values[key.name]), (flow.name, key.name)


@each_file
def test_positions_are_kept_in_the_same_topic(file: Path, real: dict[str, dict[str, Any]]) -> None:
    for flow, layers in flows_of(file):
        worker = enabled(real, file)[str(flow.name)]["worker"]
        assert flow.offset_storage_topic == worker["offset.storage.topic"]
        assert flow.connector.group == worker["group.id"]
        assert str(flow.offset_storage_partitions) == worker["offset.storage.partitions"]
        assert str(flow.offset_storage_replication_factor) == worker["offset.storage.replication.factor"]
        assert flow.exactly_once_source_support == worker["exactly.once.source.support"].lower()
        if "offset.flush.interval.ms" in layers.worker:
            assert str(flow.offset_flush_interval_ms) == worker["offset.flush.interval.ms"]


def _listed(text: str) -> list[str]:
    return list(dict.fromkeys(item.strip().lower() for item in text.split(",")))


def test_mirror_maker_does_not_run_all_that_the_documentation_means(real: dict[str, dict[str, Any]]) -> None:
    for file in DOCUMENTED:
        if file.stem in REFUSED:
            pairs = {name: flow for name, flow in real[file.stem].items() if isinstance(flow, dict)}
            theirs = [name for name, flow in pairs.items() if flow["enabled"]]
            assert sorted(theirs) != sorted(str(flow.name) for flow in load_config(file).flows), file.stem
