"""Processes that share a flow, without Spark: two members of one group on a real broker."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from tests.scenarios.mirror import flow_file
from tests.waiting import wait_until

from sparkmirror.config.flow.flows import FlowConfig, parse_config
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.kafka.clients import open_admin
from sparkmirror.ledger.setup import ensure_ledger_topics
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.sharing.flow_share import FlowShare
from sparkmirror.sharing.group import ProcessGroup
from sparkmirror.testing.kafka import KafkaCluster

JOIN_SECONDS_MAX = 60.0


def test_a_run_that_was_replaced_is_given_up_by_all_members(
    target_cluster: KafkaCluster, unique: Callable[[str], str]
) -> None:
    """The ledger says to one of them that a later run replaced theirs. The processes of that run are dead."""
    with ExitStack() as stack:
        flow, groups = _two_members(stack, target_cluster, unique("A"))
        wait_until(lambda: len(_runs(groups, flow)) == 1, "both have heard of one run")
        (run,) = _runs(groups, flow)
        wait_until(lambda: groups[1].replace_run(flow.name, run), "the member that knows goes on as another run")
        wait_until(lambda: len(_runs(groups, flow) - {run}) == len(_runs(groups, flow)) == 1, "so do all")


def test_tasks_change_hands_where_the_target_allows_short_transactions_only(unique: Callable[[str], str]) -> None:
    """Whoever leads the group fences with the time-out of the flow's file."""
    short = {"transaction.max.timeout.ms": "20000"}
    with KafkaCluster(name="impatient", config=short) as cluster, ExitStack() as stack:
        limit = "backup.producer.transaction.timeout.ms = 10000"
        flow, groups = _two_members(stack, cluster, unique("A"), limit)
        wait_until(
            lambda: [len(process_group.assignment(flow.name).tasks) for process_group in groups] == [1, 1],
            "each has a task",
        )


def _two_members(
    stack: ExitStack, cluster: KafkaCluster, alias: str, *more: str
) -> tuple[FlowConfig, list[ProcessGroup]]:
    client = {"bootstrap.servers": cluster.bootstrap_servers}
    lines = ["tasks.max = 2", "tasks.min = 2", *more]
    text = flow_file(client, client, alias=alias, topics="none", lines=lines)
    (flow,) = parse_config(parse_properties(text.encode(), "mm2")).flows
    with open_admin(flow.target, "test") as admin:
        ensure_ledger_topics(admin, ledger_topics(alias))
    groups = []
    for _ in range(2):
        process_group = ProcessGroup([FlowShare(flow, "same", 1)], "mm2")
        stack.callback(process_group.leave)
        process_group.start()
        process_group.wait_until_joined(JOIN_SECONDS_MAX)
        groups.append(process_group)
    return flow, groups


def _runs(groups: Sequence[ProcessGroup], flow: FlowConfig) -> set[str]:
    return {process_group.assignment(flow.name).run for process_group in groups}
