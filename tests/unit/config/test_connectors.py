"""Connectors of MirrorMaker 2 in all their forms are the flow that a properties file would say."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from sparkmirror.config.flow.flows import MirrorConfig, examine, parse_config
from sparkmirror.config.formats.convert import to_properties
from sparkmirror.config.formats.files import read_mirror_files
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.errors import ConfigError

PACKAGE = "org.apache.kafka.connect.mirror."
SIDES = {
    "source.cluster.alias": "us",
    "target.cluster.alias": "eu",
    "source.cluster.bootstrap.servers": "us:1",
    "target.cluster.bootstrap.servers": "eu:1",
}
SOURCE = SIDES | {
    "connector.class": f"{PACKAGE}MirrorSourceConnector",
    "name": "us-source",
    "tasks.max": "3",
    "topics": "orders.*, bills",
    "replication.factor": "2",
    "consumer.fetch.min.bytes": "7",
    "producer.override.linger.ms": "9",
    "source.cluster.security.protocol": "SSL",
    "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
}
CHECKPOINT = SIDES | {
    "connector.class": f"{PACKAGE}MirrorCheckpointConnector",
    "name": "us-checkpoint",
    "tasks.max": "1",
    "groups": "billing.*",
    "sync.group.offsets.enabled": "true",
    "source.cluster.security.protocol": "SSL",
}
HEARTBEAT = {key: value for key, value in SIDES.items() if key != "source.cluster.bootstrap.servers"} | {
    "connector.class": f"{PACKAGE}MirrorHeartbeatConnector",
    "name": "us-heartbeat",
    "emit.heartbeats.interval.seconds": "5",
}
WORKER = {
    "bootstrap.servers": "eu:1",
    "group.id": "connect",
    "offset.storage.topic": "my-offsets",
    "config.storage.topic": "my-configs",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "exactly.once.source.support": "enabled",
    "producer.batch.size": "1000000",
    "plugin.path": "/opt",
}
PROPERTIES = """\
clusters = us, eu
us.bootstrap.servers = us:1
us.security.protocol = SSL
eu.bootstrap.servers = eu:1
eu.group.id = connect
eu.offset.storage.topic = my-offsets
eu.exactly.once.source.support = enabled
eu.producer.batch.size = 1000000
emit.heartbeats.enabled = false
us->eu.enabled = true
us->eu.topics = orders.*, bills
us->eu.tasks.max = 3
us->eu.replication.factor = 2
us->eu.consumer.fetch.min.bytes = 7
us->eu.producer.override.linger.ms = 9
us->eu.groups = billing.*
us->eu.sync.group.offsets.enabled = true
us->eu.emit.heartbeats.enabled = true
us->eu.emit.heartbeats.interval.seconds = 5
us->eu.progress.connector = us-source
"""


def as_json(settings: Mapping[str, str]) -> str:
    return json.dumps({"name": settings["name"], "config": settings, "tasks": []}, indent="\t")


def as_bare_json(settings: Mapping[str, str]) -> str:
    return json.dumps(settings, indent=1)


def as_properties(settings: Mapping[str, str]) -> str:
    return "".join(f"{key} = {value}\n" for key, value in settings.items())


def as_resource(settings: Mapping[str, str]) -> str:
    config = {key: value for key, value in settings.items() if key not in ("name", "connector.class", "tasks.max")}
    spec = {"class": settings["connector.class"], "tasksMax": int(settings.get("tasks.max", 1)), "config": config}
    resource = {"apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaConnector", "metadata": {"name": settings["name"]}}
    return json.dumps({**resource, "spec": spec})


FORMS = {"json": as_json, "bare.json": as_bare_json, "properties": as_properties, "yaml": as_resource}


class Folder:
    """Files of one test, read together."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.names: list[str] = []

    def add(self, name: str, text: str) -> None:
        (self._directory / name).write_text(text)
        self.names.append(name)

    def examine(self) -> tuple[MirrorConfig, list[str], list[str]]:
        """What they mean, and the errors and warnings with the files' bare names."""
        config, problems = examine(read_mirror_files([self._directory / name for name in self.names]))
        place = f"{self._directory}/"
        return config, [str(one).replace(place, "") for one in problems.errors], [
            one.replace(place, "") for one in config.warnings
        ]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def without_files(config: MirrorConfig) -> str:
    return repr((config.flows, config.clusters, config.heartbeats))


@pytest.mark.parametrize("form", FORMS)
def test_three_connectors_and_their_worker_are_the_flow_of_the_properties(form: str, folder: Folder) -> None:
    for name, settings in {"source": SOURCE, "checkpoint": CHECKPOINT, "heartbeat": HEARTBEAT}.items():
        folder.add(f"{name}.{form}", FORMS[form](settings))
    folder.add("worker.properties", as_properties(WORKER))
    config, errors, warnings = folder.examine()
    wanted = parse_config(parse_properties(PROPERTIES.encode()))
    assert errors == []
    assert without_files(config) == without_files(wanted)
    assert config.flows[0].connector.name == "us-source"
    assert config.flows[0].offset_storage_topic == "my-offsets"
    (warning,) = warnings
    assert warning.startswith("worker.properties:6: us->eu copies records of aborted transactions")
    text, _ = to_properties(config.lines, config)
    again = parse_config(parse_properties(text.encode()))
    assert without_files(again) == without_files(wanted)


