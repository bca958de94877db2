"""A topic that is deleted after a streaming read of `kafka-records` has planned to read it."""

import logging
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql.streaming.datasource import ReadAllAvailable
from tests.waiting import wait_until

from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.fetch import log_range
from sparkmirror.records.options import read_options, write_options
from sparkmirror.records.range_reader import read_range
from sparkmirror.records.sink import write_rows
from sparkmirror.records.source_log import DataLoss
from sparkmirror.records.stream_reader import RecordsStreamReader
from sparkmirror.testing.kafka import KafkaCluster

ALL = ReadAllAvailable()


class Read:
    """Of a topic that goes and one that stays, each with ten records."""

    def __init__(self, cluster: KafkaCluster, admin: Admin, names: list[str]) -> None:
        self.names = names
        self._admin = admin
        self._cluster = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
        admin.create_topics([NewTopic(name, 1, 1) for name in names])
        for name in names:
            options = write_options({**self._cluster, "topic": name}, is_stream=False)
            write_rows(options, iter([pa.record_batch({"value": pa.array([b"x"] * 10)})]))

    def reader(self, *, fails: bool) -> RecordsStreamReader:
        given = {**self._cluster, "subscribe": ",".join(self.names), "startingoffsets": "earliest"}
        return RecordsStreamReader(read_options({**given, "failondataloss": str(fails)}, is_stream=True))

    def delete(self) -> None:
        other = AdminClient({"bootstrap.servers": self._cluster["kafka.bootstrap.servers"]})
        other.delete_topics(self.names[:1])[self.names[0]].result(60)
        wait_until(lambda: self.names[0] not in self._admin.list_topics(self.names), "the topic is gone")


@pytest.fixture
def read(source_cluster: KafkaCluster, source: Admin, unique: Callable[[str], str]) -> Read:
    return Read(source_cluster, source, [unique("gone"), unique("stays")])


def planned(reader: RecordsStreamReader) -> tuple[dict[str, Any], dict[str, Any]]:
    start = reader.initialOffset()
    return start, reader.latestOffset(start, ALL)


def count(batches: Any) -> int:
    return sum(batch.num_rows for batch in batches)


def test_a_batch_that_was_planned_goes_on_without_the_topic(
    read: Read, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(log_range, "_SILENCE_SECONDS_MAX", 1.0)
    before = read.reader(fails=False)
    start, end = planned(before)
    deleted, kept = before.partitions(start, end)
    read.delete()
    gone = TopicPartition(read.names[0], 0)
    with caplog.at_level(logging.WARNING):
        assert count(before.read(deleted)) == 0
        monkeypatch.undo()  # a busy machine may be silent for so long
        assert count(before.read(kept)) == 10
        assert f"{gone} was deleted before its offsets 0 to 9 were read." in caplog.text
        after = read.reader(fails=False)
        assert [task.value.wanted.where.topic for task in after.partitions(start, end)] == read.names[1:]
    assert f"{gone} was deleted before the batch that was planned had read it." in caplog.text
    assert TopicPartition(read.names[1], 0) in after.log.partitions()


def test_with_fail_on_data_loss_the_error_says_what_became_of_the_topic(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_range, "_SILENCE_SECONDS_MAX", 1.0)
    before = read.reader(fails=True)
    start, end = planned(before)
    task = before.partitions(start, end)[0]
    read.delete()
    with pytest.raises(DataLoss, match=r"gone.* was deleted before its offsets 0 to 9 were read"):
        count(read_range(before._options, task.value))
    with pytest.raises(DataLoss, match=r"gone.* was deleted before the batch that was planned"):
        read.reader(fails=True).partitions(start, end)


def test_a_topic_that_goes_while_a_batch_is_planned_is_left_out_of_it(
    read: Read, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reader = read.reader(fails=False)
    start = reader.initialOffset()
    latest = reader.log.latest

    def asked_late(partitions: Any) -> Any:
        monkeypatch.undo()
        read.delete()
        return latest(partitions)

    monkeypatch.setattr(reader.log, "latest", asked_late)
    end = reader.latestOffset(start, ALL)
    assert [(one.value.wanted.where.topic, one.value.wanted.size) for one in reader.partitions(start, end)] == [
        (read.names[1], 10)
    ]
    assert f"{read.names[0]}-0 is no longer in the cluster" in caplog.text
