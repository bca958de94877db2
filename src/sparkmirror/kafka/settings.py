"""Java client properties to what our two kinds of connections need; pure, called by `kafka.clients` and the bulk wire.

The names are those of Kafka's own documentation (`bootstrap.servers`, `security.protocol`, `ssl.*`, `sasl.*`), since
configuration files are MirrorMaker's. `ssl.ca.location`, librdkafka's name of a PEM trust store, is taken too.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any

from sparkmirror.errors import ConfigError
from sparkmirror.kafka.security.ciphers import cipher_suites
from sparkmirror.kafka.security.sasl import SaslSettings, sasl_settings
from sparkmirror.kafka.security.tls import Store, TlsSettings
from sparkmirror.model import Cluster
from sparkmirror.policy.addresses import in_brackets

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_STORE_TYPES = ("PEM", "JKS", "PKCS12")
_ANSWER_BYTES_MAX = 100_000_000
_SCHEME = re.compile(r"[\w%.-]*://", re.ASCII)
"""Java takes `SASL_SSL://broker:9092` and does not heed the name."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How to reach one cluster. Picklable and free of secrets in `repr`; times are in seconds."""

    alias: str
    bootstrap_servers: tuple[str, ...]
    client_id: str
    security_protocol: str = "PLAINTEXT"
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None
    request_timeout_seconds: float = 30.0
    idle_seconds_max: float = 540.0
    metadata_age_seconds_max: float = 300.0
    client_rack: str = ""

    def ssl_context(self) -> SSLContext | None:
        """A new context for TLS, None without TLS. Raises ConfigError when a store cannot be read."""
        return self.tls.context() if self.tls else None

    def client_arguments(self) -> dict[str, Any]:
        """Keyword arguments that all kafka-python clients take."""
        return {
            "bootstrap_servers": list(self.bootstrap_servers),
            "client_id": self.client_id,
            "security_protocol": self.security_protocol,
            "ssl_context": self.ssl_context(),
            **(self.sasl.arguments() if self.sasl else {}),
            "request_timeout_ms": int(self.request_timeout_seconds * 1000),
            "connections_max_idle_ms": int(self.idle_seconds_max * 1000),
            "metadata_max_age_ms": int(self.metadata_age_seconds_max * 1000),
            # The clients' own limit, which a network client that is handed to them does not have: 1 MB there, which
            # is less than one fetch of a long topic, or than what a broker says of some ten thousand partitions.
            "receive_message_max_bytes": _ANSWER_BYTES_MAX,
        }


def client_settings(cluster: Cluster, role: str) -> ClientSettings:
    """The settings of `cluster` for one role, such as `admin`, which is added to the client id.

    Raises ConfigError for a property that is missing, malformed or not supported.
    """
    client = cluster.client
    protocol = _one_of(client, "security.protocol", PROTOCOLS, "PLAINTEXT")
    prefix = client.get("client.id", "").strip() or "sparkmirror"
    return ClientSettings(
        alias=cluster.alias,
        bootstrap_servers=_bootstrap_servers(cluster),
        client_id=f"{prefix}-{role}",
        security_protocol=protocol,
        tls=tls_settings(client) if protocol.endswith("SSL") else None,
        sasl=sasl_settings(client) if protocol.startswith("SASL") else None,
        request_timeout_seconds=_seconds(client, "request.timeout.ms", 30_000),
        idle_seconds_max=_seconds(client, "connections.max.idle.ms", 540_000),
        metadata_age_seconds_max=_seconds(client, "metadata.max.age.ms", 300_000),
        client_rack=client.get("client.rack", ""),
    )


def _bootstrap_servers(cluster: Cluster) -> tuple[str, ...]:
    text = cluster.client.get("bootstrap.servers", "")
    servers = tuple(_SCHEME.sub("", item.strip()) for item in text.split(",") if item.strip())
    if not servers:
        key = f"{cluster.alias}.bootstrap.servers"
        raise ConfigError(f"{key} is missing or empty.", f"Add for example: {key} = broker:9092", key=key)
    for server in servers:
        if better := in_brackets(server):
            key = f"{cluster.alias}.bootstrap.servers"
            raise ConfigError(f"{server} in {key} is an IPv6 address without brackets.", f"Write {better}.", key=key)
        _, colon, port = server.rpartition(":")
        if not colon or not port.isdigit() or not 0 < int(port) < 65536:
            raise ConfigError(f"'{server}' in bootstrap.servers is not of the form host:port.", key="bootstrap.servers")
    return servers


