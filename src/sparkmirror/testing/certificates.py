"""A throw-away certificate authority with one broker certificate and one client certificate. Called by `kafka` for TLS
listeners.

The client has a second certificate, which has expired.
"""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from sparkmirror.testing.layout import TlsFiles

VALIDITY_DAYS = 30
Key = ec.EllipticCurvePrivateKey


def make_certificates(directory: Path, client_name: str = "client") -> TlsFiles:
    """Write PEM files into `directory`: the broker is 127.0.0.1 and localhost, the client's principal is CN=`client`.

    Keys are P-256, without a pass phrase, mode 0600; certificates hold for 30 days.
    """
    directory.mkdir(parents=True)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca = _sign("sparkmirror test authority", ca_key, None, ca_key)
    broker_key, client_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    broker, client = _sign("localhost", broker_key, ca, ca_key), _sign(client_name, client_key, ca, ca_key)
    expired = _sign(client_name, client_key, ca, ca_key, valid_days=-1)
    return TlsFiles(
        ca_file=_write(directory / "ca.pem", _pem(ca)),
        broker_file=_write(directory / "broker.pem", _key_pem(broker_key) + _pem(broker)),
        client_certificate_file=_write(directory / "client.pem", _pem(client)),
        client_key_file=_write(directory / "client-key.pem", _key_pem(client_key)),
        expired_client_file=_write(directory / "expired.pem", _key_pem(client_key) + _pem(expired)),
    )


def _sign(
    name: str, key: Key, issuer: x509.Certificate | None, issuer_key: Key, valid_days: int = VALIDITY_DAYS
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    loopback = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=2))
        .not_valid_after(now + datetime.timedelta(days=valid_days))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        # Python 3.13 refuses a chain whose certificates lack this (VERIFY_X509_STRICT).
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if issuer is None:
        builder = builder.add_extension(_signing_usage(), critical=True)
    else:
        builder = builder.add_extension(x509.SubjectAlternativeName(loopback), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _signing_usage() -> x509.KeyUsage:
    names = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
             "key_cert_sign", "crl_sign", "encipher_only", "decipher_only")  # fmt: skip
    return x509.KeyUsage(**{name: name in ("key_cert_sign", "crl_sign") for name in names})


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def _key_pem(key: Key) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(path: Path, content: bytes) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(content)
    return path
