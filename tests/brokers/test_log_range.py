"""A range of a real log is read of the topic alone that it was planned of."""

from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient
from tests.waiting import wait_until

from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.kafka.publish import publish
from sparkmirror.kafka.settings import client_settings
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.pipeline.fetch.log_range import AnotherTopic, LogRange, read_parts


def test_a_topic_that_was_made_again_is_another_one_though_it_has_the_offsets(
    source: Admin, unique: Callable[[str], str]
) -> None:
    cluster = Cluster("A", {"bootstrap.servers": ",".join(source.connection.settings.bootstrap_servers)})
    where = TopicPartition(unique("again"), 0)

    def make() -> LogRange:
        assert source.create_topics([NewTopic(where.topic, 1, 1)]) == {where.topic: None}
        publish(cluster, where.topic, [(b"k", b"%d" % number) for number in range(10)])
        return LogRange(
            where, 0, 10, read_committed=False, topic_id=source.list_topics([where.topic])[where.topic].topic_id
        )

    def read(wanted: LogRange) -> int:
        return [part.next_offset for part in read_parts(client_settings(cluster, "test"), wanted)][-1]

    former = make()
    assert read(former) == 10
    admin = AdminClient(dict(cluster.client))
    admin.delete_topics([where.topic])[where.topic].result()
    wait_until(lambda: not source.list_topics([where.topic]), "the topic is deleted")
    present = make()
    with pytest.raises(AnotherTopic, match=f"{where.topic} on A was deleted and made again"):
        read(former)
    assert read(present) == 10
