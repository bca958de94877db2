"""Writes a few small records to internal topics: commands, notes. Called by `source.planner`, `engine` and `sync`."""

from collections.abc import Iterable

from kafka import KafkaProducer

from sparkmirror.kafka.errors import quiet_client_logging, translate
from sparkmirror.kafka.settings import client_settings
from sparkmirror.model import Cluster

Record = tuple[bytes, bytes | None]
"""Key and value; None is a tombstone."""


def publish(cluster: Cluster, topic: str, records: Iterable[Record], seconds_max: float = 5.0) -> None:
    """Write the (key, value) pairs to partition 0 of `topic` and wait for them. Raises ClusterError."""
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
        sent = [producer.send(topic, key=key, value=value, partition=0) for key, value in records]
        for future in sent:
            future.get(timeout=seconds_max)
    except Exception as error:
        raise translate(error, settings, f"writing to topic {topic}") from error
    finally:
        producer.close(timeout=1.0)
