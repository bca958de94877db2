"""Strimzi resources of every version mean the same flows as properties; the two forms turn into each other."""

from pathlib import Path

import pytest
import yaml

from sparkmirror.config.flow.flows import FlowConfig, MirrorConfig, load_config, parse_config
from sparkmirror.config.formats.convert import to_properties, to_strimzi
from sparkmirror.config.formats.files import read_mirror_file
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.config.formats.strimzi import is_resource, parse_strimzi
from sparkmirror.errors import ConfigError

CLUSTERS = """\
apiVersion: kafka.strimzi.io/VERSION
kind: KafkaMirrorMaker2
metadata: {name: mm2}
spec:
  version: 4.0.0
  connectCluster: b
  clusters:
  - alias: a
    bootstrapServers: a:9092
  - alias: b
    bootstrapServers: b:9092
    config:
      offset.storage.replication.factor: -1
  mirrors:
  - sourceCluster: a
    targetCluster: b
    sourceConnector:
      tasksMax: 4
      config:
        replication.factor: -1
        refresh.topics.enabled: yes
        consumer.fetch.min.bytes: 7
    topicsPattern: "orders\\\\..*, invoices"
    EXCLUDE: "tmp.*"
"""
TARGET = """\
---
# of today
kind: KafkaMirrorMaker2
apiVersion: kafka.strimzi.io/v1
metadata: {name: mm2}
spec:
  target:
    alias: b
    bootstrapServers: b:9092
    groupId: g
    configStorageTopic: c
    statusStorageTopic: s
    offsetStorageTopic: my-offsets
    config:
      offset.storage.replication.factor: -1
  mirrors:
  - source:
      alias: a
      bootstrapServers: a:9092
    sourceConnector:
      tasksMax: 4
      config:
        replication.factor: -1
        refresh.topics.enabled: true
        consumer.fetch.min.bytes: 7
    topicsPattern: orders\\..*, invoices
    topicsExcludePattern: "tmp.*"
"""
PROPERTIES = """\
clusters = a, b
a.bootstrap.servers = a:9092
b.bootstrap.servers = b:9092
b.offset.storage.replication.factor = -1
a->b.enabled = true
a->b.tasks.max = 4
a->b.replication.factor = -1
a->b.refresh.topics.enabled = true
a->b.consumer.fetch.min.bytes = 7
a->b.topics = orders\\\\..*, invoices
a->b.topics.exclude = tmp.*
a->b.emit.checkpoints.enabled = false
"""
STRIMZI = """\
b.offset.storage.topic = mirrormaker2-cluster-offsets
b.group.id = mirrormaker2-cluster
a->b.progress.connector = a->b.MirrorSourceConnector
"""
OLD = CLUSTERS.replace("VERSION", "v1beta2").replace("EXCLUDE", "topicsExcludePattern")


def parse(text: str, secrets: Path = Path("secrets")) -> MirrorConfig:
    return parse_config(parse_strimzi(text, "mm2.yaml", secrets))


def flow_of(text: str) -> FlowConfig:
    (flow,) = parse(text).flows
    return flow


@pytest.mark.parametrize(
    ("version", "exclude"),
    [("v1alpha1", "topicsBlacklistPattern"), ("v1beta2", "topicsExcludePattern")],
)
def test_a_resource_of_the_past_is_the_flow_of_the_properties(version: str, exclude: str) -> None:
    (wanted,) = parse_config(parse_properties((PROPERTIES + STRIMZI + HEARTBEATS).encode())).flows
    same = {"security.protocol": "PLAINTEXT"}
    found = flow_of(CLUSTERS.replace("VERSION", version).replace("EXCLUDE", exclude))
    assert dict(found.source.client) == dict(wanted.source.client) | same
    assert without_clients(found) == without_clients(wanted)


HEARTBEATS = "emit.heartbeats.enabled = false\n"


def without_clients(flow: FlowConfig) -> list[str]:
    fields = [field for field in FlowConfig.__dataclass_fields__ if field not in ("source", "target")]
    return [f"{field}={getattr(flow, field)}" for field in fields]


def test_a_resource_of_today_is_the_same_flow_with_positions_in_its_own_topic() -> None:
    own = STRIMZI.replace("mirrormaker2-cluster-offsets", "my-offsets").replace("= mirrormaker2-cluster\n", "= g\n")
    lines = PROPERTIES + HEARTBEATS + own
    (wanted,) = parse_config(parse_properties(lines.encode())).flows
    assert without_clients(flow_of(TARGET)) == without_clients(wanted)


