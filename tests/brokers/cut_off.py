"""A cluster of two brokers, one of which can be cut off from the controller while it goes on answering clients.

Broker 2 is the controller, too; broker 1 reaches it over a proxy alone. Once that is frozen the cluster strikes broker
1 off, and broker 2 leads all; broker 1 says what it knew, and takes itself for the leader.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.waiting import wait_until

from sparkmirror.testing.kafka import KafkaCluster
from sparkmirror.testing.layout import CONTROLLER, PLAINTEXT, Listener, Node
from sparkmirror.testing.probe import alive_brokers
from sparkmirror.testing.process import JavaProgram
from sparkmirror.testing.proxy import LinkProxy, LongLink


class _Divisible(KafkaCluster):
    """`way` is the proxy's port before the controller."""

    way: LinkProxy | None = None

    def close(self) -> None:
        super().close()
        if self.way is not None:
            self.way.close()
            self.way = None

    def _program(
        self, node: Node, nodes: list[Node], listeners: tuple[Listener, ...], options: tuple[str, ...]
    ) -> JavaProgram:
        controller = nodes[1].ports[CONTROLLER]
        self.way = self.way or LinkProxy(LongLink(0.0), [controller])
        (proxied,) = self.way.ports
        plain = f"{PLAINTEXT}://127.0.0.1:{node.ports[PLAINTEXT]}"
        own = {"controller.quorum.voters": f"2@127.0.0.1:{controller}"}
        own["advertised.listeners"] = f"{plain},{CONTROLLER}://127.0.0.1:{proxied}"
        if node.node_id == 1:
            own = {
                "process.roles": "broker", "listeners": plain, "advertised.listeners": plain,
                "controller.quorum.voters": f"2@127.0.0.1:{proxied}",
            }  # fmt: skip
        self._broker_config = {**self._broker_config, node.node_id: own}
        return super()._program(node, nodes, listeners, options)


@dataclass(frozen=True, slots=True)
class CutOff:
    """The cluster; the addresses of the broker that is to be cut off, and of the other one."""

    cluster: _Divisible
    former: str
    newest: str

    def cut(self) -> None:
        """Returns when the other broker counts itself alone among the living."""
        assert self.cluster.way is not None
        self.cluster.way.freeze()
        _, port = self.newest.split(":")
        wait_until(lambda: alive_brokers(int(port)) == {2}, "broker 1 is struck off")


@contextmanager
def divisible_cluster(name: str) -> Iterator[CutOff]:
    with _Divisible(brokers=2, name=name) as cluster:
        ports: Sequence[str] = cluster.bootstrap_servers.split(",")
        yield CutOff(cluster, *ports)
