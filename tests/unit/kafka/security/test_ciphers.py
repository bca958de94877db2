"""Cipher suites by the names that Java takes, as OpenSSL knows them here."""

import ssl

import pytest

from sparkmirror.errors import ConfigError
from sparkmirror.kafka.security.ciphers import cipher_suites, openssl_name
from sparkmirror.kafka.settings import client_settings
from sparkmirror.model import Cluster


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384", "ECDHE-ECDSA-AES256-SHA384"),
        ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_256_CCM_8", "DHE-RSA-AES256-CCM8"),
    ],
)
def test_a_name_of_the_registry_is_a_suite_of_openssl(java: str, openssl: str) -> None:
    assert openssl_name(java) == openssl


def context_of(**properties: str) -> ssl.SSLContext:
    client = {"bootstrap.servers": "a:1", "security.protocol": "SSL"}
    client |= {name.replace("_", "."): value for name, value in properties.items()}
    context = client_settings(Cluster("A", client), "test").ssl_context()
    assert context is not None
    return context


def old_suites(context: ssl.SSLContext) -> set[str]:
    return {str(suite["name"]) for suite in context.get_ciphers() if suite["protocol"] != "TLSv1.3"}


def test_a_list_bounds_what_is_offered_and_with_it_the_protocols() -> None:
    suite = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
    only_old = context_of(ssl_cipher_suites=f"{suite}, TLS_EMPTY_RENEGOTIATION_INFO_SCSV")
    assert old_suites(only_old) == {"ECDHE-RSA-AES128-GCM-SHA256"}
    assert only_old.maximum_version is ssl.TLSVersion.TLSv1_2
    assert context_of(ssl_cipher_suites="TLS_AES_128_GCM_SHA256").minimum_version is ssl.TLSVersion.TLSv1_3
    both = context_of(ssl_cipher_suites=f"TLS_AES_128_GCM_SHA256,{suite}")
    assert (both.minimum_version, both.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


def test_a_suite_that_is_not_known_and_one_that_no_protocol_has_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"ssl\.cipher\.suites=TLS_NULL_WITH_X is not known to OpenSSL"):
        context_of(ssl_cipher_suites="TLS_NULL_WITH_X")
    with pytest.raises(ConfigError, match="has no suite for the protocols"):
        context_of(ssl_cipher_suites="TLS_AES_128_GCM_SHA256", ssl_enabled_protocols="TLSv1.2")


def test_fewer_suites_of_tls_1_3_than_python_offers_are_noticed() -> None:
    assert cipher_suites({}) is None
    few = cipher_suites({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"})
    assert few is not None and few.are_cut_short