def test_a_resource_may_go_on_from_the_positions_of_a_file() -> None:
    lines = "progress.connector: MirrorSourceConnector", "offsets.storage.topic: mm2-offsets.a.internal"
    own = "".join(f"        {line}\n" for line in lines)
    flow = flow_of(TARGET.replace("        replication.factor: -1\n", f"        replication.factor: -1\n{own}"))
    assert (flow.connector.name, flow.offset_storage_topic) == ("MirrorSourceConnector", "mm2-offsets.a.internal")


TRUSTED = "10: `trustedCertificate` is not a field of `tls`|`trustedCertificates`"


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("topicsPattern:", "topicsPatern:", "26: `topicsPatern` is not a field of `mirrors`|`topicsPattern`"),
        ("tasksMax:", "taskMax:", "21: `taskMax` is not a field of `sourceConnector`|`tasksMax`"),
        ("groupId:", "groupID:", "10: `groupID` is not a field of `target`|`groupId`"),
        ("  mirrors:", "  mirors: 1\n  mirrors:", "16: `mirors` is not a field of `spec`|`mirrors`"),
        ("    bootstrapServers: b:9092", "    bootstrapServers: b:9092\n    tls: {trustedCertificate: []}", TRUSTED),
        ("      alias: a", "      Alias: 1\n      alias: a", "18: `Alias` is not a field of `source`|`alias`"),
    ],
)
def test_a_misspelt_field_is_reported_with_its_line(right: str, wrong: str, told: str) -> None:
    what, meant = told.split("|")
    warnings = parse(TARGET.replace(right, wrong)).warnings
    assert warnings == (f"mm2.yaml:{what} and has no effect; did you mean {meant}?",)


IDLE = """\
  replicas: 3
  jvmOptions: {-Xmx: 1g}
  resources: {}
  metricsConfig: {type: jmxPrometheusExporter}
  logging: {type: inline}
  tracing: {type: opentelemetry}
  rack: {topologyKey: zone}
"""
IDLE_OF_CONNECTOR = """
      autoRestart: {enabled: true, maxRestarts: 5}
      listOffsets: {toConfigMap: {name: x}}
      alterOffsets: {fromConfigMap: {name: x}}"""


def test_what_the_operator_alone_uses_is_reported_with_its_line_and_what_does_it_here() -> None:
    text = TARGET.replace("spec:\n", f"spec:\n{IDLE}", 1).replace("tasksMax: 4", f"tasksMax: 4{IDLE_OF_CONNECTOR}")
    told = [one.removeprefix("mm2.yaml:").split(" no effect: ") for one in parse(text).warnings]
    assert [what for what, _ in told] == [
        "7: `replicas: 3` has", "8: `jvmOptions`, `resources` have", "10: `metricsConfig` has", "11: `logging` has",
        "12: `tracing` has", "13: `rack` has", "29: `autoRestart` has", "30: `listOffsets` has",
        "31: `alterOffsets` has",
    ]  # fmt: skip
    assert "`/metrics` of `status.listen`" in told[2][1]
    assert "`sparkmirror positions set FILE`" in told[8][1]


def test_a_key_with_the_same_meaning_here_is_not_reported() -> None:
    text = TARGET.replace("spec:\n", "spec:\n  version: 4.3.0\n  replicas: 1\n", 1)
    assert parse(text.replace("tasksMax: 4", "tasksMax: 4\n      autoRestart: {enabled: true}")).warnings == ()


def test_without_replicas_nothing_runs() -> None:
    with pytest.raises(ConfigError, match="no flow is enabled"):
        parse(TARGET.replace("spec:\n", "spec:\n  replicas: 0\n", 1))


def test_keys_of_ours_stand_in_a_resource() -> None:
    text = TARGET.replace("    config:\n", "    config:\n      status.listen: localhost:8080\n", 1)
    config = parse(
        text.replace("        replication.factor", "        on.data.loss: pause\n        replication.factor", 1)
    )
    assert config.warnings == ()
    assert str(config.status.listen) == "localhost:8080"
    assert config.flows[0].on_data_loss.action == "pause"
    written, notes = to_strimzi(config.lines, config)
    assert str(parse(written).status.listen) == "localhost:8080"
    assert not any("status" in note for note in notes)


