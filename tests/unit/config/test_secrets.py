"""Secrets never show (invariant 10)."""

import pytest

from sparkmirror.config.secrets import is_secret, redact


@pytest.mark.parametrize(
    "key",
    [
        "ssl.key.password",
        "ssl.keystore.password",
        "A.ssl.truststore.password",
        "ssl.keystore.key",
        "A.consumer.ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.truststore.certificates",
        "sasl.jaas.config",
        "A->B.source.cluster.sasl.jaas.config",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.PASSWORD",
        "some.api.token",
    ],
)
def test_these_are_secret(key: str) -> None:
    assert is_secret(key)


@pytest.mark.parametrize(
    "key",
    [
        "ssl.keystore.location",
        "ssl.keystore.type",
        "ssl.key",
        "security.protocol",
        "sasl.mechanism",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.assertion.private.key.file",
        "sasl.oauthbearer.client.credentials.client.id",
        "topics",
    ],
)
def test_these_are_not(key: str) -> None:
    assert not is_secret(key)


def test_redaction_keeps_what_is_open() -> None:
    assert redact({"a": "1", "ssl.key.password": "x"}) == {"a": "1", "ssl.key.password": "[hidden]"}
