"""What a flow's tasks report on the status topic, as any other process may read it."""

from tests.oracle import Client
from tests.scenarios.mirror import START_SECONDS_MAX

from sparkmirror.kafka.clients import open_tail
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.telemetry.board import FlowStatus, StatusBoard


def status_of(target: Client, alias: str) -> FlowStatus:
    """What the flow's latest run has reported."""
    return board_of(target, alias).status()


def board_of(target: Client, alias: str) -> StatusBoard:
    """All that the flow has left, of its latest run."""
    topic = TopicPartition(ledger_topics(alias).status, 0)
    board = StatusBoard(alias)
    with open_tail(Cluster("backup", dict(target)), "test", [topic]) as tail:
        for record in tail.read_to_end(START_SECONDS_MAX):  # a flow that starts has yet to make it
            board.take(record.key, record.value, record.timestamp_ms)
    return board
