"""What a reader announces of a backlog: extent rows account for it as soon as it is much."""

from contextlib import closing
from math import inf
from uuid import uuid4

import pytest
from tests.flows import flow_between

from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.kafka.publish import publish
from sparkmirror.kafka.settings import client_settings
from sparkmirror.pipeline.fetch import extents, flushes
from sparkmirror.pipeline.fetch.connection import FetchLimits
from sparkmirror.pipeline.fetch.reader import TaskReader
from sparkmirror.pipeline.fetch.reader_options import ReaderOptions
from sparkmirror.pipeline.relay.ring import RingPeer
from sparkmirror.pipeline.relay.schema import EXTENT, RUN, Row
from sparkmirror.planning.planner import Planner
from sparkmirror.testing.kafka import KafkaCluster

RECORDS = 60
RECORD_BYTES = 100_000


def test_extent_rows_of_a_backlog_come_before_their_time(
    source: Admin, source_cluster: KafkaCluster, target_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flushes, "_FLUSH_SECONDS", inf)
    monkeypatch.setattr(flushes, "_IDLE_FLUSH_SECONDS", inf)
    monkeypatch.setattr(extents, "EXTENT_BYTES_MAX", 10 * RECORD_BYTES)
    alias, topic = f"A{uuid4().hex[:12]}", f"backlog-{uuid4().hex[:12]}"
    source.create_topics([NewTopic(topic, 1, 1)])
    flow = flow_between(source_cluster, target_cluster, alias, f"topics = {topic}", "tasks.max = 1")
    for number in range(RECORDS):
        publish(flow.source, topic, [(b"%d" % number, bytes(RECORD_BYTES))])
    with closing(Planner(flow, "run", once=True)) as planner:
        planner.ends()
        (plan,) = planner.begin_epoch(1)
    limits = FetchLimits(partition_bytes_max=2 * RECORD_BYTES)
    options = ReaderOptions(client_settings(flow.source, "test"), limits, 64 << 20, flow.should_replicate)
    seen = list[list[Row]]()
    with closing(TaskReader(plan, options)) as reader:
        batches = reader.batches()
        seen.append(next(batches))
        with closing(RingPeer(reader._ring.address)) as writer:
            writer.listener.listen()
            seen += batches
    rows = [row for batch in seen for row in batch if row.kind in (RUN, EXTENT)]
    assert sum(row.records for row in rows) == RECORDS
    assert [(row.first_offset, row.next_offset) for row in rows] == [
        (begin.next_offset if begin else 0, row.next_offset) for begin, row in zip([None, *rows], rows, strict=False)
    ], "each continues the one before"
    assert len([row for row in rows if row.kind == EXTENT]) > 1, "they do not wait for the end"
