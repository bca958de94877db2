"""A run that slept meets a newer one's record in the ledger of which only garbage is left."""

from uuid import uuid4

import pytest
from confluent_kafka import Producer

from sparkmirror.config.flow.flows import parse_config
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.errors import FencedError, RunReplaced, SparkMirrorError
from sparkmirror.kafka.clients import open_admin
from sparkmirror.ledger import positions
from sparkmirror.ledger.positions import ALONE, PositionRecord
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.ledger.setup import ensure_ledger_topics
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Position, TopicPartition
from sparkmirror.planning.fencing import stop_if_replaced
from sparkmirror.testing.kafka import KafkaCluster


def test_a_generation_that_cannot_be_read_stops_both_planners_until_it_is_mended(target_cluster: KafkaCluster) -> None:
    alias = f"A{uuid4().hex[:12]}"
    servers = target_cluster.bootstrap_servers
    lines = (f"clusters = {alias}, B", f"{alias}.bootstrap.servers = {servers}", f"B.bootstrap.servers = {servers}")
    text = "\n".join([*lines, f"{alias}->B.enabled = true", ""])
    (flow,) = parse_config(parse_properties(text.encode(), "mm2")).flows
    topics = ledger_topics(alias)
    key = positions.encode_key(alias, TopicPartition("orders", 0))
    newer = positions.encode_value(PositionRecord(Position(9), generation=8, task=0, run="newer"))
    with open_admin(flow.target, "test") as admin:
        ensure_ledger_topics(admin, topics)
    writer = Producer({"bootstrap.servers": servers})

    def write(value: bytes | None) -> None:
        writer.produce(topics.positions, value, key)
        assert writer.flush(60) == 0

    with LedgerReader(flow.target, topics, flow.connector) as ledger:
        write(newer)
        with pytest.raises(FencedError):
            stop_if_replaced(flow, "older", ledger, 7)
        write(newer[:20])
        for run, generation in (("older", 7), ("a third", 0), ("newer", 8)):
            with pytest.raises(SparkMirrorError, match=r"no epoch begins.* partition 0, offset 1: "):
                stop_if_replaced(flow, run, ledger, generation)
        write(newer)
        with pytest.raises(RunReplaced):
            stop_if_replaced(flow, "older", ledger, 7)
        stop_if_replaced(flow, "newer", ledger, 8)
        write(positions.encode_value(PositionRecord(Position(9), generation=9, task=0, run=f"{ALONE}9")))
        with pytest.raises(FencedError) as taken_over:
            stop_if_replaced(flow, "newer", ledger, 8)
        assert type(taken_over.value) is FencedError, "who shares the flow with nobody is in no group of ours"
