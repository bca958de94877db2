"""Settings of the status page, for `web.server`, and of what is said, for `engine.speech`.

Read by `config/flows.py`; the keys are in `config/status_keys.py`.
"""

from dataclasses import dataclass, field
from ipaddress import ip_address

from sparkmirror.config.problems import Problems
from sparkmirror.config.properties import Properties
from sparkmirror.config.reading import Reader
from sparkmirror.config.status_keys import LOG_FORMAT, STATUS_LISTEN, STATUS_TOKEN
from sparkmirror.config.types import NOWHERE, Address


@dataclass(frozen=True, slots=True)
class StatusSettings:
    """`listen` is false where nothing is served; `token` is empty where nothing may be changed.

    `log_format` is how the mirror says what happens: `text` or `json`.
    """

    listen: Address = NOWHERE
    token: str = field(default="", repr=False)
    log_format: str = LOG_FORMAT.default

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
    """Notes an address that others can reach without a token."""
    reader = Reader(properties.entries, problems)
    settings = StatusSettings(reader.read(STATUS_LISTEN), reader.read(STATUS_TOKEN), reader.read(LOG_FORMAT))
    if settings.listen and not settings.is_loopback and not settings.token:
        entry = properties.get(STATUS_LISTEN.name)
        hint = "add a `status.token`, best by a config provider: `${file:/etc/sparkmirror/secrets:token}`"
        problems.error(f"`status.listen = {settings.listen}` lets other machines in without a token", hint, entry)
    return settings