IDENTITY = (
    "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy",
)


@pytest.mark.parametrize("name", IDENTITY)
@pytest.mark.parametrize("separator", ["", '\n        replication.policy.separator: ""'])
def test_names_are_kept_by_either_class_and_without_a_separator(name: str, separator: str) -> None:
    own = f"        replication.policy.class: {name}{separator}\n        replication.factor: -1\n"
    flow = flow_of(TARGET.replace("        replication.factor: -1\n", own))
    assert flow.remote_topic("orders") == "orders"
    assert flow.policy.checkpoints_topic("a") == ("acheckpointsinternal" if separator else "a.checkpoints.internal")


@pytest.mark.parametrize("state", ["pause: true", "state: stopped", "state: paused"])
def test_a_connector_that_does_not_run_does_not_run_by_its_own_settings_either(state: str) -> None:
    text = TARGET.replace(
        "    sourceConnector:\n",
        f"""\
    checkpointConnector:
      {state}
      config: {{emit.checkpoints.enabled: true, sync.group.offsets.enabled: true}}
    heartbeatConnector:
      {state}
      config: {{emit.heartbeats.enabled: true}}
    sourceConnector:
""",
    )
    config = parse(text)
    assert not config.flows[0].offsets.emit_checkpoints
    assert config.heartbeats == ()
    config = parse(text.replace(state, "tasksMax: 1").replace("enabled: true", "enabled: false"))
    assert not config.flows[0].offsets.emit_checkpoints
    assert config.heartbeats == ()


def test_names_with_an_alias_need_a_separator() -> None:
    own = '        replication.policy.separator: ""\n        replication.factor: -1\n'
    with pytest.raises(ConfigError, match=r"mm2.yaml:23: .*`replication.policy.separator` is empty"):
        parse(TARGET.replace("        replication.factor: -1\n", own))


# As Strimzi's own examples are written: without security and with it, of the version of today and of the one before.
EXAMPLE = """\
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
metadata:
  name: example
spec:
  version: 4.3.0
  replicas: 1
  target:
    alias: there
    bootstrapServers: there-kafka-bootstrap:9092
    groupId: example-group
    configStorageTopic: example-config
    offsetStorageTopic: example-offset
    statusStorageTopic: example-status
    config:
      # the brokers' default
      config.storage.replication.factor: -1
      offset.storage.replication.factor: -1
      status.storage.replication.factor: -1
  mirrors:
  - source:
      bootstrapServers: here-kafka-bootstrap:9092
      alias: here
    sourceConnector:
      tasksMax: 1
      config:
        replication.factor: -1
        offset-syncs.topic.replication.factor: -1
        sync.topic.acls.enabled: "false"
        POLICY
        refresh.topics.interval.seconds: 600
    checkpointConnector:
      tasksMax: 1
      config:
        checkpoints.topic.replication.factor: -1
        POLICY
        sync.group.offsets.enabled: "true"
        refresh.groups.interval.seconds: 600
    topicsPattern: ".*"
    groupsPattern: ".*"
"""
FORMER = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata:
  name: example
spec:
  version: 3.9.0
  replicas: 1
  connectCluster: "there" # the target
  clusters:
  - alias: "here"
    bootstrapServers: here-kafka-bootstrap:9093
    tls:
      trustedCertificates:
        - secretName: here-cluster-ca-cert
          pattern: "*.crt"
  - alias: "there"
    bootstrapServers: there-kafka-bootstrap:9093
    tls:
      trustedCertificates:
        - secretName: there-cluster-ca-cert
          certificate: ca.crt
    config:
      config.storage.replication.factor: -1
      offset.storage.replication.factor: -1
      status.storage.replication.factor: -1
  mirrors:
  - sourceCluster: "here"
    targetCluster: "there"
    sourceConnector:
      tasksMax: 1
      config:
        replication.factor: -1
        offset-syncs.topic.replication.factor: -1
        sync.topic.acls.enabled: "false"
    checkpointConnector:
      tasksMax: 1
      config:
        checkpoints.topic.replication.factor: -1
    topicsPattern: ".*"
    groupsPattern: ".*"
