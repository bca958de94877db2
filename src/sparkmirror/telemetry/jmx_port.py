"""Reads JMX_PORT, KAFKA_JMX_OPTS and KAFKA_OPTS for Spark's JVM as Kafka's shell scripts do, and finds a port that
accepts any client; pure.

Called by `runtime.start`, `runtime.jmx` and `operations.machine_checks`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_REMOTE: Final = "-Dcom.sun.management.jmxremote"
_OPEN: Final = (f"{_REMOTE}=true", f"{_REMOTE}.authenticate=false", f"{_REMOTE}.ssl=false")
_LOOPBACK: Final = (f"{_REMOTE}.host=127.0.0.1", "-Djava.rmi.server.hostname=127.0.0.1")
_HERE_ALONE: Final = frozenset({"127.0.0.1", "localhost", "::1", "[::1]"})
HINT: Final = (
    f"set KAFKA_JMX_OPTS with {_REMOTE}.authenticate=true, {_REMOTE}.password.file=… and {_REMOTE}.ssl=true, as Java's "
    "manual of remote monitoring says"
)


def jmx_options(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The options of the JVM that `kafka-run-class.sh` makes of these variables, with one difference: where
    KAFKA_JMX_OPTS is not set, JMX_PORT listens on loopback only.

    The agents that KAFKA_OPTS names (`-javaagent:…`: Jolokia, jmx_exporter) are among the options.
    """
    port, own = environ.get("JMX_PORT", "").strip(), environ.get("KAFKA_JMX_OPTS", "").split()
    agents = [word for word in environ.get("KAFKA_OPTS", "").split() if word.startswith("-javaagent:")]
    if not port:
        return (*own, *agents)
    options = [*(own or (*_OPEN, *_LOOPBACK)), f"{_REMOTE}.port={port}"]
    if not any(option.startswith(f"{_REMOTE}.rmi.port=") for option in options):
        options.append(f"{_REMOTE}.rmi.port={port}")
    return (*options, *agents)


def is_wanted(environ: Mapping[str, str]) -> bool:
    """Whether the environment asks for MBeans, by these variables or by an agent in JAVA_TOOL_OPTIONS."""
    return bool(jmx_options(environ)) or "-javaagent:" in environ.get("JAVA_TOOL_OPTIONS", "")


@dataclass(frozen=True, slots=True)
class OpenPort:
    """A port at which JMX accepts any client; `is_here_alone` where it listens on loopback only."""

    port: str
    is_here_alone: bool

    @property
    def sentence(self) -> str:
        where = f"127.0.0.1:{self.port}" if self.is_here_alone else f"port {self.port} of every address"
        whom = "of this machine " if self.is_here_alone else ""
        return f"JMX listens on {where} and asks nobody who he is: any process {whom}that reaches it can run code here"


def find_open_port(options: Sequence[str]) -> OpenPort | None:
    """The open port among the JVM's options; None where JMX does not listen, or asks for a password (Java's default)
    or for a client's certificate."""
    given = dict(option.removeprefix("-D").partition("=")[::2] for option in options if option.startswith("-D"))
    prefix = _REMOTE.removeprefix("-D")
    port = given.get(f"{prefix}.port", "")
    is_asked = given.get(f"{prefix}.authenticate", "true").lower() != "false"
    needs_certificate = given.get(f"{prefix}.ssl.need.client.auth", "").lower() == "true"
    if not port or is_asked or (needs_certificate and given.get(f"{prefix}.ssl", "true").lower() != "false"):
        return None
    return OpenPort(port, given.get(f"{prefix}.host", "") in _HERE_ALONE)
