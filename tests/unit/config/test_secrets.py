"""Secrets never show (invariant 10)."""

import re

import pytest

from sparkmirror.config.secrets import is_secret, redact, shown
from sparkmirror.shown import hide_user_info
from sparkmirror.spark.session import FIXED_SETTINGS


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
        "basic.auth.user.info",
        "value.converter.basic.auth.user.info",
        "apikey",
        "acme.api.key",
        "acme.api-key",
        "s3.access.key",
        "fs.s3a.access.key",
        "fs.azure.account.key",
        "db.pwd",
        "A->B.acme.ldap.pass",
        "db-pass",
        "PWD",
        "status.read.only.token",
        "status.ssl.keystore.password",
        "config.providers.vault.param.token",
        "config.providers.secrets.param.password",
    ],
)
def test_keys_of_secrets_are_recognised(key: str) -> None:
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
        "basic.auth.credentials.source",
        "status.ssl.keystore.location",
        "partitioning",
        "config.providers",
        "config.providers.secrets.class",
        "config.providers.token.param.allowed.paths",
        "monkeys",
        "acme.passes",
        "bypass",
        "key.converter",
    ],
)
def test_ordinary_keys_are_not_taken_for_secrets(key: str) -> None:
    assert not is_secret(key)


@pytest.mark.parametrize(
    ("text", "shown_as"),
    [
        ("http://me:pa55@proxy:3128", "http://[hidden]@proxy:3128"),
        ("see https://me:p@55@host/x?y=1 and a@b", "see https://[hidden]@host/x?y=1 and a@b"),
        ("jdbc:postgresql://u:pa55@db/x", "jdbc:postgresql://[hidden]@db/x"),
        ("https://host:9092/path@7", "https://host:9092/path@7"),
        ("http://token@host/", "http://[hidden]@host/"),
        ("mail me@host", "mail me@host"),
    ],
)
def test_the_log_in_of_a_url_is_hidden_wherever_it_stands(text: str, shown_as: str) -> None:
    assert hide_user_info(text) == shown("some.url", text) == shown_as
    assert "pa55" not in redact({"some.url": text})["some.url"]


def test_redaction_keeps_what_is_open() -> None:
    assert redact({"a": "1", "ssl.key.password": "x"}) == {"a": "1", "ssl.key.password": "[hidden]"}


@pytest.mark.parametrize("setting", ["basic.auth.user.info", "acme.apikey", "s3.access.key", "db.pwd", "x.passphrase"])
def test_spark_hides_on_its_pages_what_we_hide(setting: str) -> None:
    hidden = re.compile(FIXED_SETTINGS["spark.redaction.regex"])
    assert is_secret(setting) and hidden.search(setting)
    assert hidden.search("http://me:pa55@proxy:3128") and not hidden.search("spark://host:7077")
