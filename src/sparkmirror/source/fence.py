"""Takes a flow's tasks over from whoever ran them, or finds that others have. Called by `source.planner`."""

import logging
from collections.abc import Collection

from sparkmirror.config.flows import FlowConfig
from sparkmirror.errors import AuthorizationFailed, FencedError, SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.fencing import (
    NoTransactionCoordinator,
    ProducerIdentity,
    init_producer_ids,
    transactional_id,
    used_tasks,
)
from sparkmirror.ledger.positions import Tenure
from sparkmirror.ledger.reader import LedgerReader

log = logging.getLogger(__name__)


def stop_if_replaced(flow: FlowConfig, run: str, ledger: LedgerReader, generation: int) -> None:
    """A run that slept, or whose task failed, must not take the flow back from the run that replaced it.

    Processes that share a flow are of one run: which of them may work, their group says. Raises FencedError, and what
    `known_tenures` raises.
    """
    ledger.read_to_end()
    records = known_tenures(flow, ledger)
    ours = max([generation, *(record.generation for record in records if record.run == run)])
    if ours and any(record.run != run and record.generation >= ours for record in records):
        raise FencedError(f"{flow.name}: a newer instance has taken over, by the ledger's generations")


def known_tenures(flow: FlowConfig, ledger: LedgerReader) -> list[Tenure]:
    """Who has written each of our records, by what was read so far.

    Raises SparkMirrorError where a record does not tell: it may be of a newer instance, and two would plan.
    """
    for problem in ledger.view.unknown_tenures.values():
        raise SparkMirrorError(f"{flow.name}: no epoch begins, because a newer instance may run: {problem}")
    return list(ledger.view.tenures())


def last_generation(flow: FlowConfig, ledger: LedgerReader, at_least: int) -> int:
    """The greatest that anybody has written. Raises what `known_tenures` raises."""
    return max(at_least, *(record.generation for record in known_tenures(flow, ledger)), 0)


def take_over(
    flow: FlowConfig, target: Admin, ledger: LedgerReader, tasks: Collection[int]
) -> dict[int, ProducerIdentity]:
    """Take the transactional ids of `tasks` and of all beyond that ever were, so that nobody else still writes.

    Ours are in the ledger, which has been read; MirrorMaker's are known to the coordinators. Where processes share the
    flow, the holder of a task sees to those beyond whose number it shares; and a task that changes hands is fenced by
    the leader of the group before anybody gets it (`engine.crew`).
    """
    used = {record.task for record in known_tenures(flow, ledger)} | used_tasks(target, flow.connector)
    beyond = {task for task in used if task % flow.tasks_max in tasks}
    return {task: take_identity(flow, target, task) for task in sorted(beyond | set(tasks))}


def take_identity(flow: FlowConfig, target: Admin, task: int) -> ProducerIdentity:
    """A task's producer id and epoch; a plain one, which fences nobody, where the target refuses transactional ids or
    says that it can have no coordinator for them (`sync.fencing_job` tells that).
    """
    wanted = transactional_id(flow.connector, task)
    try:
        return init_producer_ids(target, [wanted], flow.producer.transaction_timeout_ms)[wanted]
    except AuthorizationFailed as refused:
        if flow.is_exactly_once:
            raise
        log.warning("%s: %s A plain producer id is used; predecessors are not fenced.", flow.name, refused)
    except NoTransactionCoordinator:
        if flow.is_exactly_once:
            raise
    return init_producer_ids(target, [None])[None]
