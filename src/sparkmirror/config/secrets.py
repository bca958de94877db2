"""Decides which values are never shown (invariant 10). Called by everything that prints configuration."""

import re
from collections.abc import Mapping

from sparkmirror.shown import HIDDEN, hide_user_info

_SECRET_PARTS = ("password", "passphrase", "secret", "token", "credential", "jaas.config", "user.info", "userinfo")
_SECRET_WORDS = re.compile(
    r"(?:^|[._-])(?:pass|pwd|passwd|passcode|(?:api|access|account|shared)[._-]?keys?)(?:[._-]|$)"
)
_PROVIDER = re.compile(r"^config\.providers\.[^.]+\.(?:class$|param\.)")
"""The parameters of a config provider, which alone may be secret: its name may be that of the secret that it
provides."""
_SECRET_ENDS = ("ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.certificates", "private.key")
# Names that speak of a secret but hold none.
_OPEN_ENDS = (
    "token.endpoint.url",
    "private.key.file",
    "credentials.client.id",
    "user.info.source",
    "credentials.source",
)


def is_secret(key: str) -> bool:
    """Whether the value of `key`, under any prefix, must not be shown: Kafka's PASSWORD types and similar names."""
    name = _PROVIDER.sub("", key.lower())
    if name.endswith(_OPEN_ENDS):
        return False
    is_worded = any(part in name for part in _SECRET_PARTS) or _SECRET_WORDS.search(name) is not None
    return is_worded or name.endswith(_SECRET_ENDS)


def shown(key: str, value: str) -> str:
    """`value` without the log-ins of URLs in it, or `[hidden]` when `key` is secret."""
    return HIDDEN if is_secret(key) else hide_user_info(value)


def redact(properties: Mapping[str, str]) -> dict[str, str]:
    """A copy of `properties` that may be printed."""
    return {key: shown(key, value) for key, value in properties.items()}
