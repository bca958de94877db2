"""Writes a few small records to internal topics: commands, notes, and positions that a group gives a flow.


Called by `source.planner`, `engine` and `sync`.
"""

from collections.abc import Callable, Iterable

from kafka import KafkaProducer

from sparkmirror.kafka.errors import quiet_client_logging, translate
from sparkmirror.kafka.settings import client_settings
from sparkmirror.model import Cluster

Record = tuple[bytes, bytes | None]
"""Key and value; None is a tombstone."""


def publish(
    cluster: Cluster,
    topic: str,
    records: Iterable[Record],
    seconds_max: float = 5.0,
    *,
    place: Callable[[bytes], int] | None = None,
) -> None:
    """Write the (key, value) pairs to `topic` and wait for them; to partition 0, or where `place` puts a key.

    Raises ClusterError.
    """
    quiet_client_logging()
    settings = client_settings(cluster, "commands")
    try:
        producer = KafkaProducer(
            acks="all",
            enable_idempotence=False,
            max_block_ms=int(seconds_max * 1000),
            bootstrap_timeout_ms=int(seconds_max * 1000),
            **settings.client_arguments(),
        )
    except Exception as error:
        raise translate(error, settings, f"writing to topic {topic}") from error
    try:
        sent = [
            producer.send(topic, key=key, value=value, partition=place(key) if place else 0) for key, value in records
        ]
        for future in sent:
            future.get(timeout=seconds_max)
    except Exception as error:
        raise translate(error, settings, f"writing to topic {topic}") from error
    finally:
        producer.close(timeout=1.0)
