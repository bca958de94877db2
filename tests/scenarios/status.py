"""What a flow's tasks report on the status topic, as any other process may read it."""

from tests.oracle import Client

from sparkmirror.kafka.clients import open_tail
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.status.board import FlowStatus, StatusBoard, latest_run


def status_of(target: Client, alias: str) -> FlowStatus:
    """What the flow's latest run has reported."""
    topic = TopicPartition(ledger_topics(alias).status, 0)
    with open_tail(Cluster("backup", dict(target)), "test", [topic]) as tail:
        records = [(record.key, record.value) for record in tail.read_to_end(10.0)]
    board = StatusBoard(alias, latest_run(records, alias) or "")
    for key, value in records:
        board.take(key, value)
    return board.status()
