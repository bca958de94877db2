"""Keeps earlier holders of transactional ids out of the ledger that no task of the epoch writes under.

At least once a partition refuses a process that was replaced once a batch of the id's new epoch has reached it. Where
the flow runs fewer tasks than before, some ids have no such batch: a task that slept would set positions back. Blocks;
owned by `planning.planner`.
"""

import logging
from collections.abc import Mapping, Sequence

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.assignment import Assignment
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.errors import RequestRefused
from sparkmirror.kafka.fencing import ProducerIdentity, make_known, transactional_id
from sparkmirror.model import TopicPartition
from sparkmirror.planning.fencing import Taken, held_identities

log = logging.getLogger(__name__)


class IdleIds:
    """Of one flow."""

    def __init__(self, flow: FlowConfig) -> None:
        self._flow = flow
        self._barred: set[int] = set()

    def bar(
        self, target: Admin, taken: Mapping[int, Taken], assignment: Assignment, ledger: Sequence[TopicPartition]
    ) -> None:
        """Makes the leaders of the `ledger` know the epochs of the ids that were `taken` over and under which no
        position is stored, once until one is. An id that nobody has held before, or a plain one, has epoch 0. With
        exactly-once the coordinator refuses earlier holders itself. Raises ClusterError; FencedError where another
        process has taken one over."""
        used = {taken[task].number for task, members in assignment.items() if members}
        held = held_identities(taken)
        self._barred = (self._barred - used) & held.keys()  # who held one meanwhile has written under it
        if self._flow.is_exactly_once:
            return
        for number in sorted(held.keys() - used - self._barred):
            if held[number].epoch == 0 or self._make_known(target, number, held[number], ledger):
                self._barred.add(number)

    def _make_known(
        self, target: Admin, number: int, identity: ProducerIdentity, ledger: Sequence[TopicPartition]
    ) -> bool:
        """False where the target refuses it: the next epoch tries it again."""
        try:
            make_known(target, transactional_id(self._flow.connector, number), identity, ledger)
        except RequestRefused as refused:
            log.warning("%s: %s A process that slept may set positions back.", self._flow.name, refused)
            return False
        return True
