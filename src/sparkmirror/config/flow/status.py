"""Settings of the status page, for `web.server`, and of what is said, for `logs.handlers`.

Read by `config/flow/flows.py`; the keys are in `config/keys/status_keys.py`.
"""

from dataclasses import dataclass, field
from ipaddress import ip_address

from sparkmirror.config.formats.properties import Properties
from sparkmirror.config.keys.status_keys import (
    LOG_FORMAT,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_IP,
    PROBES_LISTEN,
    READ_ONLY_TOKEN,
    SSL_PREFIX,
    STATUS_LISTEN,
    STATUS_SSL,
    STATUS_TOKEN,
)
from sparkmirror.config.problems import Problems
from sparkmirror.config.reading import Reader
from sparkmirror.config.types import NOWHERE, Address
from sparkmirror.errors import ConfigError
from sparkmirror.kafka.security.tls import TlsSettings
from sparkmirror.kafka.settings import tls_settings


@dataclass(frozen=True, slots=True)
class StatusSettings:
    """`listen` is false where nothing is served; `token` is empty where nothing may be changed.

    `log_format` is how the mirror says what happens: `text` or `json`. `tls` is None where the page speaks plain HTTP.
    """

    listen: Address = NOWHERE
    token: str = field(default="", repr=False)
    log_format: str = LOG_FORMAT.default
    read_only_token: str = field(default="", repr=False)
    probes_listen: Address = NOWHERE
    tls: TlsSettings | None = None
    max_connections: int = MAX_CONNECTIONS.default
    max_connections_per_ip: int = MAX_CONNECTIONS_PER_IP.default

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.listen.host)


def is_loopback(host: str) -> bool:
    """Of an address, or of the name `localhost`; other names may mean anything."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def read_status(properties: Properties, problems: Problems) -> StatusSettings:
    """Notes an address that others can reach without a token, and certificates that cannot be meant."""
    reader = Reader(properties.entries, problems)
    settings = StatusSettings(
        reader.read(STATUS_LISTEN),
        reader.read(STATUS_TOKEN),
        reader.read(LOG_FORMAT),
        reader.read(READ_ONLY_TOKEN),
        reader.read(PROBES_LISTEN),
        _read_tls(properties, reader, problems),
        reader.read(MAX_CONNECTIONS),
        reader.read(MAX_CONNECTIONS_PER_IP),
    )
    if settings.listen and not settings.is_loopback and not (settings.token or settings.read_only_token):
        entry = properties.get(STATUS_LISTEN.name)
        hint = "add a `status.token`, best by a config provider: `${file:/etc/sparkmirror/secrets:token}`"
        problems.error(f"`status.listen = {settings.listen}` lets other machines in without a token", hint, entry)
    if settings.token and settings.token == settings.read_only_token:
        hint = "give those who only look a token of their own"
        problems.error("`status.read.only.token` is `status.token`", hint, properties.get(READ_ONLY_TOKEN.name))
    return settings


def _read_tls(properties: Properties, reader: Reader, problems: Problems) -> TlsSettings | None:
    """None without a line of `status.ssl.*`; no store is opened here."""
    said = {key.name.removeprefix(SSL_PREFIX): reader.read(key) for key in STATUS_SSL if reader.has(key)}
    if not said:
        return None
    entry = next(entry for key in STATUS_SSL if (entry := properties.get(key.name)))
    try:
        settings = tls_settings(said)
    except ConfigError as problem:
        problems.error(f"status.{problem.args[0]}", problem.hint, properties.get(SSL_PREFIX + problem.key) or entry)
        return None
    if not settings.key:
        hint = "set `status.ssl.keystore.location`, or leave all of `status.ssl.*` out"
        problems.error("`status.ssl.*` names no key and certificate for the page", hint, entry)
    return settings
