"""Takes a flow's tasks over from their earlier process, or finds that another process has. Called by
`planning.planner`."""

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import NamedTuple

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import AuthorizationFailed, FencedError, RunReplaced, SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.fencing import (
    UNFINISHED_SECONDS,
    NoTransactionCoordinator,
    ProducerIdentity,
    TransactionUnfinished,
    holders,
    init_producer_ids,
    transactional_id,
)
from sparkmirror.kafka.known_ids import used_tasks
from sparkmirror.ledger.positions import ALONE, Tenure
from sparkmirror.ledger.reader import LedgerReader

log = logging.getLogger(__name__)
_TURNS_MAX = 10
"""So often a process looks at its ids while another one takes them over: each other time it takes what it lacks."""


def stop_if_replaced(flow: FlowConfig, run: str, ledger: LedgerReader, generation: int) -> None:
    """A run that slept, or whose task failed, must not take the flow back from the run that replaced it.

    Processes that share a flow have one run: their group decides which of them may work. The group may also have gone
    back to a run that it knew before, when all who knew the later one were dead or asleep: then it is RunReplaced.
    Raises FencedError, and what `known_tenures` raises.
    """
    ledger.read_to_end()
    stop_if_known_replaced(flow, run, ledger, generation)


def stop_if_known_replaced(flow: FlowConfig, run: str, ledger: LedgerReader, generation: int) -> None:
    """As `stop_if_replaced`, by what was read of the ledger so far."""
    records = known_tenures(flow, ledger)
    ours = max([generation, *(record.generation for record in records if record.run == run)])
    later = {record.run for record in records if record.run != run and record.generation >= ours}
    if ours and later:
        is_shared = not any(one.startswith(ALONE) for one in later)
        error = RunReplaced if is_shared else FencedError
        raise error(f"{flow.name}: a newer instance has taken over, by the ledger's generations")


def known_tenures(flow: FlowConfig, ledger: LedgerReader) -> list[Tenure]:
    """The writers of all positions in our format, by the records read so far.

    Raises SparkMirrorError for a record without a readable generation: a newer instance may have written it, and two
    planners would work at once.
    """
    for problem in ledger.view.unknown_tenures.values():
        raise SparkMirrorError(f"{flow.name}: no epoch begins, because a newer instance may run: {problem}")
    return list(ledger.view.tenures())


def last_generation(flow: FlowConfig, ledger: LedgerReader, *known: int) -> int:
    """The greatest generation that was written, or is `known` otherwise: that of a process that slept before it stored
    anything is in its orders alone. Raises what `known_tenures` raises."""
    return max(*known, *(record.generation for record in known_tenures(flow, ledger)), 0)


class Taken(NamedTuple):
    """A task's producer: the number in its transactional id, and the identity under that id.

    With exactly-once `spare` has number, producer id and epoch of a second one, for when a transaction cannot end.
    `held` are the identities under all ids that share the task's number and were used before, by number.
    """

    number: int
    identity: ProducerIdentity
    spare: tuple[int, int, int] | None = None
    held: Mapping[int, ProducerIdentity] = MappingProxyType({})


def held_identities(taken: Mapping[int, Taken]) -> dict[int, ProducerIdentity]:
    """All that were taken over, of all tasks, by the number in the transactional id."""
    return {number: identity for one in taken.values() for number, identity in one.held.items()}


def take_over(flow: FlowConfig, target: Admin, ledger: LedgerReader, tasks: Collection[int]) -> dict[int, Taken]:
    """Take over the transactional ids of `tasks` and of all tasks beyond them that ever ran, so that no other process
    still writes.

    Ours are in the ledger, which has been read; MirrorMaker's are known to the coordinators. If processes share the
    flow, the holder of a task also takes over the ids beyond that share its number; and the leader of the group fences
    a task that changes hands before it is granted (`sharing.group`). An id whose aborted transaction cannot end is left
    alone, since the abort has fenced its holders: the task gets another number.
    """
    known = {record.task for record in known_tenures(flow, ledger)}
    found: dict[int, ProducerIdentity | None] = {}
    taken: dict[int, Taken] = {}
    for _ in range(_TURNS_MAX):
        if _take_numbers(flow, target, known | used_tasks(target, flow.connector), tasks, found):
            taken = {task: _choose(flow, target, task, found) for task in sorted(tasks)}
            if not flow.is_exactly_once:
                return taken
        elif not _drop_lost(flow, target, found):
            return taken
    raise FencedError(f"{flow.name}: other instances take the flow over all the time")


