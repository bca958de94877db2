"""How far away a broker is: late answers of one that is near are doubted, and asked for again."""

from collections.abc import Iterator

import pytest
from tests.waiting import wait_until

from sparkmirror.kafka.settings import client_settings
from sparkmirror.kafka.wire import link as wire_link
from sparkmirror.kafka.wire.link import Link, dial
from sparkmirror.kafka.wire.lookup import look_up
from sparkmirror.model import Cluster
from sparkmirror.testing.kafka import KafkaCluster
from sparkmirror.testing.proxy import LinkProxy, LongLink

ROUND_TRIP_SECONDS = 0.4


@pytest.fixture
def late(source_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[LinkProxy]:
    """The broker behind a link whose bytes are late, though TCP connects at once."""
    monkeypatch.setattr(wire_link, "FAR_SECONDS", 0.2)  # a busy machine's own answers take less
    with LinkProxy(LongLink(ROUND_TRIP_SECONDS), [int(source_cluster.bootstrap_servers.rpartition(":")[2])]) as proxy:
        yield proxy


def dialled(late: LinkProxy) -> Link:
    server = f"127.0.0.1:{late.ports[0]}"
    settings = client_settings(Cluster("A", {"bootstrap.servers": server}), "test")
    return dial("127.0.0.1", late.ports[0], settings)


def test_a_broker_whose_first_answers_were_late_is_near(late: LinkProxy) -> None:
    link = dialled(late)
    assert link.is_far
    late.delay(0.0)

    def is_near() -> bool:
        """On a busy machine its answers may be late once more."""
        link.doubt_distance()
        return not link.is_far

    wait_until(is_near, "its answers come at once now")
    link.close()


def test_one_whose_answers_stay_late_is_far(late: LinkProxy) -> None:
    link = dialled(late)
    asked = link.correlation
    link.doubt_distance()
    assert link.is_far
    assert link.correlation == asked + 3
    link.close()
    settings = client_settings(Cluster("A", {"bootstrap.servers": f"127.0.0.1:{late.ports[0]}"}), "test")
    assert look_up(settings, []).is_far


def test_where_tcp_took_as_long_nothing_is_asked_again(late: LinkProxy) -> None:
    link = dialled(late)
    link.connect_seconds = ROUND_TRIP_SECONDS
    asked = link.correlation
    link.doubt_distance()
    assert link.is_far
    assert link.correlation == asked
    link.close()
