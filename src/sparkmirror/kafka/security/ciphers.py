"""`ssl.cipher.suites`: Java's names of cipher suites as OpenSSL's. Called by `kafka.settings` and
`config.flow.security`.

Java takes the names of the TLS registry, `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`; OpenSSL has its own for TLS 1.2. The
suites of TLS 1.3 have the same names in both, and Python offers all of them or none.
"""

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from sparkmirror.errors import ConfigError

KEY = "ssl.cipher.suites"
OFFERED_1_3 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
_KNOWN_1_3 = (*OFFERED_1_3, "TLS_AES_128_CCM_SHA256", "TLS_AES_128_CCM_8_SHA256")
_NO_SUITE = "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"
_SUITE = re.compile(r"(?:TLS|SSL)_(?P<exchange>[A-Z_]+)_WITH_(?P<cipher>[A-Z0-9_]+)")
_RULES = (
    (re.compile(r"^(AES|CAMELLIA|ARIA)_(\d+)_"), r"\1\2_"),
    (re.compile(r"_CBC_SHA"), "_SHA"),
    (re.compile(r"(CHACHA20_POLY1305)_SHA256"), r"\1"),
    (re.compile(r"_CCM_8$"), "_CCM8"),
)


@dataclass(frozen=True, slots=True)
class CipherSuites:
    """The suites that a client may use: those up to TLS 1.2 by OpenSSL's names, and those of TLS 1.3."""

    before_1_3: tuple[str, ...]
    of_1_3: tuple[str, ...]

    @property
    def are_cut_short(self) -> bool:
        """Whether TLS 1.3 is wanted with fewer suites than it is offered with."""
        return bool(self.of_1_3) and not set(OFFERED_1_3) <= set(self.of_1_3)


def cipher_suites(client: Mapping[str, str]) -> CipherSuites | None:
    """The suites that `client` lists, None without a list. Raises ConfigError for one that OpenSSL does not know."""
    listed = [name for item in client.get(KEY, "").split(",") if (name := item.strip()) and name != _NO_SUITE]
    if not listed:
        return None
    before = tuple(openssl_name(name) for name in listed if name not in _KNOWN_1_3)
    return CipherSuites(before, tuple(name for name in listed if name in _KNOWN_1_3))


def openssl_name(suite: str) -> str:
    """OpenSSL's name of a suite of TLS 1.2 or older. Raises ConfigError for one that it does not know."""
    match = _SUITE.fullmatch(suite)
    cipher = match["cipher"] if match else suite
    for pattern, replacement in _RULES:
        cipher = pattern.sub(replacement, cipher)
    exchange = f"{match['exchange']}_" if match and match["exchange"] != "RSA" else ""
    name = f"{exchange}{cipher}".replace("_", "-")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers(name)
    except ssl.SSLError:
        hint = "Use the names of the TLS registry, such as TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384."
        raise ConfigError(f"{KEY}={suite} is not known to OpenSSL here.", hint, key=KEY) from None
    return name
