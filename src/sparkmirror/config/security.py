"""Whether the clients of a flow can be made of what a file says about TLS and logging in. Called by `config/flows.py`.

No cluster is asked and no store is opened: `config check` may run far from where the mirror will.
"""

from collections.abc import Mapping

from sparkmirror.config.problems import Problems
from sparkmirror.config.properties import Entry
from sparkmirror.errors import ConfigError
from sparkmirror.kafka.ciphers import KEY as CIPHERS
from sparkmirror.kafka.ciphers import cipher_suites
from sparkmirror.kafka.settings import client_settings
from sparkmirror.model import Cluster

_LOGIN = ("sasl.jaas.config", "sasl.mechanism")
_CHECKED_BY_TYPE = ("bootstrap.servers", "security.protocol", ".ms")


def check_security(cluster: Cluster, layer: Mapping[str, Entry], problems: Problems) -> None:
    """Notes what is missing, malformed or needs a Java class, and a log-in that is written but not used."""
    try:
        settings = client_settings(cluster, "check")
    except ConfigError as problem:
        if not problem.key.endswith(_CHECKED_BY_TYPE):
            _note(problem, cluster.alias, layer, problems)
        return
    suites = cipher_suites(cluster.client) if settings.tls else None
    if suites and suites.are_cut_short and (entry := layer.get(CIPHERS)):
        problems.warn(f"`{entry.key}`: TLS 1.3 is offered with all its suites, Python cannot choose among them", entry)
    if settings.sasl is None and (entry := next((layer[name] for name in _LOGIN if name in layer), None)):
        protocol = settings.security_protocol
        problems.warn(f"`{entry.key}` has no effect, for `security.protocol` is {protocol}: nobody logs in", entry)


def _note(problem: ConfigError, alias: str, layer: Mapping[str, Entry], problems: Problems) -> None:
    """With the line that says it, or else the one that asks for it; what a config provider filled in is not shown."""
    entry = layer.get(problem.key)
    message: str = problem.args[0]
    if entry is not None and entry.written:
        message = message.replace(entry.value.strip(), entry.written.strip())
    problems.error(f"cluster `{alias}`: {message}", problem.hint, entry or layer.get("security.protocol"))
