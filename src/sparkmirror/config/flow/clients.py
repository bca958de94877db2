"""Settings of the bulk clients: what the reader asks of the source's brokers, the writer of the target's.

Read by `config/flow/flows.py`, used by `source/` and `target/`. Names, units and meanings are those of Kafka's Java
clients.
"""

from dataclasses import dataclass

from sparkmirror.config.keys import client_keys as keys
from sparkmirror.config.keys.table import LEASE_RING_BYTES
from sparkmirror.config.reading import Reader
from sparkmirror.model import Cluster

_RING_BYTES_MIN = 1 << 20


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """How the source is read. A buffer of -1 is left to the operating system."""

    isolation_level: str = keys.ISOLATION_LEVEL.default
    auto_offset_reset: str = keys.AUTO_OFFSET_RESET.default
    fetch_max_bytes: int = keys.FETCH_MAX_BYTES.default
    max_partition_fetch_bytes: int = keys.MAX_PARTITION_FETCH_BYTES.default
    fetch_max_wait_ms: int = keys.FETCH_MAX_WAIT.default
    fetch_min_bytes: int = keys.FETCH_MIN_BYTES.default
    client_rack: str = keys.CLIENT_RACK.default
    receive_buffer_bytes: int = keys.CONSUMER_RECEIVE_BUFFER.default
    request_timeout_ms: int = keys.CONSUMER_REQUEST_TIMEOUT.default
    client_id: str = keys.CONSUMER_CLIENT_ID.default

    def reach(self, source: Cluster) -> Cluster:
        """The source as the reader connects to it."""
        return _reach(source, self.client_id, self.request_timeout_ms)


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """How the target is written. A buffer of -1 is left to the operating system."""

    batch_size_bytes: int = keys.BATCH_SIZE.default
    linger_ms: int = keys.LINGER.default
    send_buffer_bytes: int = keys.PRODUCER_SEND_BUFFER.default
    request_timeout_ms: int = keys.PRODUCER_REQUEST_TIMEOUT.default
    compression_type: str = keys.COMPRESSION_TYPE.default
    transaction_timeout_ms: int = keys.TRANSACTION_TIMEOUT.default
    client_id: str = keys.PRODUCER_CLIENT_ID.default

    def reach(self, target: Cluster) -> Cluster:
        """The target as the writer connects to it."""
        return _reach(target, self.client_id, self.request_timeout_ms)


def _reach(cluster: Cluster, client_id: str, request_timeout_ms: int) -> Cluster:
    own = {"client.id": client_id, "request.timeout.ms": str(request_timeout_ms)}
    return Cluster(cluster.alias, {**cluster.client, **own})


def read_consumer(reader: Reader) -> ConsumerSettings:
    """The settings of a source consumer's layer."""
    return ConsumerSettings(
        isolation_level=reader.read(keys.ISOLATION_LEVEL),
        auto_offset_reset=reader.read(keys.AUTO_OFFSET_RESET),
        fetch_max_bytes=reader.read(keys.FETCH_MAX_BYTES),
        max_partition_fetch_bytes=reader.read(keys.MAX_PARTITION_FETCH_BYTES),
        fetch_max_wait_ms=reader.read(keys.FETCH_MAX_WAIT),
        fetch_min_bytes=reader.read(keys.FETCH_MIN_BYTES),
        client_rack=reader.read(keys.CLIENT_RACK),
        receive_buffer_bytes=reader.read(keys.CONSUMER_RECEIVE_BUFFER),
        request_timeout_ms=reader.read(keys.CONSUMER_REQUEST_TIMEOUT),
        client_id=reader.read(keys.CONSUMER_CLIENT_ID),
    )


def read_producer(reader: Reader) -> ProducerSettings:
    """The settings of a target producer's layer."""
    return ProducerSettings(
        batch_size_bytes=reader.read(keys.BATCH_SIZE),
        linger_ms=reader.read(keys.LINGER),
        send_buffer_bytes=reader.read(keys.PRODUCER_SEND_BUFFER),
        request_timeout_ms=reader.read(keys.PRODUCER_REQUEST_TIMEOUT),
        compression_type=reader.read(keys.COMPRESSION_TYPE),
        transaction_timeout_ms=reader.read(keys.TRANSACTION_TIMEOUT),
        client_id=reader.read(keys.PRODUCER_CLIENT_ID),
    )


def read_ring_bytes(flow: Reader, producer: Reader) -> int:
    """The size of a task's ring, by our own key, or else by the producer's that means as much to MirrorMaker."""
    if flow.has(LEASE_RING_BYTES) or not producer.has(keys.BUFFER_MEMORY):
        return flow.read(LEASE_RING_BYTES)
    return max(producer.read(keys.BUFFER_MEMORY), _RING_BYTES_MIN)