"""
KEPT = f'replication.policy.class: "{IDENTITY[0]}"'


@pytest.mark.parametrize("text", [EXAMPLE.replace("        POLICY\n", ""), EXAMPLE.replace("POLICY", KEPT), FORMER])
def test_strimzis_examples_are_read_without_a_word(text: str, tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / f"{name}-cluster-ca-cert").mkdir()
        (tmp_path / f"{name}-cluster-ca-cert" / "ca.crt").write_text(name.upper())
    config = parse(text, tmp_path)
    (flow,) = config.flows
    assert [one for one in config.warnings if "storage" not in one] == []
    assert (str(flow.name), flow.replication_factor, flow.sync.acls_enabled) == ("here->there", -1, False)
    assert flow.offsets.emit_checkpoints
    assert not config.heartbeats
    is_former = text is FORMER
    assert flow.offset_storage_topic == ("mirrormaker2-cluster-offsets" if is_former else "example-offset")
    assert flow.target.client.get("ssl.truststore.certificates") == ("THERE" if is_former else None)
    assert flow.remote_topic("orders") == ("orders" if KEPT in text else "here.orders")


def test_secrets_are_files_below_a_directory(tmp_path: Path) -> None:
    secrets = {
        "ca/old.crt": "OLD", "ca/new.crt": "NEW", "ca/ca.p12": "x", "user/password": "hunter2",
        "app/user.crt": "CHAIN", "app/user.key": "KEY", "idp/secret": "hunter3",
    }  # fmt: skip
    for name, text in secrets.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    login = """\
    tls:
      trustedCertificates:
      - {secretName: ca, pattern: "*.crt"}
    authentication:
