"""One cluster's control-plane connection: bounded start, requests retried until a deadline, errors translated.

Made by `kafka.clients`; used by `kafka.admin`, `kafka.fencing` and everything else that sends raw requests. Asks over
`kafka.wire.broker_links`; kafka-python's own client only finds out why a cluster cannot be reached.

Long lists in portions, as one request after the other may hold them. Used by `kafka`'s control-plane modules.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, TypeVar

from kafka import KafkaAdminClient
from kafka import errors as client_errors
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.errors import ClusterUnreachable, SparkMirrorError
from sparkmirror.kafka.client_setup import prepare_clients
from sparkmirror.kafka.errors import is_absent, is_broken_handshake, is_refused_login, translate
from sparkmirror.kafka.patience import Patience
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.broker_links import BrokerLinks
from sparkmirror.kafka.wrong_port import with_cause

BOOTSTRAP_SECONDS_MAX = 10.0
_ATTEMPT_SECONDS_MAX = 3.0
_RETRY_SECONDS_MAX = 0.5
_ANY_BROKER_SECONDS = 5.0
_TRANSIENT = (
    client_errors.KafkaConnectionError,
    client_errors.KafkaTimeoutError,
    client_errors.RequestTimedOutError,
    client_errors.NodeNotReadyError,
    client_errors.UnknownBrokerIdError,
    client_errors.Cancelled,
    ClusterUnreachable,
    OSError,
)
_UNREADY = (SparkMirrorError, OSError, client_errors.KafkaError)


class FailFastManager(KafkaConnectionManager):
    """kafka-python's connections, except that a refused login ends the bootstrap instead of being retried.

    The original tries wrong passwords and untrusted certificates again until the time-out and then reports only that.
    """

    async def _build_transport(self, *args: Any, **kwargs: Any) -> Any:
        """Of what a broker sent before it closed nothing is lost: its answer says why, the original drops it."""
        transport = await super()._build_transport(*args, **kwargs)
        receive = transport._sock_recv

        def receive_before_end() -> tuple[bytes, Exception | None]:
            received, problem = receive()
            return received, None if received else problem

        transport._sock_recv = receive_before_end
        return transport

    async def _do_bootstrap(self, deadline: float | None) -> bool:
        ends_at = deadline if deadline is not None else time.monotonic() + BOOTSTRAP_SECONDS_MAX
        absent_until = time.monotonic() + Patience.absent_seconds
        last: Exception = client_errors.KafkaTimeoutError("no broker was tried")
        for attempt in count():
            if self.closed:
                break
            refused = absent = 0
            brokers = self.cluster.bootstrap_brokers()
            for broker in brokers:
                try:
                    await self._bootstrap_from(broker.node_id, ends_at)
                except Exception as error:
                    last = error
                    refused += is_refused_login(error) or (attempt > 0 and is_broken_handshake(error))
                    absent += is_absent(error)
                else:
                    return True
            is_given_up = absent == len(brokers) and time.monotonic() >= absent_until
            if refused == len(brokers) or is_given_up or time.monotonic() >= ends_at:
                raise last
            await self._net.sleep(min(_RETRY_SECONDS_MAX, max(0.0, ends_at - time.monotonic())))
        raise client_errors.KafkaConnectionError("closed")

    async def _bootstrap_from(self, node_id: str, ends_at: float) -> None:
        self.reset_backoff(node_id)
        seconds = max(0.1, min(_ATTEMPT_SECONDS_MAX, ends_at - time.monotonic()))
        connection = self.get_connection(
            node_id,
            timeout_ms=seconds * 1000,
            pop_on_close=False,
            refresh_metadata_on_err=False,
            reset_backoff_on_connect=False,
        )
        try:
            await connection
            await self.cluster.refresh_metadata(node_id)
            if not self.cluster.brokers():
                raise client_errors.KafkaConnectionError("the broker knows no brokers yet")
            self.cluster.start_refresh_loop()
        finally:
            self._conns.pop(node_id, connection).close()


class ClusterConnection:
    """Sends requests of Kafka's protocol to one cluster. Thread-safe; `close` ends every call that waits."""

    def __init__(self, settings: ClientSettings, bootstrap_seconds_max: float = BOOTSTRAP_SECONDS_MAX) -> None:
        """Connects. Raises ClusterUnreachable or AuthenticationFailed within `bootstrap_seconds_max`."""
        prepare_clients()
        self.settings = settings
        self._closed = threading.Event()
        self._links = BrokerLinks(settings)
        began = time.monotonic()
        if not self._is_ready(min(bootstrap_seconds_max / 3, _ATTEMPT_SECONDS_MAX)):
            _await_cluster(settings, bootstrap_seconds_max - (time.monotonic() - began))

    def _is_ready(self, seconds_max: float) -> bool:
        """Whether a broker answers at once."""
        try:
            self._links.open(seconds_max)
        except _UNREADY:
            return False
        return True

    @property
    def alias(self) -> str:
        return self.settings.alias

    def ask(
        self,
        make_request: Callable[[], Any],
        doing: str,
        node_id: int | None = None,
        wait_seconds_max: float | None = None,
    ) -> Any:
        """The response to one request, asked of broker `node_id` or of any.

        Broken connections and unready brokers are retried until `wait_seconds_max` (default: `request.timeout.ms`), and
        where any broker may answer, another one is asked when one is silent for 5 s, then for 10 s, and so on; so the
        request must bear being executed twice. `make_request` makes each attempt's request afresh, since its version is
        that of the broker that is asked. Raises the translated error.
        """
        seconds = self.settings.request_timeout_seconds if wait_seconds_max is None else wait_seconds_max
        ends_at = time.monotonic() + seconds
        pause = 0.05
        patience = seconds if node_id is not None else _ANY_BROKER_SECONDS
        while True:
            try:
                return self._links.ask(make_request(), node_id, min(ends_at - time.monotonic(), patience))
            except Exception as error:
                late = time.monotonic() + pause >= ends_at
                if late or is_refused_login(error) or not isinstance(error, _TRANSIENT):
                    raise translate(error, self.settings, doing) from error
                self._links.forget_brokers()
            if self.wait(pause):
                raise translate(client_errors.KafkaConnectionError("closed"), self.settings, doing)
            pause, patience = min(pause * 2, _RETRY_SECONDS_MAX), patience * 2

    def wait(self, seconds: float) -> bool:
        """Pauses between two attempts; True if `close` cut the pause short and the caller should give up."""
        return self._closed.wait(seconds)

    def close(self) -> None:
        """Ends all connections. Idempotent."""
        if not self._closed.is_set():
            self._closed.set()
            self._links.close()


