"""Embedded Kafka: real KRaft brokers of pinned jars, in child processes of this one.

For tests, benchmarks, `sparkmirror demo` and anyone who needs a Kafka for a minute:

    with KafkaCluster(brokers=3, name="source") as cluster:
        client = Producer({"bootstrap.servers": cluster.bootstrap_servers})

Nothing is left behind: processes and data go when the block ends, and also when this process is killed.
"""

import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from sparkmirror.errors import SparkMirrorError
from sparkmirror.testing.guard import Guard
from sparkmirror.testing.jars import KAFKA, class_path, kafka_of
from sparkmirror.testing.layout import (
    CONTROLLER,
    FAR,
    PLAINTEXT,
    Listener,
    Node,
    Sasl,
    TlsFiles,
    plan_listeners,
    plan_properties,
    render_properties,
)
from sparkmirror.testing.ports import PortReservation
from sparkmirror.testing.probe import alive_brokers
from sparkmirror.testing.process import QUICK_START, JavaProcess, JavaProgram
from sparkmirror.testing.proxy import LinkProxy, LongLink
from sparkmirror.testing.storage import bootstrap_records, format_node, new_id
from sparkmirror.testing.warm_start import WarmStart, warm_start

START_SECONDS_MAX = 90.0


class Broker(JavaProcess):
    """One broker (and controller) of a KafkaCluster. Ports and data stay the same over kill(), stop() and start()."""

    def __init__(self, node: Node, program: JavaProgram, guard: Guard) -> None:
        super().__init__(program, node.directory.with_suffix(".log"), guard)
        self.node = node

    @property
    def port(self) -> int:
        """The port of the PLAINTEXT listener."""
        return self.node.ports[PLAINTEXT]

    @property
    def data_directory(self) -> Path:
        """Its one log directory: a directory for each partition."""
        return self.node.directory

    def start(self, wait_seconds: float = START_SECONDS_MAX) -> None:
        """Start and wait until it serves; a majority of controllers must be up (else `launch` each, then wait).

        Raises SparkMirrorError with the log's end when the broker ends instead, or takes too long.
        """
        self.launch()
        self.wait_ready(wait_seconds)

    def wait_ready(self, wait_seconds: float = START_SECONDS_MAX) -> None:
        """Wait until it answers and counts itself among the living (unfenced). Raises as `start` does."""
        self.wait_until(lambda: self.node.node_id in alive_brokers(self.port), "served", wait_seconds)


