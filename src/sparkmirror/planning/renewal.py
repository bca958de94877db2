"""Renews the plan of a task that is tried again: its plan, changed by the orders since the epoch began.

If the task obeyed these orders again, it would begin where partitions stood when they were handed over, and read some
that another task has by now (invariants 2 and 4). What has no start just now, as while its topic is gone on the target,
is left out, and the epoch ends: the next planner looks for it until it is there. Called by `planning.planner`.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.admission import Admission
from sparkmirror.control.assignment import Assigned, TaskPlan
from sparkmirror.control.commands import Assign, Restart, command_record, decode_command
from sparkmirror.errors import FencedError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_tail
from sparkmirror.kafka.publish import publish
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.model import TopicPartition
from sparkmirror.planning.fencing import stop_if_known_replaced, stop_if_replaced, take_over
from sparkmirror.planning.left_behind import LeftBehind
from sparkmirror.planning.left_in_ledger import read_through
from sparkmirror.planning.ownership import is_member
from sparkmirror.planning.source_topics import SourceTopics
from sparkmirror.planning.starts import confirm_ids, settle_starts, start_again

log = logging.getLogger(__name__)

_READ_SECONDS_MAX = 10.0


def renew(
    plan: TaskPlan,
    flow: FlowConfig,
    run: str,
    source: Admin,
    target: Admin,
    ledger: LedgerReader,
    clock: Clock = SYSTEM_CLOCK,
) -> TaskPlan:
    """The plan for a repeated attempt of a task: a new producer epoch, and positions as the ledger has them now.

    Raises FencedError where a later run, or another process of the group, works in our place.
    """
    stop_if_replaced(flow, run, ledger, plan.generation)
    if plan.share is not None and not is_member(target, plan.share):
        raise FencedError(f"{flow.name}: the group of processes has gone on without this one")
    taken = take_over(flow, target, ledger, [plan.task])[plan.task]
    positions = read_through(flow, target, ledger, {plan.task: taken})
    stop_if_known_replaced(flow, run, ledger, plan.generation)  # who began since the first look is known by now
    plan = follow_orders(plan, read_orders(flow, plan, target), ledger.view.records, ledger.view.is_whole)
    held = {one.partition: positions[one.partition] for one in plan.assigned if one.partition in positions}
    topics = confirm_ids(source, SourceTopics(flow).read(source), held, clock)
    unknown = ledger.view.problems
    renewed = [
        start_again(one, topics.get(one.partition.topic), positions.get(one.partition), unknown.get(one.partition))
        for one in plan.assigned
    ]
    is_bounded = plan.seconds == 0
    begun = settle_starts(flow, (source, target, ledger), topics, renewed, all_of_them=is_bounded, clock=clock)
    begun = LeftBehind(flow, is_bounded=is_bounded, clock=clock).renew(target, plan.task, taken, begun)
    if not is_bounded and len(begun) < len(renewed):
        end_epoch(flow, plan, {one.partition for one in renewed} - {one.partition for one in begun}, clock)
    return replace(
        plan,
        assigned=tuple(begun),
        producer_id=taken.identity.producer_id,
        producer_epoch=taken.identity.epoch,
        producer_task=taken.number,
        spare=taken.spare,
        marks_from=ledger.view.last_sequence,
        brokers=source.brokers(),
        leaders={},
        offsets_partitions=ledger.offsets_partitions,
    )


def end_epoch(
    flow: FlowConfig, plan: TaskPlan, left_out: Collection[TopicPartition], clock: Clock = SYSTEM_CLOCK
) -> None:
    """Has the next epoch begin at once, since the planner of this one counts these partitions as the task's. Raises
    ClusterError."""
    names = ", ".join(map(str, sorted(left_out)[:5]))
    log.warning("%s: %s cannot begin now: the epoch ends, and they are looked for.", flow.name, names)
    process = "" if plan.share is None else plan.share.process
    order = Restart(plan.run, clock.time_ns() // 1_000_000, process)
    publish(flow.target, flow.ledger_topics.commands, [command_record(order)])


def read_orders(flow: FlowConfig, plan: TaskPlan, target: Admin) -> list[Assign]:
    """The planner's orders to the task and to others since its epoch began, oldest first, up to the end that the newest
    leader tells: a former one lacks some. Raises ClusterError."""
    where = TopicPartition(flow.ledger_topics.commands, 0)
    end = target.newest_ends([where]).of(where)
    with open_tail(flow.target, "orders", [where]) as tail:
        tail.seek(where, min(plan.commands_from, end))
        commands = [decode_command(record.value) for record in tail.read_to({where: end}, _READ_SECONDS_MAX)]
    admission = Admission(plan, flow.should_replicate)
    orders = [one for one in commands if isinstance(one, Assign) and admission.is_of_planner(one)]
    return [replace(one, add=admission.admit(one)) if one.task == plan.task else one for one in orders]


def follow_orders(
    plan: TaskPlan,
    orders: Sequence[Assign],
    ledger: Mapping[TopicPartition, PositionRecord],
    is_position_whole: Callable[[TopicPartition], bool],
) -> TaskPlan:
    """The plan with all orders applied, and their generation, so that the task does not obey them again: what came and
    went since would come as it stood then, and its release would store that place.

    A release that the ledger does not show is still to be obeyed, or no task would get the partition: the plan has it.
    Where the planner has given the partition to another task since, it had seen the release, which a cut of the ledger
    may have taken. So may a cut of the orders have: what another task has stored since is not the task's any more.
    """
    holds: dict[TopicPartition, Assigned] = {item.partition: item for item in plan.assigned}
    topics, generation, release = dict(plan.topics), plan.generation, list[TopicPartition]()
    given_at = {item.partition: order.generation for order in orders for item in order.add}
    for order in orders:
        if order.task != plan.task or order.generation <= plan.generation:
            continue
        holds |= {item.partition: item for item in order.add if item.partition not in holds}
        topics |= order.topics
        for where in order.release:
            was_given = given_at.get(where, 0) > order.generation
            record = ledger.get(where)
            if was_given or (
                record is not None and _has_left(record, plan.task, order.generation, is_position_whole(where))
            ):
                holds.pop(where, None)
            elif where in holds:
                release.append(where)
        generation = order.generation
    gone = {where for where in holds if _is_elsewhere(ledger.get(where), plan, generation)}
    assigned = tuple(holds[where] for where in sorted(holds.keys() - gone))
    return replace(plan, assigned=assigned, topics=topics, generation=generation, release=tuple(release))


def _is_elsewhere(record: PositionRecord | None, plan: TaskPlan, generation: int) -> bool:
    """Whether another task of the run has stored a position by an order that came behind all of ours."""
    return record is not None and record.run == plan.run and record.task != plan.task and record.generation > generation


def _has_left(record: PositionRecord, task: int, generation: int, is_stored: bool) -> bool:
    """Whether the ledger shows that the task has released the partition, or that another task has it since."""
    return record.generation >= generation and ((record.released and is_stored) or record.task != task)
