"""How a client logs in: `sasl.*` properties become settings of kafka-python's mechanisms. Used by `kafka.settings`.

Both kinds of connections log in with kafka-python's mechanism classes: its own connections, and the bulk connections of
`kafka.wire.link`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from sparkmirror.errors import ConfigError, EnvironmentProblem
from sparkmirror.kafka.security.jaas import LoginModule, parse_jaas
from sparkmirror.kafka.security.msk import MECHANISM as MSK
from sparkmirror.kafka.security.msk import MskSettings, msk_credentials, msk_settings
from sparkmirror.kafka.security.oauth import OAuthSettings, oauth_settings
from sparkmirror.kafka.security.own_tokens import NAMES_OWN_CLASS

PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = (*PASSWORD_MECHANISMS, "OAUTHBEARER", "GSSAPI", MSK)
_JAAS = "sasl.jaas.config"
_HINT = f'{_JAAS}=org.apache.kafka.common.security.scram.ScramLoginModule required username="..." password="...";'
_MODULES = {
    "PlainLoginModule": ("PLAIN",),
    "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "OAuthBearerLoginModule": ("OAUTHBEARER",),
    "Krb5LoginModule": ("GSSAPI",),
    "IAMLoginModule": (MSK,),
}
"""By the last part of their names: some distributions have them in packages of their own."""
_HANDLERS = ("sasl.login.callback.handler.class", "sasl.client.callback.handler.class", "sasl.login.class")


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """A mechanism and what it needs; the password is kept out of `repr`."""

    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    oauth: OAuthSettings | None = None
    kerberos_service_name: str = ""
    msk: MskSettings | None = None

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of kafka-python's clients and mechanism classes."""
        from sparkmirror.kafka.security.mechanisms import register_mechanisms

        register_mechanisms()
        arguments: dict[str, Any] = {"sasl_mechanism": self.mechanism}
        if self.oauth:
            from sparkmirror.kafka.security.mechanisms import token_provider

            arguments["sasl_oauth_token_provider"] = token_provider(self.oauth)
        elif self.msk:
            arguments["sasl_oauth_token_provider"] = msk_credentials(self.msk)
        elif self.mechanism == "GSSAPI":
            _need_gssapi()
            arguments["sasl_kerberos_service_name"] = self.kerberos_service_name
        else:
            arguments |= {"sasl_plain_username": self.username, "sasl_plain_password": self.password}
        return arguments


def _need_gssapi() -> None:
    if find_spec("gssapi") is None:
        raise EnvironmentProblem(
            "Kerberos (sasl.mechanism=GSSAPI) needs the Python package gssapi, which is missing here.",
            "pip install 'sparkmirror[kerberos]', and get a ticket with kinit or set KRB5_CLIENT_KTNAME to a keytab.",
        )


def sasl_settings(client: Mapping[str, str]) -> SaslSettings:
    """The SASL settings of `client`. Raises ConfigError for a setting that is missing, malformed or needs a Java
    class."""
    mechanism = client.get("sasl.mechanism", "GSSAPI").strip().upper()
    if mechanism not in MECHANISMS:
        raise ConfigError(
            f"sasl.mechanism={mechanism} is not supported.",
            f"Use one of {', '.join(MECHANISMS)}.",
            key="sasl.mechanism",
        )
    if mechanism == "OAUTHBEARER":
        has_own = NAMES_OWN_CLASS(client.get(_HANDLERS[0], "").strip())
        options = _optional_module(client) if has_own else _module(client).options
        return SaslSettings(mechanism, oauth=oauth_settings(client, options))
    if mechanism == MSK:
        return SaslSettings(mechanism, msk=msk_settings(client, _optional_module(client)))
    _refuse_handlers(client)
    if mechanism == "GSSAPI":
        return SaslSettings(mechanism, kerberos_service_name=_service_name(client))
    options = _module(client).options
    if not options.get("username") or "password" not in options:
        raise ConfigError(f"{_JAAS} lacks a username or a password.", _HINT, key=_JAAS)
    return SaslSettings(mechanism, options["username"], options["password"])


def _module(client: Mapping[str, str]) -> LoginModule:
    if not client.get(_JAAS, "").strip():
        raise ConfigError(f"{_JAAS} is missing, and SASL needs it.", _HINT, key=_JAAS)
    try:
        module = parse_jaas(client[_JAAS])
    except ValueError as problem:
        raise ConfigError(f"{_JAAS} cannot be read: {problem}.", _HINT, key=_JAAS) from None
    _refuse_mismatch(module, client.get("sasl.mechanism", "GSSAPI").strip().upper())
    return module


def _refuse_mismatch(module: LoginModule, mechanism: str) -> None:
    """Java's clients fail on a module of another mechanism, with a sentence that does not say so."""
    name = module.class_name.rpartition(".")[2]
    fits = _MODULES.get(name, (mechanism,))
    if mechanism not in fits:
        wanted = next((one for one, of in _MODULES.items() if mechanism in of), "")
        hint = f"Set sasl.mechanism={' or '.join(fits)}" + (f", or name {wanted}." if wanted else ".")
        raise ConfigError(f"{_JAAS} names {name}, and sasl.mechanism is {mechanism}.", hint, key=_JAAS)


def _optional_module(client: Mapping[str, str]) -> Mapping[str, str]:
    return _module(client).options if client.get(_JAAS, "").strip() else {}


def _service_name(client: Mapping[str, str]) -> str:
    jaas = _optional_module(client)
    name = client.get("sasl.kerberos.service.name", "").strip() or jaas.get("serviceName", "")
    if not name:
        raise ConfigError(
            "sasl.kerberos.service.name is missing, and GSSAPI needs it.",
            "Set it to the brokers' Kerberos service, usually kafka; or set sasl.mechanism if Kerberos is not meant.",
            key="sasl.kerberos.service.name",
        )
    return name


def _refuse_handlers(client: Mapping[str, str]) -> None:
    for key in _HANDLERS:
        if client.get(key, "").strip():
            raise ConfigError(
                f"{key}={client[key].strip()} is a Java class, which cannot be loaded here.",
                "Put the username and password into sasl.jaas.config; secrets may come from a config provider.",
                key=key,
            )
