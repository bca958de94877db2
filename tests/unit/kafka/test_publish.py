"""What a publisher does where no cluster answers."""

import time

import pytest

from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.publish import Publisher
from sparkmirror.model import Cluster

LATE_SECONDS = 60.0


def test_records_that_nobody_takes_are_a_named_error_and_delay_nobody() -> None:
    cluster = Cluster("B", {"bootstrap.servers": "127.0.0.1:1"})
    began = time.monotonic()
    with Publisher(cluster, "test", 0.3) as publisher, pytest.raises(ClusterUnreachable, match=r"127\.0\.0\.1:1"):
        publisher.write("topic", [(b"k", b"v")])
    assert time.monotonic() - began < LATE_SECONDS
