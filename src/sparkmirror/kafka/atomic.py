"""Writes records to several internal topics at once, all or none, as the holder of a transactional id (KIP-98).

The earlier holder of the id cannot write with it any more, and one that takes it over in between makes the write fail.
Called by `operations.position_job`.
"""

import time
from collections.abc import Sequence
from typing import NamedTuple, Self

from kafka import KafkaProducer
from kafka.errors import BrokerResponseError

from sparkmirror.errors import ClusterError
from sparkmirror.kafka.checksum import use_fast_checksums
from sparkmirror.kafka.errors import quiet_client_logging, translate
from sparkmirror.kafka.settings import client_settings
from sparkmirror.model import Cluster, TopicPartition


class Placed(NamedTuple):
    """A record and where it goes. A None value is a tombstone."""

    partition: TopicPartition
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


class AtomicWriter:
    """A producer of one transaction; without a `transactional_id` it writes the records one by one.

    A context manager, for one thread.
    """

    def __init__(self, cluster: Cluster, role: str, transactional_id: str | None, seconds_max: float = 30.0) -> None:
        """Connects, and takes the id over. Raises ClusterError, AuthorizationFailed without access to the id."""
        quiet_client_logging()
        use_fast_checksums()
        self._settings = client_settings(cluster, role)
        self._seconds_max = seconds_max
        self.is_atomic = transactional_id is not None
        millis = int(seconds_max * 1000)
        try:
            self._producer = KafkaProducer(
                acks="all",
                transactional_id=transactional_id,
                enable_idempotence=self.is_atomic,
                max_block_ms=millis,
                bootstrap_timeout_ms=millis,
                **self._settings.client_arguments(),
            )
        except Exception as error:
            raise translate(error, self._settings, "connecting") from error
        self._producer._unregister_cleanup()
        if self.is_atomic:
            self._take_over()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """What was begun and not committed is aborted by the broker."""
        self._producer._sender.force_close()
        self._producer._sender.join(1.0)

    def _take_over(self) -> None:
        try:
            self._producer.init_transactions()
        except Exception as error:
            self.close()
            raise translate(error, self._settings, "taking over a transactional id") from error

    def write(self, records: Sequence[Placed]) -> None:
        """All records, or none where it raises FencedError; after another ClusterError, that is not known."""
        try:
            if self.is_atomic:
                self._producer.begin_transaction()
            self._send(records)
            if self.is_atomic:
                self._commit()
        except Exception as error:
            # The client hides why it cannot go on in an argument.
            told = next((one for one in error.args if isinstance(one, BrokerResponseError)), error)
            raise translate(told, self._settings, "writing to the ledger") from error

    def _send(self, records: Sequence[Placed]) -> None:
        ends_at = time.monotonic() + self._seconds_max
        sent = [
            self._producer.send(
                one.partition.topic,
                key=one.key,
                value=one.value,
                headers=list(one.headers),
                partition=one.partition.partition,
            )
            for one in records
        ]
        for future in sent:
            future.get(timeout=max(ends_at - time.monotonic(), 0.1))

    def _commit(self) -> None:
        """The client's own `commit_transaction` waits without an end."""
        result = self._producer._transaction_manager.begin_commit()
        self._producer._sender.wakeup()
        if not result.wait(self._seconds_max * 1000):
            raise ClusterError(
                f"Cluster {self._settings.alias} did not say in {self._seconds_max:.0f} s whether it has committed.",
                "See what counts now before you try again.",
            )
