"""Java's key stores, as `keytool` writes them."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkmirror.errors import ConfigError
from sparkmirror.java import find_java
from sparkmirror.kafka.security.tls import StoreProblem, private_key, trusted_certificates
from sparkmirror.kafka.settings import client_settings
from sparkmirror.model import Cluster

PASSWORD, KEY_PASSWORD = "store-secret", "key-secret"
KINDS = ("JKS", "PKCS12")
Keytool = Callable[..., str]


@pytest.fixture(scope="module")
def keytool() -> Keytool:
    program = find_java().with_name("keytool")

    def run(*arguments: str) -> str:
        command = [str(program), "-J-Xshare:auto", "-J-XX:TieredStopAtLevel=1", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

    return run


@pytest.fixture(scope="module")
def stores(keytool: Keytool, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """`JKS` and `PKCS12`: key stores; `JKS-trust` and `PKCS12-trust`: trust stores; `pem`: the certificate alone."""
    directory = tmp_path_factory.mktemp("stores")
    made = {"pem": directory / "certificate.pem"}
    for kind in KINDS:
        made[kind], made[f"{kind}-trust"] = directory / f"keys.{kind}", directory / f"trust.{kind}"
        own = ["-keypass", KEY_PASSWORD] if kind == "JKS" else []
        store = ["-storetype", kind, "-storepass", PASSWORD, "-alias", "client", "-keystore"]
        keytool("-genkeypair", "-keyalg", "EC", "-dname", "CN=client", *own, *store, str(made[kind]))
        made["pem"].write_text(keytool("-exportcert", "-rfc", *store, str(made[kind])))
        keytool("-importcert", "-noprompt", "-file", str(made["pem"]), *store, str(made[f"{kind}-trust"]))
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_a_trust_store_gives_its_certificates(stores: dict[str, Path], kind: str) -> None:
    found = trusted_certificates(stores[f"{kind}-trust"].read_bytes(), PASSWORD)
    assert found.count("BEGIN CERTIFICATE") == 1
    client = {
        "bootstrap.servers": "one:9092",
        "security.protocol": "SSL",
        "ssl.truststore.location": str(stores[f"{kind}-trust"]),
        "ssl.truststore.password": PASSWORD,
    }
    context = client_settings(Cluster("A", client), "test").ssl_context()
    assert context is not None
    assert context.cert_store_stats()["x509"] == 1, "whatever the type says, the content tells"


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_store_serves_as_a_client_certificate(stores: dict[str, Path], kind: str) -> None:
    client = {
        "bootstrap.servers": "one:9092",
        "security.protocol": "SSL",
        "ssl.keystore.type": kind,
        "ssl.keystore.location": str(stores[kind]),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": KEY_PASSWORD,
    }
    assert client_settings(Cluster("A", client), "test").ssl_context() is not None
    wrong = client | {"ssl.keystore.password": "not-it", "ssl.key.password": "nor-this"}
    with pytest.raises(ConfigError, match=r"ssl.keystore.location .* password is wrong") as caught:
        client_settings(Cluster("A", wrong), "test").ssl_context()
    assert not any(secret in str(caught.value) for secret in ("not-it", "nor-this", PASSWORD, KEY_PASSWORD))


def test_a_jks_trust_store_opens_without_a_password_and_a_jks_key_with_its_own(stores: dict[str, Path]) -> None:
    assert trusted_certificates(stores["JKS-trust"].read_bytes(), "")
    keys = stores["JKS"].read_bytes()
    assert "BEGIN PRIVATE KEY" in private_key(keys, PASSWORD, KEY_PASSWORD)
    with pytest.raises(StoreProblem, match=r"set ssl\.key\.password"):
        private_key(keys, PASSWORD, "")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"-----BEGIN", "PEM"),
        (b"", "neither"),
        (b"\x30\x03\x02\x01", "damaged"),
        (b"\xfe\xed\xfe\xed" + b"\1" * 40, "damaged"),
    ],
    ids=["PEM", "empty", "a torn PKCS12", "a torn JKS"],
)
def test_what_is_no_store_is_reported(content: bytes, words: str) -> None:
    with pytest.raises(StoreProblem, match=words):
        trusted_certificates(content, "")


def test_a_cut_off_store_is_reported(stores: dict[str, Path]) -> None:
    whole = stores["JKS"].read_bytes()
    for length in range(12, len(whole) - 20, 97):
        with pytest.raises(StoreProblem):
            private_key(whole[:length], "", KEY_PASSWORD)


def test_a_trust_store_without_certificates_and_a_key_store_without_a_key_are_reported(stores: dict[str, Path]) -> None:
    for kind in KINDS:
        with pytest.raises(StoreProblem, match="no private key"):
            private_key(stores[f"{kind}-trust"].read_bytes(), PASSWORD, "")
    with pytest.raises(StoreProblem, match="no trusted certificate"):
        trusted_certificates(stores["JKS"].read_bytes(), PASSWORD)
