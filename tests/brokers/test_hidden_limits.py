"""A topic that takes small batches alone, on a target that does not show its settings."""

from collections.abc import Callable, Iterator

import pytest
from tests.brokers.grants import grant
from tests.faults.one_task import Mirrored, OneTask

from sparkmirror.errors import ClusterError
from sparkmirror.kafka.answers import AclBinding
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.settings import client_settings
from sparkmirror.kafka.wire.lookup import look_up_topic_configs
from sparkmirror.testing.kafka import KafkaCluster

_EVERYBODY = {"allow.everyone.if.no.acl.found": "true"}
_AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with KafkaCluster(name="hidden", config=_AUTHORIZER | _EVERYBODY) as cluster:
        yield cluster.bootstrap_servers


@pytest.mark.parametrize("exactly_once", [False, True], ids=["at least once", "exactly once"])
def test_batches_become_smaller_until_the_topic_takes_them(
    servers: str, unique: Callable[[str], str], exactly_once: bool
) -> None:
    flow = Mirrored(servers, unique("A"), unique("numbers"))
    flow.create(replicas=1, **{"max.message.bytes": "400"})
    _hide_settings(flow)
    with OneTask(flow, exactly_once=exactly_once) as task:
        task.give(1000, 1000)
        task.wait_for_ledger(1000, 1000)
    arrival = flow.arrival()
    arrival.assert_complete([1000, 1000])
    assert arrival.repeats() == 0


def _hide_settings(flow: Mirrored) -> None:
    topic = (flow.remote, "LITERAL", "User:ANONYMOUS", "*")
    with open_admin(flow.target, "test") as admin:
        grant(admin, AclBinding(*topic, "ALL", "ALLOW"), AclBinding(*topic, "DESCRIBE_CONFIGS", "DENY"))
    with pytest.raises(ClusterError, match="does not tell the settings"):
        look_up_topic_configs(client_settings(flow.target, "test"), flow.remote, ["max.message.bytes"])
