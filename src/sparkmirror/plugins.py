"""The JVM of a person's own Java classes: where their jars are, and a small Java process in which py4j asks them.

It is not Spark's, because the classes are asked when a file is read, before that one is there, by commands that never
start it, and by Spark's Python workers, which cannot reach it. One serves all processes of a mirror on a machine: they
inherit its address and secret in their environment. It ends with the process that launched it. Called by
`policy.java_classes`.
"""

import hashlib
import logging
import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from sparkmirror.errors import EnvironmentProblem
from sparkmirror.java import find_java

_VARIABLE: Final = "_SPARKMIRROR_PLUGINS"
"""`PORT:SECRET:CLASS PATH'S DIGEST` of the JVM that an ancestor has launched."""
_OPTIONS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m", "-Xss512k", "-XX:-UsePerfData")
_ANSWER_SECONDS_MAX: Final = 60.0


@dataclass(frozen=True, slots=True)
class ClassPath:
    """Where classes are looked for: `places` as a person named them, and as Java takes them."""

    places: tuple[str, ...] = ()

    @property
    def entries(self) -> tuple[str, ...]:
        """A jar as it is; of a directory its classes and all jars in it and below it, as Connect's `plugin.path`."""
        return tuple(dict.fromkeys(entry for place in self.places for entry in _entries(place)))

    @property
    def missing(self) -> tuple[str, ...]:
        """The places that are not there."""
        return tuple(place for place in self.places if not Path(place.removesuffix("*")).exists())


def class_path(plugin_path: Sequence[str], environ: Mapping[str, str]) -> ClassPath:
    """The file's `plugin.path`, then the environment's CLASSPATH, as Kafka's scripts take it."""
    return ClassPath((*plugin_path, *filter(None, environ.get("CLASSPATH", "").split(os.pathsep))))


def _entries(place: str) -> Iterator[str]:
    path = Path(place).absolute()
    if path.name == "*" or not path.is_dir():
        yield str(path)
        return
    yield str(path)
    for directory in dict.fromkeys(jar.parent for jar in sorted(path.rglob("*.jar"))):
        yield f"{directory}/*"


_lock = threading.Lock()
_open: dict[tuple[int, ClassPath], Any] = {}
"""Gateways by process and class path: a forked process must not speak over its parent's connections."""


def gateway(where: ClassPath) -> Any:
    """py4j's gateway to a JVM with these classes; launched where nobody has. Raises EnvironmentProblem."""
    with _lock:
        if (found := _open.get((os.getpid(), where))) is None:
            found = _open[os.getpid(), where] = _inherited(where) or _launch(where)
        return found


def forget(where: ClassPath, lost: object) -> None:
    """The JVM behind the gateway `lost` does not answer any more: the next question starts another."""
    with _lock:
        if _open.get((os.getpid(), where)) is lost:
            del _open[os.getpid(), where]


def _inherited(where: ClassPath) -> Any:
    from py4j.protocol import Py4JError

    port, _, rest = os.environ.get(_VARIABLE, "").partition(":")
    secret, _, digest = rest.partition(":")
    if not port.isdigit() or digest != _digest(where):
        return None
    try:
        found = _connect(int(port), secret)
        found.jvm.System.currentTimeMillis()
    except (Py4JError, OSError):
        return None
    return found


def _launch(where: ClassPath) -> Any:
    from py4j.java_gateway import launch_gateway

    said: deque[str] = deque(maxlen=20)
    jars = os.pathsep.join(where.entries)
    try:
        port, token = launch_gateway(
            jarpath=str(_py4j_jar()), classpath=jars, javaopts=list(_OPTIONS), java_path=str(find_java()),
            die_on_exit=True, enable_auth=True, create_new_process_group=True, redirect_stderr=said,
        )  # fmt: skip
    except (OSError, ValueError) as problem:  # ValueError: it ended without giving a port
        why = f": {said[-1].strip()}" if said else f" ({type(problem).__name__})"
        raise EnvironmentProblem(f"The JVM for Java classes of one's own did not start{why}.") from None
    secret = token.decode() if isinstance(token, bytes) else token  # bytes, whatever py4j's manual says
    os.environ[_VARIABLE] = f"{port}:{secret}:{_digest(where)}"
    return _connect(port, secret)


def _connect(port: int, secret: str) -> Any:
    from py4j.java_gateway import GatewayParameters, JavaGateway

    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # its stack traces would hide our sentence
    parameters = GatewayParameters(
        port=port, auth_token=secret, auto_convert=True, read_timeout=_ANSWER_SECONDS_MAX
    )  # fmt: skip
    found = JavaGateway(gateway_parameters=parameters)
    found.set_gateway_client(_client(parameters))
    return found


def _client(parameters: Any) -> Any:
    from py4j.java_gateway import GatewayClient
    from py4j.protocol import REFERENCE_TYPE, get_return_value, is_error

    class Client(GatewayClient):
        """Raises itself what Java threw: PySpark, once it runs in this process, replaces the function by which py4j
        does so in all gateways, and asks Spark's JVM about an exception of this one."""

        def send_command(self, command: str, retry: bool = True, binary: bool = False) -> Any:
            answer = super().send_command(command, retry, binary)
            if not binary and is_error(answer)[0] and answer[1:2] == REFERENCE_TYPE:
                get_return_value(answer, self)
            return answer

    return Client(gateway_parameters=parameters)


def _py4j_jar() -> Path:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise EnvironmentProblem("PySpark is not installed here.", "`pip install sparkmirror` brings it")
    return next((Path(spec.origin).parent / "jars").glob("py4j-*.jar"))


def _digest(where: ClassPath) -> str:
    return hashlib.sha256("\0".join(where.places).encode()).hexdigest()[:16]
