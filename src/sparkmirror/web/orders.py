"""Writes a person's commands from the page (pause, resume, retry) to the flow's command topic, as the verbs do.
Called by `web.api`."""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.commands import ALL_TOPICS, Command, Pause, Resume, Retry, Selection, command_record
from sparkmirror.kafka.publish import publish

_PARTITION_MAX: Final = 2**31 - 1
_KINDS: Final[Mapping[str, Callable[[str, Selection, int], Command]]] = {
    "pause": Pause.of,
    "resume": Resume.of,
    "retry": Retry.of,
}


@dataclass(frozen=True, slots=True)
class Order:
    """`flow` is a flow's name. Without a `topic` the command applies to the whole flow, without a `partition` to the
    whole topic."""

    action: str
    flow: str
    topic: str | None = None
    partition: int | None = None

    @property
    def selection(self) -> Selection:
        """The selected partitions; the topic's name is literal, not a regular expression."""
        return Selection(ALL_TOPICS if self.topic is None else re.escape(self.topic), self.partition)


def parse_order(body: Any) -> Order:
    """The command in a request. Raises ValueError with a sentence for a request that is none."""
    if not isinstance(body, dict) or body.get("action") not in tuple(_KINDS):
        raise ValueError(f"An order is an object whose `action` is {', '.join(_KINDS)}.")
    topic, partition = body.get("topic"), body.get("partition")
    if not isinstance(body.get("flow"), str) or not isinstance(topic, str | None) or topic == "":
        raise ValueError("An order names its `flow`, and at most a `topic`, in words.")
    is_number = isinstance(partition, int) and not isinstance(partition, bool) and 0 <= partition <= _PARTITION_MAX
    if partition is not None and not (is_number and topic is not None):
        raise ValueError("The `partition` of an order is a number, of the `topic` that it names.")
    return Order(body["action"], body["flow"], topic, partition)


def give_order(flow: FlowConfig, run: str, order: Order) -> None:
    """Sends the command to the run that serves the page. Raises ClusterError."""
    topics = flow.ledger_topics
    command = _KINDS[order.action](run, order.selection, time.time_ns() // 1_000_000)
    publish(flow.target, topics.commands, [command_record(command)])
