"""TLS and logins of a Strimzi resource as client properties. Called by `config/formats/strimzi.py`.

A secret is given as a reference, the text that a config provider resolves when the file is read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path

from sparkmirror.config.formats.properties import Entry
from sparkmirror.config.formats.yaml_lines import Branch
from sparkmirror.config.types import split_list
from sparkmirror.errors import ConfigError

SECRETS = "strimzi-secrets"
"""The name of the config provider that reads them."""

_DIRECTORY_PROVIDER = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"


@dataclass(frozen=True, slots=True)
class Secrets:
    """The directory that has key K of the secret N as the file `N/K`, as a pod mounts it."""

    directory: Path

    def reference(self, secret: str, key: str) -> str:
        """The text that the config provider resolves."""
        return f"${{{SECRETS}:{self.directory / secret}:{key}}}"

    def names(self, secret: str, pattern: str) -> list[str]:
        """The keys of a secret that match a pattern: its files."""
        directory = self.directory / secret
        files = sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []
        return [name for name in files if fnmatch(name, pattern)]


def provider_entries(own: Mapping[str, Entry], line: int) -> Iterator[Entry]:
    """The config providers that a Connect cluster's `config` names, and the one for secrets."""
    names = own.get("config.providers", Entry("config.providers", "", line))
    listed = [*split_list(names.value), SECRETS]
    yield replace(names, value=", ".join(dict.fromkeys(listed)))
    yield from (entry for key, entry in own.items() if key.startswith("config.providers."))
    yield Entry(f"config.providers.{SECRETS}.class", _DIRECTORY_PROVIDER, line)


_JAAS = "org.apache.kafka.common.security"
_MECHANISMS = {
    "plain": ("PLAIN", f"{_JAAS}.plain.PlainLoginModule"),
    "scram-sha-256": ("SCRAM-SHA-256", f"{_JAAS}.scram.ScramLoginModule"),
    "scram-sha-512": ("SCRAM-SHA-512", f"{_JAAS}.scram.ScramLoginModule"),
}
_OAUTH_FIELDS = ("type", "clientId", "clientSecret", "tokenEndpointUri", "scope")


def trust_entries(alias: str, tls: Branch | None, secrets: Secrets, file: str) -> Iterator[Entry]:
    """The certificates that a cluster's brokers are trusted by. Raises ConfigError when a pattern matches none."""
    certificates: list[str] = []
    for trusted in tls.items_at("trustedCertificates") if tls else ():
        secret, pattern = trusted.text_at("secretName"), trusted.text_at("pattern")
        keys = secrets.names(secret, pattern) if pattern else [trusted.text_at("certificate")]
        if not keys:
            message = f"the secret `{secret}` of `{alias}` has no file that matches `{pattern}`"
            hint = "say with --secrets-dir where it is, or name the `certificate`"
            raise ConfigError(message, hint, line=trusted.line, file=file)
        certificates += [secrets.reference(secret, key) for key in keys]
    if tls and certificates:
        yield Entry(f"{alias}.ssl.truststore.type", "PEM", tls.line)
        yield Entry(f"{alias}.ssl.truststore.certificates", "\n".join(certificates), tls.line)


def login_entries(alias: str, login: Branch, encrypted: bool, secrets: Secrets, file: str) -> Iterator[Entry]:
    """The security protocol of a cluster and what its clients log in with, nothing without a `type`.

    Raises ConfigError for an unknown type.
    """
    kind = login.text_at("type")
    sasl = kind not in ("", "tls", "custom") or login.text_at("sasl") == "true"
    protocol = ("SASL_SSL" if encrypted else "SASL_PLAINTEXT") if sasl else ("SSL" if encrypted else "PLAINTEXT")
    yield Entry(f"{alias}.security.protocol", protocol, login.line)
    if kind:
        yield from (Entry(f"{alias}.{name}", value, login.line) for name, value in _login(login, kind, secrets, file))


def _login(login: Branch, kind: str, secrets: Secrets, file: str) -> Iterator[tuple[str, str]]:
    if kind == "tls":
        secret = login.text_at("certificateAndKey", "secretName")
        yield "ssl.keystore.type", "PEM"
        chain, key = (login.text_at("certificateAndKey", name) for name in ("certificate", "key"))
        yield "ssl.keystore.certificate.chain", secrets.reference(secret, chain)
        yield "ssl.keystore.key", secrets.reference(secret, key)
    elif kind in _MECHANISMS:
        mechanism, module = _MECHANISMS[kind]
        where = login.text_at("passwordSecret", "secretName"), login.text_at("passwordSecret", "password")
        password = secrets.reference(*where)
        yield "sasl.mechanism", mechanism
        yield "sasl.jaas.config", f'{module} required username="{login.text_at("username")}" password="{password}";'
    elif kind == "oauth":
        yield from _oauth(login, secrets, file)
    elif kind == "custom":
        config = login.get("config")
        yield from ((name, value.text) for name, value in config.fields.items()) if config else ()
    else:
        known = ", ".join(("tls", *_MECHANISMS, "oauth", "custom"))
        raise ConfigError(
            f"`authentication.type: {kind}` is not known", f"known are {known}", line=login.line, file=file
        )


def _oauth(login: Branch, secrets: Secrets, file: str) -> Iterator[tuple[str, str]]:
    """Client credentials by Kafka's own login, where Strimzi uses a library of its own."""
    foreign = [name for name in login.fields if name not in _OAUTH_FIELDS]
    if foreign or login.get("clientSecret") is None:
        named = ", ".join(f"`{name}`" for name in foreign) or "no `clientSecret`"
        message = f"`authentication` of type oauth with {named} is not supported"
        hint = "only client credentials are: clientId, clientSecret, tokenEndpointUri, scope"
        raise ConfigError(message, hint, line=login.line, file=file)
    secret = secrets.reference(login.text_at("clientSecret", "secretName"), login.text_at("clientSecret", "key"))
    scope = f' scope="{login.text_at("scope")}"' if login.get("scope") else ""
    module = f"{_JAAS}.oauthbearer.OAuthBearerLoginModule"
    yield "sasl.mechanism", "OAUTHBEARER"
    yield "sasl.login.callback.handler.class", f"{_JAAS}.oauthbearer.OAuthBearerLoginCallbackHandler"
    yield "sasl.oauthbearer.token.endpoint.url", login.text_at("tokenEndpointUri")
    identity = f'clientId="{login.text_at("clientId")}" clientSecret="{secret}"{scope}'
    yield "sasl.jaas.config", f"{module} required {identity};"