class KafkaCluster:
    """A Kafka cluster on 127.0.0.1, from `start` (or entering `with`) to `close`. Node ids are 1 … `brokers`.

    Of the pinned release, or of another `version` whose sums are committed (EnvironmentProblem, see `jars.kafka_of`).
    Each broker has a PLAINTEXT listener; with `tls` an SSL one, with `sasl` (mechanism, user, password) a
    SASL_PLAINTEXT one, with both a SASL_SSL one as well; with `far` one that is reached, and advertised, over a proxy
    that makes a long link of the loopback (`proxy` breaks it; route n is broker n + 1). `config` goes over the
    defaults (see `layout`) of all brokers, `broker_config[node id]` over that; `features` over Kafka's default feature
    levels, as in `{"transaction.version": 1}`. `heap_mb` is for each broker.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        name: str = "source",
        config: Mapping[str, str] | None = None,
        broker_config: Mapping[int, Mapping[str, str]] | None = None,
        features: Mapping[str, int] | None = None,
        tls: bool = False,
        sasl: tuple[str, str, str] | None = None,
        far: LongLink | None = None,
        heap_mb: int = 256,
        version: str = KAFKA.version,
    ) -> None:
        self.name = name
        self._jars = kafka_of(version)
        self.size = brokers
        self.cluster_id = new_id()
        self._config = dict(config or {})
        self._broker_config = dict(broker_config or {})
        self._features = dict(features or {})
        self._with_tls = tls
        self._sasl = Sasl(*sasl) if sasl else None
        self._far = far
        self._heap_mb = heap_mb
        self._proxy: LinkProxy | None = None
        self._tls: TlsFiles | None = None
        self._guard: Guard | None = None
        self._ports: PortReservation | None = None
        self._brokers: tuple[Broker, ...] = ()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def start(self, wait_seconds: float = START_SECONDS_MAX) -> None:
        """Start all brokers and wait until each sees all others. On failure nothing is left.

        Raises EnvironmentProblem without Java or jars, SparkMirrorError with the log's end when a broker fails.
        """
        if self._guard is not None:
            raise SparkMirrorError(f"The embedded cluster {self.name} is started already.")
        warm = warm_start() if self._jars == KAFKA else WarmStart(QUICK_START, b"")
        self._guard = Guard(Path(tempfile.mkdtemp(prefix=f"sparkmirror-{self.name}-")))
        try:
            self._brokers = self._prepare(self._guard, warm.bootstrap, warm.options)
            for broker in self._brokers:
                broker.launch()
            self._wait_all_see(self._brokers, wait_seconds)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Kill the brokers, remove their data, give the ports back. May be called twice."""
        for broker in self._brokers:
            broker.kill()
        if self._proxy is not None:
            self._proxy.close()
        if self._guard is not None:
            self._guard.close()
        if self._ports is not None:
            self._ports.close()
        self._brokers, self._guard, self._ports, self._tls, self._proxy = (), None, None, None, None

    def wait_ready(self, wait_seconds: float = START_SECONDS_MAX) -> None:
        """Wait until each running broker sees exactly the running ones. Raises SparkMirrorError as `start` does.

        A paused broker counts as running and never answers: resume it first.
        """
        self._wait_all_see([broker for broker in self.brokers if broker.running], wait_seconds)

    def broker(self, node_id: int) -> Broker:
        """The broker of that id, 1 … size."""
        return self.brokers[node_id - 1]

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """Raises SparkMirrorError while the cluster is not started."""
        if not self._brokers:
            raise SparkMirrorError(f"The embedded cluster {self.name} is not started.", "use it in a `with` block")
        return self._brokers

    @property
    def directory(self) -> Path:
        """The cluster's own temporary directory: data and logs of all brokers, certificates."""
        return self.brokers[0].data_directory.parent

    @property
    def tls(self) -> TlsFiles:
        """PEM files for clients of the SSL listener. Raises SparkMirrorError when the cluster has none."""
        if self._tls is None:
            raise SparkMirrorError(f"The embedded cluster {self.name} has no TLS.", "pass tls=True")
        return self._tls

    @property
    def ca_file(self) -> Path:
        """The authority a client of the SSL listener trusts (PEM)."""
        return self.tls.ca_file

    @property
    def proxy(self) -> LinkProxy:
        """The proxy before the FAR listeners. Raises SparkMirrorError when the cluster has none."""
        if self._proxy is None:
            raise SparkMirrorError(f"The embedded cluster {self.name} is not far away.", "pass far=LongLink(…)")
        return self._proxy

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of the PLAINTEXT listeners."""
        return self.bootstrap(PLAINTEXT)

    @property
    def bootstrap_servers_tls(self) -> str:
        return self.bootstrap("SSL")

    @property
    def bootstrap_servers_sasl(self) -> str:
        return self.bootstrap("SASL_PLAINTEXT")

    @property
    def bootstrap_servers_sasl_tls(self) -> str:
        return self.bootstrap("SASL_SSL")

    @property
    def bootstrap_servers_far(self) -> str:
        """Over the long link."""
        return ",".join(f"127.0.0.1:{port}" for port in self.proxy.ports)

    def bootstrap(self, protocol: str) -> str:
        """`host:port,…` of the listeners of a security protocol. Raises SparkMirrorError when there are none."""
        if protocol not in self.brokers[0].node.ports:
            raise SparkMirrorError(f"The embedded cluster {self.name} has no {protocol} listener.", "see tls=, sasl=")
        return ",".join(f"127.0.0.1:{broker.node.ports[protocol]}" for broker in self.brokers)

    def _wait_all_see(self, brokers: Sequence[Broker], wait_seconds: float) -> None:
        ids = {broker.node.node_id for broker in brokers}
        deadline = time.monotonic() + wait_seconds

        def sees_all(broker: Broker) -> bool:
            return alive_brokers(broker.port) == ids

        for broker in brokers:
            what = f"saw the brokers {sorted(ids)} alive"
            broker.wait_until(partial(sees_all, broker), what, deadline - time.monotonic())

    def _prepare(self, guard: Guard, bootstrap: bytes, options: tuple[str, ...]) -> tuple[Broker, ...]:
        if self._with_tls:
            from sparkmirror.testing.certificates import make_certificates

            self._tls = make_certificates(guard.directory / "tls")
        if self._features or (self._sasl and self._sasl.is_scram) or self._jars != KAFKA:
            bootstrap = bootstrap_records(guard.directory, self._sasl, self._features, self._jars)
        listeners = plan_listeners(self._tls, self._sasl, far=self._far is not None)
        nodes = self._nodes(guard.directory, listeners)
        for node in nodes:
            format_node(node, self.cluster_id, bootstrap)
        return tuple(Broker(node, self._program(node, nodes, listeners, options), guard) for node in nodes)

    def _nodes(self, directory: Path, listeners: tuple[Listener, ...]) -> list[Node]:
        names = (*(listener.name for listener in listeners), CONTROLLER)
        self._ports = PortReservation(self.size * len(names))
        free = iter(self._ports.ports)
        ports_of = [{name: next(free) for name in names} for _ in range(self.size)]
        far_ports: tuple[int, ...] = (0,) * self.size
        if self._far is not None:
            self._proxy = LinkProxy(self._far, [ports[FAR] for ports in ports_of])
            far_ports = self._proxy.ports
        return [
            Node(node_id, directory / f"broker-{node_id}", ports, far_port)
            for node_id, (ports, far_port) in enumerate(zip(ports_of, far_ports, strict=True), 1)
        ]

    def _program(
        self, node: Node, nodes: list[Node], listeners: tuple[Listener, ...], options: tuple[str, ...]
    ) -> JavaProgram:
        properties = plan_properties(node, nodes, listeners) | self._config
        properties |= self._broker_config.get(node.node_id, {})
        file = node.directory.with_suffix(".properties")
        file.write_text(render_properties(properties))
        title = f"Broker {node.node_id} of the embedded cluster {self.name}"
        return JavaProgram(title, "kafka.Kafka", class_path(self._jars), [str(file)], options, self._heap_mb)
