"""Whether a cluster can have a coordinator of transactions at all. Called by `kafka.fencing`.

Brokers create `__transaction_state` when somebody first asks for a coordinator, with
`transaction.state.log.replication.factor` replicas, and cannot where fewer brokers are registered: then they answer
every question with COORDINATOR_NOT_AVAILABLE, for ever.
"""

from functools import partial
from typing import Any, Final

from kafka.protocol.admin import DescribeConfigsRequest

from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.kafka.errors import INVALID_REPLICATION_FACTOR, NO_ERROR, RequestRefused

REPLICATION_SETTING: Final = "transaction.state.log.replication.factor"
_TOPIC: Final = "__transaction_state"
_BROKER: Final = 4
"""The resource type of a broker (`ConfigResource.Type`)."""


def why_no_coordinator(admin: Admin) -> str:
    """Why no coordinator of transactions can exist, as a clause; empty where one can, or where nobody says.

    The controller itself is asked whether it could make the topic: it knows which brokers are registered, also those
    that are down. Raises ClusterUnreachable.
    """
    node_id = min(admin.brokers())
    factor = _replication_factor(admin, node_id)
    if factor is None:
        return ""
    refused = admin.rehearse_topics([NewTopic(_TOPIC, 1, factor)])[_TOPIC]
    if not (isinstance(refused, RequestRefused) and refused.code == INVALID_REPLICATION_FACTOR):
        return ""
    return f"cluster {admin.alias} has fewer brokers than its {REPLICATION_SETTING} = {factor} asks for"


def _replication_factor(admin: Admin, node_id: int) -> int | None:
    """The broker's setting; None where it does not tell."""
    answer = admin.connection.ask(partial(_request, node_id), f"reading {REPLICATION_SETTING}", node_id)
    told = [one.value for result in answer.results if result.error_code == NO_ERROR for one in result.configs]
    return int(told[0]) if told and (told[0] or "").isdecimal() else None


def _request(node_id: int) -> Any:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_BROKER, resource_name=str(node_id), configuration_keys=[REPLICATION_SETTING]
    )
    return DescribeConfigsRequest(resources=[resource], include_synonyms=False, include_documentation=False)
