"""Writes each broker's server.properties; pure. Called by `kafka` and `warm_start`.

Keys are those of KafkaConfig 4.3 (KRaft, combined mode: each node is broker and controller).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

CONTROLLER = "CONTROLLER"
PLAINTEXT = "PLAINTEXT"
OAUTHBEARER = "OAUTHBEARER"
FAR = "FAR"
_OAUTH_MODULE = 'OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'


@dataclass(frozen=True, slots=True)
class Listener:
    """A listener, and the server properties it needs. Its name is that of its security protocol, or `FAR`."""

    name: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def protocol(self) -> str:
        return PLAINTEXT if self.name == FAR else self.name


@dataclass(frozen=True, slots=True)
class Sasl:
    """The one user of a SASL listener. `mechanism`: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.

    With OAUTHBEARER brokers take any unsecured token; user and password have no meaning.
    """

    mechanism: str
    user: str
    password: str = field(repr=False)

    @property
    def is_scram(self) -> bool:
        """Whether the user's password is in the cluster's metadata."""
        return self.mechanism.startswith("SCRAM")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files of a throw-away authority; each key-and-certificate file holds the key first.

    `expired_client_file` is a key and certificate of a client whose time is over.
    """

    ca_file: Path
    broker_file: Path
    client_certificate_file: Path
    client_key_file: Path
    expired_client_file: Path


@dataclass(frozen=True, slots=True)
class Node:
    """One broker: its id, its data directory and a loopback port for each listener (CONTROLLER included).

    `far_port` is what the FAR listener advertises: that of the proxy before it.
    """

    node_id: int
    directory: Path
    ports: Mapping[str, int]
    far_port: int = 0

    @property
    def advertised(self) -> Mapping[str, int]:
        return {**self.ports, FAR: self.far_port} if FAR in self.ports else self.ports


def plan_listeners(tls: TlsFiles | None, sasl: Sasl | None, *, far: bool = False) -> tuple[Listener, ...]:
    """PLAINTEXT always (brokers talk to each other there), SSL, SASL_PLAINTEXT, SASL_SSL and FAR as wanted."""
    listeners = [Listener(PLAINTEXT)]
    if tls:
        listeners.append(Listener("SSL", _tls_properties(tls)))
    if sasl:
        listeners.append(Listener("SASL_PLAINTEXT", _sasl_properties("SASL_PLAINTEXT", sasl)))
    if tls and sasl:
        listeners.append(Listener("SASL_SSL", _sasl_properties("SASL_SSL", sasl)))
    if far:
        listeners.append(Listener(FAR))
    return tuple(listeners)


def plan_properties(node: Node, nodes: Sequence[Node], listeners: Sequence[Listener]) -> dict[str, str]:
    """The server.properties of `node` in the cluster of `nodes`; the caller lays its own values over these."""
    properties = {
        "process.roles": "broker,controller",
        "node.id": str(node.node_id),
        "log.dirs": str(node.directory),
        "controller.quorum.voters": ",".join(f"{n.node_id}@127.0.0.1:{n.ports[CONTROLLER]}" for n in nodes),
        "controller.listener.names": CONTROLLER,
        "inter.broker.listener.name": PLAINTEXT,
        "listeners": _addresses(node.ports, (*(listener.name for listener in listeners), CONTROLLER)),
        "advertised.listeners": _addresses(node.advertised, [listener.name for listener in listeners]),
        "listener.security.protocol.map": ",".join(
            (*(f"{listener.name}:{listener.protocol}" for listener in listeners), f"{CONTROLLER}:{PLAINTEXT}")
        ),
    }
    for listener in listeners:
        properties |= listener.properties
    return properties | _replication(len(nodes)) | _SMALL_AND_QUICK


def render_properties(properties: Mapping[str, str]) -> str:
    """Text of a Java properties file; values keep their backslashes and lines."""
    return "".join(f"{key}={_escaped(value)}\n" for key, value in properties.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _addresses(ports: Mapping[str, int], names: Sequence[str]) -> str:
    return ",".join(f"{name}://127.0.0.1:{ports[name]}" for name in names)


def _replication(brokers: int) -> dict[str, str]:
    factor = str(min(3, brokers))
    in_sync = str(min(2, brokers))
    return {
        "default.replication.factor": factor,
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": factor,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


_SMALL_AND_QUICK = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    # Tests write records with old timestamps and want them back.
    "log.retention.ms": "-1",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "1",
    # A killed broker's new start is refused until its old session is over (DuplicateBrokerRegistration).
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    # The default of 128 MiB is half of the heap.
    "log.cleaner.dedupe.buffer.size": "4194304",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
}


def _tls_properties(tls: TlsFiles) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tls.broker_file),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tls.ca_file),
        "ssl.client.auth": "requested",
    }


def _sasl_properties(listener: str, sasl: Sasl) -> dict[str, str]:
    prefix = f"listener.name.{listener.lower()}"
    return {
        f"{prefix}.sasl.enabled.mechanisms": sasl.mechanism,
        f"{prefix}.{sasl.mechanism.lower()}.sasl.jaas.config": _login_module(sasl),
    }


def _login_module(sasl: Sasl) -> str:
    if sasl.mechanism == OAUTHBEARER:
        return f"org.apache.kafka.common.security.oauthbearer.{_OAUTH_MODULE}"
    if sasl.is_scram:
        return "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    password = sasl.password.replace("\\", "\\\\").replace('"', '\\"')
    return f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{sasl.user}="{password}";'