def test_several_connectors_may_stand_in_one_file(folder: Folder) -> None:
    folder.add("all.json", json.dumps([SOURCE, {"name": "c", "config": CHECKPOINT}, HEARTBEAT]))
    config, errors, _ = folder.examine()
    assert errors == []
    assert [str(flow.name) for flow in config.flows] == ["us->eu"]
    assert config.flows[0].offsets.emit_checkpoints
    assert config.flows[0].offsets.sync_groups
    assert [beat.interval_seconds for beat in config.heartbeats] == [5]

    resources = Folder(Path(folder._directory))
    resources.add("all.yaml", "\n---\n".join(as_resource(one) for one in (SOURCE, CHECKPOINT)))
    config, errors, warnings = resources.examine()
    assert errors == []
    assert config.flows[0].connector.name == "us-source"
    assert config.flows[0].offset_storage_topic == "connect-cluster-offsets"
    assert "`offset.storage.topic = connect-cluster-offsets`" in "".join(warnings)


def test_those_of_mirror_maker_count_among_all_of_a_connect_cluster(folder: Folder) -> None:
    sink = {"name": "s3", "connector.class": "io.example.S3Sink", "topics": "x"}
    everything = {one["name"]: {"info": {"name": one["name"], "config": one}} for one in (sink, SOURCE, CHECKPOINT)}
    folder.add("all.json", json.dumps(everything))
    config, errors, _ = folder.examine()
    assert errors == []
    assert [(str(flow.name), flow.connector.name) for flow in config.flows] == [("us->eu", "us-source")]
    folder.names.clear()
    folder.add("others.json", json.dumps({"s3": everything["s3"]}))
    with pytest.raises(ConfigError, match="none of the 1 connectors is one of MirrorMaker 2"):
        folder.examine()


def test_connectors_of_strimzi_have_their_worker_in_a_kafka_connect(folder: Folder) -> None:
    secrets = Path(folder._directory) / "secrets" / "connect"
    secrets.mkdir(parents=True)
    (secrets / "password").write_text("hunter2")
    bare = {key: value for key, value in SOURCE.items() if not key.startswith("target.cluster.bootstrap")}
    spec = {
        "bootstrapServers": "eu:9",
        "authentication": {
            "type": "scram-sha-512",
            "username": "mirror",
            "passwordSecret": {"secretName": "connect", "password": "password"},
        },
        "config": {"group.id": "mine"},
    }
    worker = {"apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaConnect", "metadata": {"name": "c"}, "spec": spec}
    folder.add("all.yaml", "\n---\n".join((json.dumps(worker), as_resource(bare))))
    config, errors, _ = folder.examine()
    assert errors == []
    (flow,) = config.flows
    assert (flow.connector.group, flow.offset_storage_topic) == ("mine", "connect-cluster-offsets")
    assert flow.target.client["bootstrap.servers"] == "eu:9"
    assert flow.target.client["security.protocol"] == "SASL_PLAINTEXT"
    assert 'password="hunter2"' in flow.target.client["sasl.jaas.config"]


@pytest.mark.parametrize(("state", "runs"), [({}, True), ({"pause": True}, False), ({"state": "stopped"}, False)])
def test_a_connector_that_is_stopped_does_not_run(state: dict[str, object], runs: bool, folder: Folder) -> None:
    resource = json.loads(as_resource(SOURCE))
    resource["spec"] |= state
    folder.add("source.yaml", json.dumps(resource))
    config, _, _ = folder.examine()
    assert bool(config.flows) is runs


def test_checkpoints_and_heartbeats_alone_are_just_that(folder: Folder) -> None:
    folder.add("checkpoint.json", as_json(CHECKPOINT))
    folder.add("heartbeat.json", as_json(HEARTBEAT))
    config, errors, warnings = folder.examine()
    assert errors == []
    assert not config.flows
    (flow,) = config.checkpoints
    assert (str(flow.name), flow.offsets.sync_groups, flow.offsets.emit_syncs) == ("us->eu", True, False)
    assert [str(beat.flow) for beat in config.heartbeats] == ["us->eu"]
    assert "only the checkpoints of us->eu and the heartbeats of us->eu are written" in warnings[0]
    assert config.purpose == "it writes only the checkpoints of us->eu and the heartbeats of us->eu"


def test_heartbeats_alone_work_without_an_address_of_the_source(folder: Folder) -> None:
    folder.add("heartbeat.json", as_json(HEARTBEAT))
    config, errors, _ = folder.examine()
    assert errors == []
    assert [str(beat.flow) for beat in config.heartbeats] == ["us->eu"]
    assert not config.checkpoints


