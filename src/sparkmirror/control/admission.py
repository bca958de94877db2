"""Decides which orders a task obeys: those of its epoch's planner, for partitions that the flow mirrors and that exist.

Otherwise any client that may write to the command topic could assign partitions. A planner proves its orders by a
secret of its own, which only the plans of its epochs carry: Spark takes them to the tasks, Kafka never sees them.
"""

import hmac
import logging
from collections.abc import Callable
from dataclasses import replace

from sparkmirror.control.assignment import Assigned, TaskPlan
from sparkmirror.control.commands import Assign, encode_command

log = logging.getLogger(__name__)


def prove(order: Assign, secret: bytes) -> Assign:
    """The order with its proof."""
    plain = replace(order, proof="")
    return replace(plain, proof=hmac.new(secret, encode_command(plain), "sha256").hexdigest())


class Admission:
    """Judges orders for one task. `wants` says whether the flow mirrors a topic."""

    def __init__(self, plan: TaskPlan, wants: Callable[[str], bool]) -> None:
        self._plan = plan
        self._wants = wants
        self._counts = dict(plan.topics)
        self._obeyed = plan.generation

    def is_for_task(self, order: Assign) -> bool:
        """Whether the task must still obey the order: a renewed plan contains earlier orders already.

        Orders are read again where the command topic was cut. A partition that was taken on and released since would be
        taken on as it stood then, and its release would store that place.
        """
        return order.generation > self._obeyed and self.is_own(order)

    def is_own(self, order: Assign) -> bool:
        """Whether the planner that made the task's plan gave the order, before or after the plan."""
        return order.task == self._plan.task and self.is_of_planner(order)

    def is_of_planner(self, order: Assign) -> bool:
        """As `is_own`, for any task."""
        plan = self._plan
        process = plan.share.process if plan.share is not None else ""
        if (order.run, order.process) != (plan.run, process):
            return False
        return hmac.compare_digest(prove(order, plan.secret).proof.encode(), order.proof.encode())

    def admit(self, order: Assign) -> tuple[Assigned, ...]:
        """The partitions that the order adds, without those that the flow does not mirror or that do not exist."""
        self._counts.update(order.topics)
        self._obeyed = order.generation
        admitted = tuple(item for item in order.add if self._is_admissible(item))
        if len(admitted) < len(order.add):
            log.warning(
                "task %d: %d partitions of an order are not mirrored by this flow, and not taken on.",
                order.task,
                len(order.add) - len(admitted),
            )
        return admitted

    def _is_admissible(self, item: Assigned) -> bool:
        topic, number = item.partition.topic, item.partition.partition
        return number < self._counts.get(topic, 0) and self._wants(topic)
