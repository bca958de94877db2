"""What a publisher leaves behind when its cluster no longer answers: nothing."""

import pytest
from kafka.errors import KafkaTimeoutError

from sparkmirror.errors import ClusterError
from sparkmirror.kafka import publish
from sparkmirror.model import Cluster


class Future:
    def get(self, timeout: float) -> None:
        raise KafkaTimeoutError("nobody answered")


class Producer:
    """Stands for kafka-python's, whose `close` raises while records wait, and leaves its thread alive."""

    def __init__(self, **_: object) -> None:
        self._sender = self
        self.is_forced = self.is_closed = self.has_exit_hook = False
        self.has_exit_hook = True

    def _unregister_cleanup(self) -> None:
        self.has_exit_hook = False

    def send(self, topic: str, **_: object) -> Future:
        return Future()

    def force_close(self) -> None:
        self.is_forced = True

    def join(self, seconds: float) -> None:
        assert self.is_forced

    def close(self, timeout: float) -> None:
        if not self.is_forced:
            raise KafkaTimeoutError("records wait")
        self.is_closed = True


def test_records_that_nobody_takes_are_a_named_error_and_leave_no_thread_and_no_hook(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(publish, "KafkaProducer", Producer)
    cluster = Cluster("B", {"bootstrap.servers": "127.0.0.1:1"})
    with pytest.raises(ClusterError), publish.Publisher(cluster, "test", 0.1) as publisher:
        producer = publisher._producer
        publisher.write("topic", [(b"k", b"v")])
    assert producer.is_closed
    assert not producer.has_exit_hook