def test_keys_of_ours_stand_in_a_connector(folder: Folder) -> None:
    own = {"status.listen": "localhost:8080", "on.data.loss": "pause", "offset.storage.topic": "o", "group.id": "g"}
    folder.add("source.json", as_json(SOURCE | own))
    config, errors, warnings = folder.examine()
    assert (errors, warnings) == ([], [])
    (flow,) = config.flows
    assert (flow.on_data_loss.action, flow.offset_storage_topic, flow.connector.group) == ("pause", "o", "g")
    assert str(config.status.listen) == "localhost:8080"


def test_where_connect_keeps_positions_is_never_guessed_in_silence(folder: Folder) -> None:
    folder.add("source.json", as_json(SOURCE))
    config, errors, warnings = folder.examine()
    assert errors == []
    assert config.flows[0].offset_storage_topic == "connect-offsets"
    assert config.flows[0].connector.group == "connect-cluster"
    assert "source.json:8: a connector does not say where its Connect cluster keeps positions" in warnings[0]


def test_a_standalone_worker_s_file_is_reported(folder: Folder) -> None:
    folder.add("source.json", as_json(SOURCE))
    folder.add("worker.properties", "bootstrap.servers=eu:1\noffset.storage.file.filename=/tmp/connect.offsets\n")
    config, errors, warnings = folder.examine()
    assert errors == []
    assert config.flows[0].offset_storage_topic == "mm2-offsets.us.internal"
    assert "worker.properties:2: a standalone worker keeps positions in the file `/tmp/connect.offsets`" in warnings[0]
    assert "positions set FILE --from-file /tmp/connect.offsets --execute" in warnings[0]


def test_a_line_that_its_connector_does_not_read_is_reported(folder: Folder) -> None:
    folder.add("source.json", as_bare_json(SOURCE | {"offset.storage.topic": "o", "group.id": "g", "groups": "x"}))
    folder.add(
        "checkpoint.json",
        as_bare_json(
            CHECKPOINT | {"replication.factor": "1", "source.cluster.bootstrap.servers": "us:2", "bogus": "1"}
        ),
    )
    _, errors, warnings = folder.examine()
    assert errors == []
    assert warnings == [
        "checkpoint.json:4: `source.cluster.bootstrap.servers` has no effect: line 4 of source.json has `us:1`, "
        "which counts for all",
        "checkpoint.json:12: `replication.factor` of the MirrorCheckpointConnector of us->eu has no effect: line 10 of "
        "source.json counts",
        "source.json:17: `groups` of the MirrorSourceConnector of us->eu has no effect: line 9 of checkpoint.json "
        "counts",
    ]


BAD = {
    "no JSON": ('{"connector.class": "MirrorSourceConnector",}', ":1: this is not JSON"),
    "another connector": (
        as_bare_json(SOURCE | {"connector.class": "a.S3Sink"}),
        ":6: `connector.class: a.S3Sink` is no",
    ),
    "a slip": (
        as_bare_json(SOURCE | {"connector.class": f"{PACKAGE}MirorSourceConnector"}),
        "did you mean `MirrorSourceConnector`?",
    ),
    "a list": (json.dumps({**SOURCE, "topics": ["a"]}, indent=1), ":9: `topics` is a list or an object"),
    "no name": (
        json.dumps({key: value for key, value in SOURCE.items() if key != "name"}),
        "the connector has no `name`, under which Connect keeps its positions",
    ),
    "one alias": (
        as_bare_json(SOURCE | {"target.cluster.alias": "us"}),
        ":2: source and target have the same alias, `us`",
    ),
    "two for a pair": (json.dumps([SOURCE, SOURCE]), "two MirrorSourceConnectors lead from `us` to `eu`"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_connector_that_cannot_be_used_is_reported_with_file_and_line(name: str, folder: Folder) -> None:
    text, told = BAD[name]
    folder.add("source.json", text)
    with pytest.raises(ConfigError) as caught:
        folder.examine()
    assert told in str(caught.value)
    assert "source.json" in str(caught.value)


def test_a_bad_value_is_reported_with_the_file_that_has_it(folder: Folder) -> None:
    folder.add("source.json", as_bare_json(SOURCE | {"offset.storage.topic": "o", "group.id": "g"}))
    folder.add("checkpoint.json", as_bare_json(CHECKPOINT | {"emit.checkpoints.interval.seconds": "soon"}))
    _, errors, _ = folder.examine()
    (told,) = errors
    assert told.startswith(
        "checkpoint.json:12: `us->eu.emit.checkpoints.interval.seconds = soon` must be a whole number"
    )


def test_several_files_are_connectors_or_refused(folder: Folder) -> None:
    folder.add("source.json", as_json(SOURCE))
    folder.add("mm2.properties", PROPERTIES)
    with pytest.raises(ConfigError, match=r"mm2.properties: several files are connectors"):
        folder.examine()


def test_a_worker_alone_mirrors_nothing(folder: Folder) -> None:
    folder.add("worker.properties", as_properties(WORKER))
    with pytest.raises(ConfigError, match="this is the file of a Connect worker, which alone mirrors nothing"):
        folder.examine()
