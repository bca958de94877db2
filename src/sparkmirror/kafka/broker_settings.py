"""Reads a setting of one broker, which that broker alone tells. Blocks; called by `kafka.fencing`,
`planning.target_ends` and `operations.memory_checks`.

Source: DescribeConfigs for a resource of type BROKER, `org.apache.kafka.common.config.ConfigResource`.
"""

from functools import partial
from typing import Any, Final

from kafka.protocol.admin import DescribeConfigsRequest

from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.errors import NO_ERROR

_BROKER: Final = 4


def broker_setting(admin: Admin, node_id: int, name: str, seconds: float | None = None) -> int | None:
    """A setting that is a number; None where the broker does not tell it, as without DESCRIBE_CONFIGS on the cluster.
    Raises ClusterError where it does not answer, within `seconds` if given."""
    answer = admin.connection.ask(partial(_request, node_id, name), f"reading {name}", node_id, seconds)
    values = [one.value for result in answer.results if result.error_code == NO_ERROR for one in result.configs]
    return int(values[0]) if values and (values[0] or "").isdecimal() else None


def _request(node_id: int, name: str) -> Any:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_BROKER, resource_name=str(node_id), configuration_keys=[name]
    )
    return DescribeConfigsRequest(resources=[resource], include_synonyms=False, include_documentation=False)
