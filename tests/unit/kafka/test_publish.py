"""What a publisher does where no cluster answers, or a leader that is none any more."""

import time
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.publish import Publisher
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire import appending, leader_search
from sparkmirror.kafka.wire.appending import Appender
from sparkmirror.kafka.wire.lookup import ClusterView
from sparkmirror.model import Cluster, TopicPartition

LATE_SECONDS = 60.0


def test_records_that_nobody_takes_are_a_named_error_and_delay_nobody() -> None:
    cluster = Cluster("B", {"bootstrap.servers": "127.0.0.1:1"})
    began = time.monotonic()
    with Publisher(cluster, "test", 0.3) as publisher, pytest.raises(ClusterUnreachable, match=r"127\.0\.0\.1:1"):
        publisher.write("topic", [(b"k", b"v")])
    assert time.monotonic() - began < LATE_SECONDS


class Divided:
    """A cluster from which broker 1 is cut off, the first bootstrap server. It still calls itself the leader, by epoch
    4, and has no replicas; broker 2 leads by epoch 5."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
        self.code = code
        self.asked: list[str] = []
        monkeypatch.setattr(leader_search, "look_up", self._look_up)
        monkeypatch.setattr(leader_search, "random", SimpleNamespace(randrange=lambda _: 0))
        monkeypatch.setattr(appending, "dial", self._dial)
        monkeypatch.setattr(Appender, "_produce", self._produce)

    def _look_up(self, settings: ClientSettings, *_: object) -> ClusterView:
        leader, epoch = (1, 4) if settings.bootstrap_servers[0] == "one:1" else (2, 5)
        where = TopicPartition("status", 0)
        addresses = {1: ("one", 1), 2: ("two", 1)}
        return ClusterView(addresses, {where: leader}, {"status": UUID(int=1)}, epochs={where: epoch})

    def _dial(self, host: str, *_: object, **__: object) -> Any:
        return SimpleNamespace(address=host, reauthenticate_at=float("inf"), close=lambda: None)

    def _produce(self, link: Any, *_: object) -> Any:
        self.asked.append(link.address)
        return appending._Answer(self.code if link.address == "one" else 0)


@pytest.mark.parametrize("code", [7, 19, 20])
def test_records_go_to_the_leader_that_took_the_place_of_one_without_replicas(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    cluster = Divided(monkeypatch, code)
    with Publisher(Cluster("B", {"bootstrap.servers": "one:1,two:1"}), "test", 2.0) as publisher:
        publisher.write("status", [(b"k", b"v")])
        publisher.write("status", [(b"k", b"v")])
    assert cluster.asked == ["one", "two", "two"]
