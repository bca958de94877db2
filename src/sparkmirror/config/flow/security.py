"""Checks whether the clients of a flow can be made of the file's settings for TLS and logging in. Called by
`config/flow/flows.py`.

No cluster is asked. Only `config check` opens stores: the other commands open them when they connect.
"""

from collections.abc import Iterable, Mapping

from sparkmirror.config.formats.properties import Entry, Properties
from sparkmirror.config.precedence import common_values, flow_layers
from sparkmirror.config.reading import Problems
from sparkmirror.errors import ConfigError
from sparkmirror.kafka.security.ciphers import KEY as CIPHERS
from sparkmirror.kafka.security.ciphers import cipher_suites
from sparkmirror.kafka.security.oauth import TOKEN_URL, sends_secret_in_clear
from sparkmirror.kafka.settings import ClientSettings, client_settings
from sparkmirror.model import Cluster, FlowName

_LOGIN = ("sasl.jaas.config", "sasl.mechanism")
_HOST_NAMES = "ssl.endpoint.identification.algorithm"
_CHECKED_BY_TYPE = ("bootstrap.servers", "security.protocol", ".ms")


def check_security(cluster: Cluster, layer: Mapping[str, Entry], problems: Problems) -> None:
    """Notes settings that are missing, malformed or need a Java class, and a log-in that is written but not used."""
    try:
        settings = client_settings(cluster, "check")
    except ConfigError as problem:
        if not problem.key.endswith(_CHECKED_BY_TYPE):
            _note(problem, cluster.alias, layer, problems)
        return
    _warn_of_what_is_weak(settings, layer, problems)
    suites = cipher_suites(cluster.client) if settings.tls else None
    if suites and suites.are_cut_short and (entry := layer.get(CIPHERS)):
        problems.warn(f"`{entry.key}`: TLS 1.3 is offered with all its suites, Python cannot choose among them", entry)
    if settings.sasl is None and (entry := next((layer[name] for name in _LOGIN if name in layer), None)):
        protocol = settings.security_protocol
        problems.warn(
            f"`{entry.key}` has no effect, for `security.protocol` is {protocol}: clients do not log in", entry
        )


def check_stores(properties: Properties, flows: Iterable[FlowName], problems: Problems) -> None:
    """Opens the flows' trust and key stores as a mirror would here; notes those that are missing, unreadable or
    locked."""
    for flow in flows:
        layers = flow_layers(properties, flow)
        for alias, layer in ((flow.source, layers.consumer), (flow.target, layers.producer)):
            try:
                client_settings(Cluster(alias, common_values(layer)), "check").ssl_context()
            except ConfigError as problem:
                if not problem.key.endswith(_CHECKED_BY_TYPE):
                    _note(problem, alias, layer, problems)


def _warn_of_what_is_weak(settings: ClientSettings, layer: Mapping[str, Entry], problems: Problems) -> None:
    """Warns of settings that work and let others in."""
    if settings.security_protocol == "SASL_PLAINTEXT" and settings.sasl:
        what = {"PLAIN": "the password", "OAUTHBEARER": "the token"}.get(settings.sasl.mechanism)
        entry = layer.get("security.protocol") or layer.get("sasl.mechanism")
        if what and entry:
            mechanism = settings.sasl.mechanism
            problems.warn(f"`{entry.key}`: {mechanism} over SASL_PLAINTEXT sends {what} in the clear", entry)
    if settings.tls and not settings.tls.check_hostname and (entry := layer.get(_HOST_NAMES)):
        problems.warn(
            f"`{entry.key}` is empty: anybody with a certificate of a trusted authority can be a broker", entry
        )
    oauth = settings.sasl.oauth if settings.sasl else None
    entry = layer.get(TOKEN_URL) or layer.get("sasl.jaas.config")
    if oauth and entry and sends_secret_in_clear(oauth):
        problems.warn(f"`{entry.key}`: the token endpoint is asked in plain HTTP, the secret goes in the clear", entry)


def _note(problem: ConfigError, alias: str, layer: Mapping[str, Entry], problems: Problems) -> None:
    """Notes a problem with its line, or else with the line that needs it; a value from a config provider is not
    shown."""
    entry = layer.get(problem.key)
    message: str = problem.args[0]
    if entry is not None and entry.written:
        message = message.replace(entry.value.strip(), entry.written.strip())
    problems.error(f"cluster `{alias}`: {message}", problem.hint, entry or layer.get("security.protocol"))
