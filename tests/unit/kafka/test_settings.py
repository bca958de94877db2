"""Java client properties and what becomes of them."""

import pickle
import ssl
from pathlib import Path

import pytest
from kafka import KafkaConsumer

from sparkmirror.errors import ConfigError, EnvironmentProblem
from sparkmirror.kafka.security.sasl import SaslSettings
from sparkmirror.kafka.settings import ClientSettings, client_settings, split_address
from sparkmirror.model import Cluster

LARGEST = "receive_message_max_bytes"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SASL = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": f'{SCRAM} required username="alice" password="hunter2";',
}


def settings(**client: str) -> ClientSettings:
    return settings_of({key.replace("_", "."): value for key, value in client.items()})


def settings_of(client: dict[str, str]) -> ClientSettings:
    return client_settings(Cluster("A", {"bootstrap.servers": "one:9092, two:9093"} | client), "admin")


def test_defaults_are_javas() -> None:
    found = settings()
    assert found.bootstrap_servers == ("one:9092", "two:9093")
    assert (found.security_protocol, found.client_id) == ("PLAINTEXT", "sparkmirror-admin")
    assert (found.request_timeout_seconds, found.idle_seconds_max, found.metadata_age_seconds_max) == (30, 540, 300)
    assert found.ssl_context() is None


def test_a_scheme_before_an_address_says_nothing_as_in_java() -> None:
    """Without that all own connections would look for a host named `SASL_SSL://one`."""
    cluster = Cluster("A", {"bootstrap.servers": "SASL_SSL://one:9092, my-listener://[::1]:9093"})
    servers = client_settings(cluster, "x").bootstrap_servers
    assert [split_address(server) for server in servers] == [("one", 9092), ("::1", 9093)]


def test_an_answer_of_a_broker_may_be_as_large_as_the_clients_allow() -> None:
    """A network client that is made for a client has another default, 1 MB: less than one fetch of a long topic."""
    assert settings().client_arguments()["receive_message_max_bytes"] == KafkaConsumer.DEFAULT_CONFIG[LARGEST]


def test_times_and_names_are_taken_over() -> None:
    found = settings(request_timeout_ms="1500", client_id="mirror", client_rack="r1", metadata_max_age_ms="1000")
    assert (found.request_timeout_seconds, found.client_id, found.client_rack) == (1.5, "mirror-admin", "r1")
    arguments = found.client_arguments()
    assert (arguments["request_timeout_ms"], arguments["metadata_max_age_ms"]) == (1500, 1000)


def test_sasl_credentials_come_from_the_jaas_line() -> None:
    arguments = settings_of(SASL).client_arguments()
    assert arguments["sasl_mechanism"] == "SCRAM-SHA-512"
    assert (arguments["sasl_plain_username"], arguments["sasl_plain_password"]) == ("alice", "hunter2")


def test_kerberos_takes_the_service_name_and_says_what_it_lacks() -> None:
    jaas = 'com.sun.security.auth.module.Krb5LoginModule required serviceName="kafka";'
    found = settings_of({"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": jaas})
    assert found.sasl == SaslSettings("GSSAPI", kerberos_service_name="kafka")
    with pytest.raises(EnvironmentProblem, match="package gssapi"):
        found.client_arguments()


