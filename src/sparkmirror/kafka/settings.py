"""Java client properties to what our two kinds of connections need; pure, called by `kafka.clients` and the bulk wire.

The names are those of Kafka's own documentation (`bootstrap.servers`, `security.protocol`, `ssl.*`, `sasl.*`), since
configuration files are MirrorMaker's. `ssl.ca.location`, librdkafka's name of a PEM trust store, is taken too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Any

from sparkmirror.errors import ConfigError
from sparkmirror.kafka.jaas import parse_jaas
from sparkmirror.kafka.tls import TlsSettings
from sparkmirror.model import Cluster

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_PEM_HINT = (
    "Export the store to PEM and set {store}.type=PEM: keytool -importkeystore -srckeystore <store> "
    "-destkeystore store.p12 -deststoretype PKCS12, then openssl pkcs12 -in store.p12 -out store.pem"
)


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user and password for PLAIN or SCRAM; the password is kept out of `repr`."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How to reach one cluster. Picklable and free of secrets in `repr`; times are in seconds."""

    alias: str
    bootstrap_servers: tuple[str, ...]
    client_id: str
    security_protocol: str = "PLAINTEXT"
    tls: TlsSettings | None = None
    sasl_mechanism: str = ""
    credentials: Credentials | None = None
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
            "sasl_mechanism": self.sasl_mechanism or None,
            "sasl_plain_username": self.credentials.username if self.credentials else None,
            "sasl_plain_password": self.credentials.password if self.credentials else None,
            "request_timeout_ms": int(self.request_timeout_seconds * 1000),
            "connections_max_idle_ms": int(self.idle_seconds_max * 1000),
            "metadata_max_age_ms": int(self.metadata_age_seconds_max * 1000),
        }


def client_settings(cluster: Cluster, role: str) -> ClientSettings:
    """The settings of `cluster` for one role, such as `admin`, which is added to the client id.

    Raises ConfigError for a property that is missing, malformed or not supported.
    """
    client = cluster.client
    protocol = _one_of(client, "security.protocol", PROTOCOLS, "PLAINTEXT")
    sasl = protocol.startswith("SASL")
    mechanism = _one_of(client, "sasl.mechanism", MECHANISMS, "GSSAPI") if sasl else ""
    prefix = client.get("client.id", "").strip() or "sparkmirror"
    return ClientSettings(
        alias=cluster.alias,
        bootstrap_servers=_bootstrap_servers(cluster),
        client_id=f"{prefix}-{role}",
        security_protocol=protocol,
        tls=_tls(client) if protocol.endswith("SSL") else None,
        sasl_mechanism=mechanism,
        credentials=_credentials(client) if sasl else None,
        request_timeout_seconds=_seconds(client, "request.timeout.ms", 30_000),
        idle_seconds_max=_seconds(client, "connections.max.idle.ms", 540_000),
        metadata_age_seconds_max=_seconds(client, "metadata.max.age.ms", 300_000),
        client_rack=client.get("client.rack", ""),
    )


def _bootstrap_servers(cluster: Cluster) -> tuple[str, ...]:
    text = cluster.client.get("bootstrap.servers", "")
    servers = tuple(item.strip() for item in text.split(",") if item.strip())
    if not servers:
        key = f"{cluster.alias}.bootstrap.servers"
        raise ConfigError(f"{key} is missing or empty.", f"Add for example: {key} = broker:9092", key=key)
    for server in servers:
        _, colon, port = server.rpartition(":")
        if not colon or not port.isdigit() or not 0 < int(port) < 65536:
            raise ConfigError(f"'{server}' in bootstrap.servers is not of the form host:port.", key="bootstrap.servers")
    return servers


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


def _credentials(client: Mapping[str, str]) -> Credentials:
    key = "sasl.jaas.config"
    hint = f'{key}=org.apache.kafka.common.security.scram.ScramLoginModule required username="..." password="...";'
    if not client.get(key, "").strip():
        raise ConfigError(f"{key} is missing, and SASL needs it.", hint, key=key)
    try:
        options = parse_jaas(client[key]).options
    except ValueError as problem:
        raise ConfigError(f"{key} cannot be read: {problem}.", hint, key=key) from None
    if not options.get("username") or "password" not in options:
        raise ConfigError(f"{key} lacks a username or a password.", hint, key=key)
    return Credentials(options["username"], options["password"])


def _tls(client: Mapping[str, str]) -> TlsSettings:
    trust_file, trust_pem = _trust(client)
    key_file, key_pem = _key(client)
    return TlsSettings(
        trust_file=trust_file,
        trust_pem=trust_pem,
        key_file=key_file,
        key_pem=key_pem,
        key_password=client.get("ssl.key.password", ""),
        check_hostname=client.get("ssl.endpoint.identification.algorithm", "https").strip() != "",
        versions=_tls_versions(client),
    )


def _trust(client: Mapping[str, str]) -> tuple[str, str]:
    if path := client.get("ssl.ca.location", "").strip():
        return path, ""
    location = client.get("ssl.truststore.location", "").strip()
    certificates = client.get("ssl.truststore.certificates", "")
    if location or certificates:
        _require_pem(client, "ssl.truststore")
    return location, "" if location else _unfolded(certificates)


def _key(client: Mapping[str, str]) -> tuple[str, str]:
    location = client.get("ssl.keystore.location", "").strip()
    key, chain = client.get("ssl.keystore.key", ""), client.get("ssl.keystore.certificate.chain", "")
    if not (location or key or chain):
        return "", ""
    _require_pem(client, "ssl.keystore")
    if location:
        return location, ""
    if not (key and chain):
        problem = "ssl.keystore.key and ssl.keystore.certificate.chain must be set together."
        raise ConfigError(problem, key="ssl.keystore.key")
    return "", f"{_unfolded(key)}\n{_unfolded(chain)}"


def _unfolded(pem: str) -> str:
    """Properties files often carry PEM on one line, with blanks where line ends were; Java accepts that."""
    parts = pem.replace("-----BEGIN", "\n-----BEGIN").replace("-----END", "\n-----END").split("\n")
    return "\n".join(_unfolded_line(part.strip()) for part in parts if part.strip()) + "\n" if pem.strip() else ""


def _unfolded_line(line: str) -> str:
    if not line.startswith("-----"):
        return "\n".join(line.split())
    border, dashes, rest = line[5:].partition("-----")
    return f"-----{border}{dashes}" + ("\n" + "\n".join(rest.split()) if rest.strip() else "")


def _require_pem(client: Mapping[str, str], store: str) -> None:
    kind = client.get(f"{store}.type", "JKS").strip().upper()
    if kind != "PEM":
        hint = _PEM_HINT.format(store=store)
        raise ConfigError(f"{store}.type={kind} is not supported yet, only PEM is.", hint, key=f"{store}.type")


def _tls_versions(client: Mapping[str, str]) -> tuple[str, ...]:
    names = client.get("ssl.enabled.protocols", "TLSv1.2,TLSv1.3").split(",")
    known = tuple(name.strip() for name in names if name.strip() in ("TLSv1.2", "TLSv1.3"))
    if not known:
        problem = "ssl.enabled.protocols names neither TLSv1.2 nor TLSv1.3."
        raise ConfigError(problem, key="ssl.enabled.protocols")
    return known
