"""One flow between two clusters without a mirror: the offset map is written by hand, the jobs are those of a run."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from tests.oracle import DEADLINE_SECONDS_LEAST, Client
from tests.scenarios.data import make_topics, numbered, write

from sparkmirror.config.flow.flows import FlowConfig, MirrorConfig, parse_config
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin, open_tail
from sparkmirror.kafka.group_answers import Committed
from sparkmirror.kafka.groups import GroupOffsetsClient
from sparkmirror.kafka.publish import publish
from sparkmirror.ledger.map_records import ChunkName, encode_chunk, encode_key
from sparkmirror.ledger.mirror_records import Checkpoint
from sparkmirror.ledger.offset_map import OffsetMap
from sparkmirror.ledger.setup import ensure_ledger_topics
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import NO_TOPIC_ID, TopicPartition
from sparkmirror.sync.offset_job import OffsetJob

_EVERY_PARTITION = 20
"""So many names lie on all of that topic's three partitions."""


class Story:
    """One flow between the shared clusters, with names of its own, and what the test does on either side."""

    def __init__(self, source: Client, target: Client, alias: str, lines: tuple[str, ...] = ()) -> None:
        self.config = _config(source, target, alias, lines)
        self.flow: FlowConfig = self.config.flows[0]
        self.source_client, self.target_client = source, target
        self.source: Admin = open_admin(self.flow.source, "test")
        self.target: Admin = open_admin(self.flow.target, "test")
        self.source_groups, self.target_groups = (_groups(admin) for admin in (self.source, self.target))
        self.topics = ledger_topics(alias)
        ensure_ledger_topics(self.target, self.topics)
        self.job = OffsetJob(self.flow)
        self._numbers = 0

    def close(self) -> None:
        self.job.close()
        self.source.close()
        self.target.close()

    def make_topic(self, name: str, partitions: int = 1) -> None:
        for client, topic in ((self.source_client, name), (self.target_client, self.flow.remote_topic(name))):
            make_topics(client, {topic: partitions})
            write(client, topic, numbered(0, 300, partitions=partitions))

    def map(self, partition: TopicPartition, *spans: tuple[int, int, int], with_id: bool = False) -> None:
        """`with_id` says of which topic the offsets are, as writers do."""
        remote = self.flow.remote_topic(partition.topic)
        topic_id = self.target.list_topics([remote])[remote].topic_id if with_id else NO_TOPIC_ID
        found = OffsetMap(spans[0][0], topic_id)
        for span in spans:
            found.append(*span)
        self._numbers += 1
        key = encode_key(self.flow.name.source, partition, ChunkName(1, 1, self._numbers))
        publish(
            self.flow.target, self.topics.offset_map, [(key, encode_chunk(found.as_chunk()))], DEADLINE_SECONDS_LEAST
        )

    def work_until(self, condition: Callable[[], bool], what: str) -> None:
        """Rounds of the job, as in a run: what was written a moment ago may come with the next."""
        deadline = time.monotonic() + DEADLINE_SECONDS_LEAST
        self.job()
        while not condition():
            assert time.monotonic() < deadline, f"not in {DEADLINE_SECONDS_LEAST:g} s: {what}"
            self.job()

    def commit(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        assert self.source_groups.commit(group, offsets) == {}

    def on_target(self, group: str) -> dict[TopicPartition, Committed]:
        found, failed = self.target_groups.committed([group])
        assert failed == {}
        return dict(found[group])

    def checkpoints(self, group: str) -> list[Checkpoint]:
        with open_tail(
            self.flow.target, "test", [TopicPartition(f"{self.flow.name.source}.checkpoints.internal", 0)]
        ) as tail:
            found = [Checkpoint.parse(record.key, record.value) for record in tail.read_to_end()]
        return [checkpoint for checkpoint in found if checkpoint.group == group]


def _groups(admin: Admin) -> GroupOffsetsClient:
    """A new cluster's first group takes a moment, until the topic of all groups' offsets is there: it is asked for."""
    groups = GroupOffsetsClient(admin, DEADLINE_SECONDS_LEAST)
    _, failed = groups.committed(f"nobody-{number}" for number in range(_EVERY_PARTITION))
    assert failed == {}
    return groups


def _config(source: Client, target: Client, alias: str, lines: tuple[str, ...]) -> MirrorConfig:
    text = "\n".join(
        [
            f"clusters = {alias}, backup",
            f"{alias}.bootstrap.servers = {source['bootstrap.servers']}",
            f"backup.bootstrap.servers = {target['bootstrap.servers']}",
            f"{alias}->backup.enabled = true",
            f"topics = .*{alias}",
            f"groups = .*{alias}",
            "sync.group.offsets.enabled = true",
            *lines,
        ]
    )
    return parse_config(parse_properties(text.encode(), "test.properties"))


@contextmanager
def told(source: Client, target: Client, alias: str, *lines: str) -> Iterator[Story]:
    """A story that closes what it opens."""
    found = Story(source, target, alias, lines)
    try:
        yield found
    finally:
        found.close()
