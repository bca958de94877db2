"""Which values are never shown (invariant 10). Called by everything that prints configuration."""

from collections.abc import Mapping

HIDDEN = "[hidden]"

_SECRET_PARTS = ("password", "passphrase", "secret", "token", "credential", "jaas.config")
_SECRET_ENDS = ("ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.certificates", "private.key")
# Names that speak of a secret but hold none.
_OPEN_ENDS = ("token.endpoint.url", "private.key.file", "credentials.client.id")


def is_secret(key: str) -> bool:
    """Whether the value of `key`, under any prefix, must not be shown. Kafka's PASSWORD types and what sounds alike."""
    name = key.lower()
    if name.endswith(_OPEN_ENDS):
        return False
    return name.endswith(_SECRET_ENDS) or any(part in name for part in _SECRET_PARTS)


def shown(key: str, value: str) -> str:
    """`value`, or `[hidden]` when `key` is secret."""
    return HIDDEN if is_secret(key) else value


def redact(properties: Mapping[str, str]) -> dict[str, str]:
    """A copy of `properties` that may be printed."""
    return {key: shown(key, value) for key, value in properties.items()}