def test_secrets_stay_out_of_repr_and_settings_travel_to_workers() -> None:
    inline = {"ssl.keystore.type": "PEM", "ssl.keystore.key": "KEYTEXT", "ssl.keystore.certificate.chain": "CHAIN"}
    found = settings_of(SASL | inline | {"security.protocol": "SASL_SSL", "ssl.key.password": "keypass"})
    assert found.sasl is not None
    assert found.tls is not None
    for secret in (found.sasl.password, found.tls.key.pem.strip(), found.tls.key_password):
        assert secret
        assert secret not in repr(found)
    assert "KEYTEXT" not in repr(found)
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(
    ("client", "key", "words"),
    [
        ({"bootstrap.servers": " , "}, "A.bootstrap.servers", "missing or empty"),
        ({"bootstrap.servers": "broker"}, "bootstrap.servers", "host:port"),
        ({"bootstrap.servers": "broker:99999"}, "bootstrap.servers", "host:port"),
        ({"bootstrap.servers": "::1:9092"}, "A.bootstrap.servers", r"without brackets.\n  hint: Write \[::1\]:9092"),
        ({"security.protocol": "TLS"}, "security.protocol", "Use one of PLAINTEXT"),
        ({"request.timeout.ms": "soon"}, "request.timeout.ms", "milliseconds"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "sasl.kerberos.service.name", "GSSAPI needs it"),
        (SASL | {"sasl.mechanism": "DIGEST-MD5"}, "sasl.mechanism", "Use one of PLAIN"),
        (SASL | {"sasl.login.class": "com.acme.Login"}, "sasl.login.class", "is a Java class"),
        (SASL | {"sasl.jaas.config": ""}, "sasl.jaas.config", "missing"),
        (SASL | {"sasl.jaas.config": f'{SCRAM} required username="alice" hunter2'}, "sasl.jaas.config", "semicolon"),
        (SASL | {"sasl.jaas.config": f'{SCRAM} required password="hunter2";'}, "sasl.jaas.config", "lacks a username"),
        (
            {"security.protocol": "SSL", "ssl.keystore.location": "k.bks", "ssl.keystore.type": "bcfks"},
            "ssl.keystore.type",
            "BCFKS is not supported",
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.key": "k", "ssl.keystore.type": "PEM"},
            "ssl.keystore.key",
            "must be set together",
        ),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1"}, "ssl.enabled.protocols", "neither"),
    ],
)
def test_what_cannot_be_used_is_a_sentence_with_its_key(client: dict[str, str], key: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        settings_of(client)
    assert caught.value.key == key
    assert "hunter2" not in str(caught.value)


def test_tls_trusts_a_pem_file_or_text(localhost_pem: tuple[str, str], tmp_path: Path) -> None:
    _, certificate = localhost_pem
    file = tmp_path / "ca.pem"
    file.write_text(certificate)
    for client in (
        {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(file)},
        {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": certificate},
        {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": " ".join(certificate.split("\n"))},
        {"ssl.ca.location": str(file)},
    ):
        context = settings_of({"security.protocol": "SSL"} | client).ssl_context()
        assert context is not None
        assert context.cert_store_stats()["x509"] == 1
        assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)


def test_an_empty_identification_algorithm_turns_off_the_host_name_check_only(localhost_pem: tuple[str, str]) -> None:
    client = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": localhost_pem[1],
        "ssl.endpoint.identification.algorithm": "",
    }
    context = settings_of(client).ssl_context()
    assert context is not None
    assert (context.check_hostname, context.verify_mode) == (False, ssl.CERT_REQUIRED)


def test_a_client_certificate_is_taken_from_one_file_or_from_text(
    localhost_pem: tuple[str, str], tmp_path: Path
) -> None:
    key, certificate = localhost_pem
    file = tmp_path / "client.pem"
    file.write_text(key + certificate)
    pem = {"security.protocol": "SSL", "ssl.keystore.type": "PEM"}
    inline = {"ssl.keystore.key": " ".join(key.split()), "ssl.keystore.certificate.chain": certificate}
    one_line_key = " ".join(key.split("\n"))
    for client in (
        {"ssl.keystore.location": str(file)},
        inline,
        inline | {"ssl.keystore.key": one_line_key},
    ):
        assert settings_of(pem | client).ssl_context() is not None


def test_an_unusable_store_names_its_property(tmp_path: Path) -> None:
    pem = {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.keystore.type": "PEM"}
    missing = str(tmp_path / "missing.pem")
    damaged = tmp_path / "damaged.pem"
    damaged.write_text("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")
    for client, words in (
        ({"ssl.truststore.location": missing}, "ssl.truststore.location .*missing.pem"),
        ({"ssl.truststore.location": str(damaged)}, "ssl.truststore.location .*damaged.pem"),
        ({"ssl.truststore.certificates": "no pem at all"}, "ssl.truststore.certificates cannot be used"),
        ({"ssl.keystore.location": missing}, "ssl.keystore.location .*missing.pem"),
    ):
        with pytest.raises(ConfigError, match=words):
            settings_of(pem | client).ssl_context()