def _await_cluster(settings: ClientSettings, seconds_max: float) -> None:
    """Waits for a cluster that does not answer at once, by kafka-python's client, whose errors tell why it does not.

    Raises ClusterUnreachable and AuthenticationFailed.
    """
    arguments = settings.client_arguments() | {"bootstrap_timeout_ms": int(seconds_max * 1000)}
    net_client = fail_fast_client(arguments)
    try:
        KafkaAdminClient(kafka_client=lambda **_: net_client, **arguments).close()
    except Exception as error:
        net_client.close()
        problem = translate(error, settings, "connecting")
        # Where nothing listens, nothing need be asked: a mirror comes here at each attempt while a cluster is down.
        raise (problem if is_absent(error) else with_cause(problem, settings)) from error


def waits_within(connection: ClusterConnection, seconds: float, ends_at: float, clock: Clock = SYSTEM_CLOCK) -> bool:
    """Pauses, and says whether to ask once more: not if the pause would last beyond `ends_at`, nor after a `close`."""
    return clock.monotonic() + seconds <= ends_at and not connection.wait(seconds)


def fail_fast_client(arguments: dict[str, Any]) -> Any:
    """A network client for kafka-python's `kafka_client` option, with `FailFastManager` inside."""
    net = NetworkSelector(**arguments)
    return KafkaNetClient(net=net, manager=FailFastManager(net, **arguments))


_Item = TypeVar("_Item")


def portions(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    """`size` items at a time, the last time what is left."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