"""
    scram = (
        login + "      {type: scram-sha-256, username: mm, passwordSecret: {secretName: user, password: password}}\n"
    )
    mutual = login + (
        "      {type: tls, certificateAndKey: {secretName: app, certificate: user.crt, key: user.key}}\n    config:\n"
    )
    text = CLUSTERS.replace("VERSION", "v1beta2").replace("a:9092\n", f"a:9092\n{scram}")
    text = text.replace("b:9092\n    config:\n", f"b:9092\n{mutual}")
    (flow,) = parse(text, tmp_path).flows
    source, target = flow.source.client, flow.target.client
    assert (source["security.protocol"], source["sasl.mechanism"]) == ("SASL_SSL", "SCRAM-SHA-256")
    assert 'username="mm" password="hunter2"' in source["sasl.jaas.config"]
    assert source["ssl.truststore.certificates"].split() == ["NEW", "OLD"]
    assert (target["security.protocol"], target["ssl.keystore.type"]) == ("SSL", "PEM")
    assert (target["ssl.keystore.certificate.chain"], target["ssl.keystore.key"]) == ("CHAIN", "KEY")
    converted, notes = to_properties(parse_strimzi(text, "mm2.yaml", tmp_path), parse(text, tmp_path))
    assert "hunter" not in converted + "".join(notes)
    assert "would begin a->b again; SparkMirror goes on from those of `a->b.MirrorSourceConnector`" in notes[0]
    assert parse_config(parse_properties(converted.encode("latin-1"))).flows == (flow,)


def test_client_credentials_are_kafkas_own(tmp_path: Path) -> None:
    (tmp_path / "idp").mkdir()
    (tmp_path / "idp" / "secret").write_text("hunter3")
    login = (
        "    authentication: {type: oauth, clientId: mm, tokenEndpointUri: 'https://idp/token',\n"
        "      clientSecret: {secretName: idp, key: secret}}\n"
    )
    text = CLUSTERS.replace("VERSION", "v1beta2").replace("a:9092\n", f"a:9092\n{login}")
    (flow,) = parse(text, tmp_path).flows
    client = flow.source.client
    assert (client["security.protocol"], client["sasl.mechanism"]) == ("SASL_PLAINTEXT", "OAUTHBEARER")
    assert client["sasl.oauthbearer.token.endpoint.url"] == "https://idp/token"
    assert 'clientId="mm" clientSecret="hunter3";' in client["sasl.jaas.config"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("apiVersion: kafka.strimzi.io/v1\nkind: Kafka\n", "mm2.yaml:1: a resource of kind `Kafka` is not a mirror"),
        ("kind: KafkaTopic\n---\nkind: KafkaUser\n", "kind `KafkaTopic` and `KafkaUser` is not a mirror"),
        ("", "a resource of kind `nothing` is not a mirror"),
        (TARGET + TARGET, "mm2.yaml:30: 2 resources of kind KafkaMirrorMaker2 in one file"),
        (TARGET.replace("io/v1", "io/v9"), "`apiVersion: kafka.strimzi.io/v9` is not a version"),
        ("kind: KafkaMirrorMaker2\napiVersion: kafka.strimzi.io/v1\n", "the resource has no `spec`"),
        (TARGET.partition("  mirrors")[0], "mm2.yaml:6: the resource has no `mirrors`"),
        ("a: [1\n", "mm2.yaml:2: this is not YAML"),
        (
            TARGET.replace("tasksMax: 4", "tasksMax: many"),
            "mm2.yaml:21: `a->b.tasks.max = many` must be",
        ),
        (
            TARGET.replace("a:9092\n", "a:9092\n      authentication: {type: magic}\n"),
            "mm2.yaml:20: `authentication.type: magic` is not known",
        ),
        (
            TARGET.replace("a:9092\n", "a:9092\n      authentication: {type: oauth, accessToken: x}\n"),
            "oauth with `accessToken` is not supported",
        ),
        (
            TARGET.replace("a:9092\n", "a:9092\n      tls: {trustedCertificates: [{secretName: x, pattern: '*'}]}\n"),
            "the secret `x` of `a` has no file that matches `\\*`",
        ),
        (TARGET.replace("tasksMax: 4", "state: stopped"), "no flow is enabled"),
        (OLD.replace("targetCluster: b", "targetCluster: B"), "`targetCluster: B`, which `clusters` does not list"),
        (
            TARGET + "  - source: {alias: a, bootstrapServers: 'a:9092'}\n    sourceConnector: {}\n",
            "mm2.yaml:28: two `mirrors` lead from `a` to `b`, the first on line 17",
        ),
        ("x: &a\n  y: *a\n", "an alias (.*) of this YAML leads into itself"),
    ],
)
def test_what_is_no_mirror_is_refused_in_a_sentence_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "topicsExcludePattern:",
            "groupsPattern: [x, y]\n    topicsExcludePattern:",
            "mm2.yaml:24: `groupsPattern` is a list or an object",
        ),
        (
            'topicsPattern: "orders\\\\..*, invoices"',
            "topicsPattern: [orders]",
            "mm2.yaml:23: `topicsPattern` is a list",
        ),
        ("replication.factor: -1\n        r", "topics:\n        - x\n        r", "mm2.yaml:20: `topics` is a list"),
        (
            "offset.storage.replication.factor: -1",
            "producer: {acks: 1}",
            "mm2.yaml:13: `producer` is a list or an object",
        ),
    ],
)
def test_a_list_where_strimzi_takes_a_text_is_refused(old: str, new: str, message: str) -> None:
    """Read as an empty text it would be the empty list, and nothing would be mirrored."""
    text = OLD.replace(old, new, 1)
    assert text != OLD
    with pytest.raises(ConfigError, match=message):
        parse(text)


def test_a_setting_that_is_null_is_left_out_as_kubernetes_does() -> None:
    assert flow_of(OLD.replace("replication.factor: -1\n        r", "replication.factor: ~\n        r")) == flow_of(
        OLD.replace("replication.factor: -1\n        r", "r")
    )


def test_the_format_of_a_file_is_recognised_by_its_name_or_its_begin(tmp_path: Path) -> None:
    plain = tmp_path / "mirror.conf"
    plain.write_text(TARGET)
    assert [str(flow.name) for flow in load_config(plain).flows] == ["a->b"]
    plain.write_text(PROPERTIES)
    assert [str(flow.name) for flow in load_config(plain).flows] == ["a->b"]
    (tmp_path / "x.yaml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_mirror_file(tmp_path / "x.yaml")
    assert not is_resource("kind = a\nclusters = b\n")
    assert is_resource('{"kind": "KafkaMirrorMaker2"}')


def test_what_is_merged_into_a_mirror_counts_below_its_own_fields() -> None:
    shared = "common: &common\n  tasksMax: 9\n  config: {replication.factor: 3}\n"
    text = shared + OLD.replace("      tasksMax: 4\n", "      <<: *common\n      tasksMax: 4\n")
    flow = flow_of(text.replace("      config:\n        replication.factor: -1\n", "      xonfig:\n", 1))
    assert (flow.tasks_max, flow.replication_factor) == (4, 3)


def test_properties_become_a_resource_for_each_target_and_back(tmp_path: Path) -> None:
    both = (
        PROPERTIES
        + HEARTBEATS
        + (
            "b->a.enabled = true\nb->a.topics = x\nbatch = 1\na.ssl.key.password = hunter2\n"
            "a.consumer.client.rack = r\nb.security.protocol = SASL_SSL\nb.sasl.mechanism = PLAIN\n"
            'b.sasl.jaas.config = x.PlainLoginModule required username="u" password="hunter2";\n'
        )
    )
    config = parse_config(parse_properties(both.encode()))
    text, notes = to_strimzi(parse_properties(both.encode()), config)
    assert "hunter" not in text + "".join(notes)
    assert (
        "`b->a` begins again there: the resource keeps positions as `b->a.MirrorSourceConnector` in "
        "`mirrormaker2-cluster-offsets`, this file as `MirrorSourceConnector` in `mm2-offsets.b.internal`"
    ) in notes
    assert "put the password of `b` into the secret `b-login`, as `password`" in notes
    (tmp_path / "b-login").mkdir()
    (tmp_path / "b-login" / "password").write_text("hunter2")
    into_b, into_a = text.split("---\n")
    (there,), (back,) = parse(into_b, tmp_path).flows, parse(into_a, tmp_path).flows
    wanted = {str(flow.name): flow for flow in config.flows}
    assert [str(there.name), str(back.name)] == list(wanted)
    assert there.consumer == wanted["a->b"].consumer
    assert there.topics == wanted["a->b"].topics
    assert (there.tasks_max, there.replication_factor) == (4, -1)
    assert 'password="hunter2"' in there.target.client["sasl.jaas.config"]
    assert back.topics == wanted["b->a"].topics


def test_what_both_connectors_read_is_written_to_both() -> None:
    """To the operator each connector has its own settings: one that knew no names would sync groups of other topics."""
    said = {
        "replication.policy.class": IDENTITY[0],
        "offset-syncs.topic.location": "target",
        "sync.group.offsets.enabled": "true",
    }
    lines = "".join(f"a->b.{key} = {value}\n" for key, value in said.items())
    text = PROPERTIES.replace("a->b.emit.checkpoints.enabled = false\n", lines)
    properties = parse_properties(text.encode())
    config = parse_config(properties)
    written = yaml.safe_load(to_strimzi(properties, config)[0])
    (mirror,) = written["spec"]["mirrors"]
    assert mirror["checkpointConnector"]["config"] == said
    assert mirror["sourceConnector"]["config"].items() >= dict(list(said.items())[:2]).items()
    assert parse(yaml.safe_dump(written)).flows[0].offsets == config.flows[0].offsets


def test_no_secret_of_a_flow_is_written_to_a_resource() -> None:
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hunter2";'
    lines = "".join(
        f"a->b.{line}\n"
        for line in (
            f"consumer.sasl.jaas.config = {login}",
            f"producer.override.sasl.jaas.config = {login}",
            "transforms.schemas.source.url = https://registry",
            "transforms.schemas.source.user.info = me:hunter2",
            "acme.token = hunter2",
            "acme.password = ${file:/secrets:acme}",
        )
    )
    properties = parse_properties(f"{PROPERTIES}{lines}topic.filter.class = {__name__}:OfNothing\n".encode())
    text, notes = to_strimzi(properties, parse_config(properties))
    assert "hunter2" not in text
    assert "transforms.schemas.source.url: https://registry" in text
    assert "acme.password: ${file:/secrets:acme}" in text
    assert sum("is secret and left out" in note for note in notes) == 4
    assert (
        "`a->b.acme.token` is secret and left out; give it to the cluster by a Kubernetes secret, or as a reference to "
        "a config provider"
    ) in notes


def test_a_log_in_that_a_config_provider_holds_stays_a_reference(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hunter2";'
    secrets.write_text(f"jaas={login}\n")
    reference = f"${{file:{secrets}:jaas}}"
    lines = (
        "b.security.protocol = SASL_SSL\nb.sasl.mechanism = PLAIN\n"
        f"b.sasl.jaas.config = {reference}\nconfig.providers = file\n"
        "config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider\n"
    )
    properties = parse_properties(f"{PROPERTIES}{lines}".encode())
    text, notes = to_strimzi(properties, parse_config(properties))
    assert "hunter2" not in text
    assert notes[0] == "`b` logs in by PLAIN: complete its `authentication` by hand"
    (flow,) = parse(text).flows
    assert flow.target.client["sasl.jaas.config"] == login


class OfNothing:
    def should_replicate_topic(self, topic: str) -> bool:
        return not topic