def _take_numbers(
    flow: FlowConfig,
    target: Admin,
    used: Collection[int],
    tasks: Collection[int],
    found: dict[int, ProducerIdentity | None],
) -> bool:
    """Take over the ids that `found` lacks, and try again those that were left alone. Whether it has more then."""
    left = [number for number, identity in found.items() if identity is None]
    mine = {number for number in used if number % flow.tasks_max in tasks} | set(tasks)
    new = {number: _take_number(flow, target, number) for number in sorted(mine - found.keys())}
    again = {number: _take_number(flow, target, number, is_again=True) for number in left}
    found |= new | again
    return bool(new) or any(again.values())


def _drop_lost(flow: FlowConfig, target: Admin, found: dict[int, ProducerIdentity | None]) -> bool:
    """Whether somebody else who takes the flow over in the same moment has taken some ids since, though not all: they
    are to be taken again.

    Of two who both look when they have all, at least one sees it, if both have looked once more for ids that are new,
    and for those that were left alone. Who has taken the lowest last goes on. Raises FencedError.
    """
    own = {number: identity for number, identity in found.items() if identity is not None}
    names = {transactional_id(flow.connector, number): number for number in own}
    lost = [names[name] for name, holder in holders(target, names).items() if holder != own[names[name]]]
    if lost and min(lost) == min(own):
        raise FencedError(f"{flow.name}: a newer instance takes over at this moment")
    for number in lost:
        del found[number]
    return bool(lost)


def _take_number(flow: FlowConfig, target: Admin, number: int, *, is_again: bool = False) -> ProducerIdentity | None:
    """Take over the id of this number; None if its aborted transaction cannot end."""
    try:
        return take_identity(flow, target, number, 0.0 if is_again else UNFINISHED_SECONDS)
    except TransactionUnfinished as unfinished:
        if not is_again:
            log.warning("%s: %s Its task goes on under another transactional id.", flow.name, unfinished.args[0])
        return None


def _choose(flow: FlowConfig, target: Admin, task: int, found: dict[int, ProducerIdentity | None]) -> Taken:
    """The task's lowest usable number and a spare one, new ones if needed, which `found` gets too."""
    own = {number: identity for number, identity in found.items() if number % flow.tasks_max == task}
    chosen = [(number, identity) for number, identity in sorted(own.items()) if identity is not None]
    number = max(own)
    while not chosen:
        number += flow.tasks_max
        found[number] = identity = _take_number(flow, target, number)
        if identity is not None:
            chosen.append((number, identity))
    spare = _spare(flow, target, chosen[1:], number + flow.tasks_max, found)
    return Taken(*chosen[0], spare, {number: identity for number, identity in own.items() if identity is not None})


def _spare(
    flow: FlowConfig,
    target: Admin,
    others: Sequence[tuple[int, ProducerIdentity]],
    fresh: int,
    found: dict[int, ProducerIdentity | None],
) -> tuple[int, int, int] | None:
    """None where the principal may not write under such an id: then a transaction that cannot end is waited for."""
    if not flow.is_exactly_once:
        return None
    if others:
        return (others[0][0], *others[0][1])
    with suppress(AuthorizationFailed):
        found[fresh] = identity = _take_number(flow, target, fresh)
        return None if identity is None else (fresh, *identity)
    return None


def take_identity(
    flow: FlowConfig, target: Admin, task: int, unfinished_seconds: float = UNFINISHED_SECONDS
) -> ProducerIdentity:
    """A task's producer id and epoch. A plain one, which fences no predecessor, if the target refuses transactional ids
    or cannot have a coordinator for them (`sync.fencing_job` reports that)."""
    wanted = transactional_id(flow.connector, task)
    timeout_ms = flow.producer.transaction_timeout_ms
    try:
        return init_producer_ids(target, [wanted], timeout_ms, unfinished_seconds=unfinished_seconds)[wanted]
    except AuthorizationFailed as refused:
        if flow.is_exactly_once:
            raise
        log.warning("%s: %s A plain producer id is used; predecessors are not fenced.", flow.name, refused)
    except NoTransactionCoordinator:
        if flow.is_exactly_once:
            raise
    return init_producer_ids(target, [None])[None]
