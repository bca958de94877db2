"""Processes that share a flow, without Spark: two members of one group on a real broker."""

from collections.abc import Callable
from contextlib import ExitStack

from tests.faults.numbered import wait_until
from tests.scenarios.mirror import flow_file

from sparkmirror.config.flow.flows import parse_config
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.kafka.clients import open_admin
from sparkmirror.ledger.setup import ensure_ledger_topics
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.sharing.flow_share import FlowShare
from sparkmirror.sharing.group import ProcessGroup
from sparkmirror.testing.kafka import KafkaCluster

JOIN_SECONDS_MAX = 60.0


def test_tasks_change_hands_where_the_target_allows_short_transactions_only(unique: Callable[[str], str]) -> None:
    """Whoever leads the group fences with the time-out of the flow's file."""
    short = {"transaction.max.timeout.ms": "20000"}
    with KafkaCluster(name="impatient", config=short) as cluster, ExitStack() as stack:
        client, alias = {"bootstrap.servers": cluster.bootstrap_servers}, unique("A")
        lines = ["tasks.max = 2", "tasks.min = 2", "backup.producer.transaction.timeout.ms = 10000"]
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
        wait_until(
            lambda: [len(process_group.assignment(flow.name).tasks) for process_group in groups] == [1, 1],
            "each has a task",
        )
