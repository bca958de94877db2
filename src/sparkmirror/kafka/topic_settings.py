"""Changes settings of topics: IncrementalAlterConfigs (KIP-339). Called by `sync.config_job`."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kafka.protocol.admin import IncrementalAlterConfigsRequest

from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.connection import portions
from sparkmirror.kafka.errors import NO_ERROR, RequestRefused, refusal

_TOPIC = 2
_SET = 0
_DELETE = 1
_TOPICS_PER_REQUEST = 500

Settings = Mapping[str, str | None]
"""Setting -> its new value, or None to go back to the default."""


def alter_topics(admin: Admin, changes: Mapping[str, Settings]) -> list[SparkMirrorError]:
    """Changes settings per topic; returns the reasons of those that failed, all others are done.

    A broker takes all changes of a topic or none: where it refuses one, they are tried one by one.
    """
    failures: list[SparkMirrorError] = []
    for topic, problem in _alter(admin, [(topic, settings) for topic, settings in changes.items() if settings]).items():
        if isinstance(problem, RequestRefused) and len(changes[topic]) > 1:
            for key, value in changes[topic].items():
                failures += _alter(admin, [(topic, {key: value})]).values()
        else:
            failures.append(problem)
    return failures


def _alter(admin: Admin, changes: Sequence[tuple[str, Settings]]) -> dict[str, SparkMirrorError]:
    refused: dict[str, SparkMirrorError] = {}
    for some in portions(changes, _TOPICS_PER_REQUEST):
        answer = admin.connection.ask(partial(_request, some), "changing topic settings")
        for result in answer.responses:
            if result.error_code != NO_ERROR:
                doing = f"changing {', '.join(dict(some)[result.resource_name])} of topic {result.resource_name}"
                refused[result.resource_name] = refusal(result.error_code, admin.alias, doing, result.error_message)
    return refused


def _request(changes: Sequence[tuple[str, Settings]]) -> Any:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    setting = resource.AlterableConfig
    return IncrementalAlterConfigsRequest(
        resources=[
            resource(
                resource_type=_TOPIC,
                resource_name=topic,
                configs=[
                    setting(name=key, config_operation=_DELETE if value is None else _SET, value=value)
                    for key, value in settings.items()
                ],
            )
            for topic, settings in changes
        ],
        validate_only=False,
    )
