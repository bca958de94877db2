"""Java key stores for tests, made from the PEM files of a test cluster as administrators make them."""

import subprocess
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12

from sparkmirror.java import find_java
from sparkmirror.testing.kafka import KafkaCluster
from sparkmirror.testing.layout import TlsFiles


def trust_store(ca_file: Path, store: Path, password: str, kind: str) -> Path:
    """A JKS or PKCS12 trust store with one authority, by `keytool`."""
    subprocess.run(
        [
            str(find_java().with_name("keytool")), "-J-XX:TieredStopAtLevel=1", "-importcert", "-noprompt",
            "-alias", "ca", "-file", str(ca_file), "-storetype", kind, "-storepass", password, "-keystore", str(store),
        ],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    return store


def key_store(files: TlsFiles, store: Path, password: str) -> Path:
    """A PKCS12 key store with the client's key and certificate."""
    key = load_pem_private_key(files.client_key_file.read_bytes(), None)
    certificate = x509.load_pem_x509_certificate(files.client_certificate_file.read_bytes())
    encryption = BestAvailableEncryption(password.encode())
    store.write_bytes(pkcs12.serialize_key_and_certificates(b"client", key, certificate, None, encryption))  # type: ignore[arg-type]
    return store


def by_certificate(cluster: KafkaCluster, directory: Path, password: str) -> dict[str, str]:
    """A client's properties for mutual TLS, with a JKS trust store and a PKCS12 key store in `directory`."""
    return {
        "bootstrap.servers": cluster.bootstrap_servers_tls,
        "security.protocol": "SSL",
        "ssl.truststore.location": str(trust_store(cluster.ca_file, directory / "trust.jks", password, "JKS")),
        "ssl.truststore.password": password,
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(key_store(cluster.tls, directory / "keys.p12", password)),
        "ssl.keystore.password": password,
    }