def split_address(server: str) -> tuple[str, int]:
    """Host and port of a bootstrap server, of an IPv6 address without its brackets."""
    host, _, port = server.rpartition(":")
    return host.strip("[]"), int(port)


def _one_of(client: Mapping[str, str], key: str, allowed: tuple[str, ...], default: str) -> str:
    value = client.get(key, default).strip().upper()
    if value not in allowed:
        raise ConfigError(f"{key}={value} is not supported.", f"Use one of {', '.join(allowed)}.", key=key)
    return value


def _seconds(client: Mapping[str, str], key: str, default_ms: int) -> float:
    text = client.get(key, str(default_ms)).strip()
    if not text.isdigit() or int(text) == 0:
        raise ConfigError(f"{key}={text} is not a positive number of milliseconds.", key=key)
    return int(text) / 1000


def tls_settings(client: Mapping[str, str]) -> TlsSettings:
    """What the `ssl.*` properties of `client` say. Raises ConfigError."""
    versions, ciphers = _tls_versions(client), cipher_suites(client)
    if ciphers is not None:
        served = {"TLSv1.2": ciphers.before_1_3, "TLSv1.3": ciphers.of_1_3}
        versions = tuple(version for version in versions if served[version])
        if not versions:
            problem = "ssl.cipher.suites has no suite for the protocols of ssl.enabled.protocols."
            raise ConfigError(problem, key="ssl.cipher.suites")
    return TlsSettings(
        trust=_trust(client),
        key=_key(client),
        key_password=client.get("ssl.key.password", ""),
        check_hostname=client.get("ssl.endpoint.identification.algorithm", "https").strip() != "",
        versions=versions,
        ciphers=ciphers.before_1_3 if ciphers else (),
    )


def _trust(client: Mapping[str, str]) -> Store:
    if path := client.get("ssl.ca.location", "").strip():
        return Store(path)
    if location := client.get("ssl.truststore.location", "").strip():
        return _store_file(client, "ssl.truststore", location)
    return Store(pem=_unfolded(client.get("ssl.truststore.certificates", "")))


def _key(client: Mapping[str, str]) -> Store:
    if location := client.get("ssl.keystore.location", "").strip():
        return _store_file(client, "ssl.keystore", location)
    key, chain = client.get("ssl.keystore.key", ""), client.get("ssl.keystore.certificate.chain", "")
    if bool(key) != bool(chain):
        problem = "ssl.keystore.key and ssl.keystore.certificate.chain must be set together."
        raise ConfigError(problem, key="ssl.keystore.key")
    return Store(pem=f"{_unfolded(key)}\n{_unfolded(chain)}") if key else Store()


def _store_file(client: Mapping[str, str], name: str, location: str) -> Store:
    kind = _one_of(client, f"{name}.type", _STORE_TYPES, "JKS")
    return Store(location, is_pem=kind == "PEM", password=client.get(f"{name}.password", ""))


def _unfolded(pem: str) -> str:
    """Properties files often carry PEM on one line, with blanks where line ends were; Java accepts that."""
    parts = pem.replace("-----BEGIN", "\n-----BEGIN").replace("-----END", "\n-----END").split("\n")
    return "\n".join(_unfolded_line(part.strip()) for part in parts if part.strip()) + "\n" if pem.strip() else ""


def _unfolded_line(line: str) -> str:
    if not line.startswith("-----"):
        return "\n".join(line.split())
    border, dashes, rest = line[5:].partition("-----")
    return f"-----{border}{dashes}" + ("\n" + "\n".join(rest.split()) if rest.strip() else "")


def _tls_versions(client: Mapping[str, str]) -> tuple[str, ...]:
    names = client.get("ssl.enabled.protocols", "TLSv1.2,TLSv1.3").split(",")
    known = tuple(name.strip() for name in names if name.strip() in ("TLSv1.2", "TLSv1.3"))
    if not known:
        problem = "ssl.enabled.protocols names neither TLSv1.2 nor TLSv1.3."
        raise ConfigError(problem, key="ssl.enabled.protocols")
    return known
