"""What a simulated cleaner leaves of a log is what a real one leaves of the same log."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from tests.simulation.cleaning import clean
from tests.simulation.cluster import Cluster
from tests.simulation.conversation import Conversation
from tests.simulation.scheduler import World
from tests.simulation.test_conformance import differences, real_link, simulated_link
from tests.simulation.wire import KAFKA_4_3

from sparkmirror.batch.header import Codec
from sparkmirror.model import TopicPartition
from sparkmirror.testing.kafka import KafkaCluster

_SEGMENT_SECONDS, _WAIT_SECONDS, _POLL_SECONDS = 4.0, 60.0, 0.5
_SETTINGS = {
    "cleanup.policy": "compact",
    "segment.ms": str(int(_SEGMENT_SECONDS * 1000)),
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
    "min.compaction.lag.ms": "0",
}
_VERSIONS = (18, 13)


def _script(talk: Conversation, topic: str, compact: Callable[[Conversation, UUID], None]) -> list[tuple[str, Any]]:
    """Two passes of the cleaner over batches of a producer and of transactions, one of each kind aborted."""
    topic_id = talk.topic_id(topic)
    for name in ("clean-1", "clean-2"):
        talk.find(name)
    alone, first, second = (talk.initialize(name, name) for name in ("clean-0", "clean-1", "clean-2"))
    talk.put("three keys", topic_id, alone, 0, [b"a1", b"b1", b"c1"])
    talk.put("one of them again", topic_id, alone, 3, [b"a2"])
    talk.put("compressed, with a key twice", topic_id, alone, 4, [b"d1", b"e1", b"f1", b"d2"], codec=Codec.GZIP)
    talk.put("to be committed", topic_id, first, 0, [b"a3", b"g1"], name="clean-1")
    first = talk.end("commit", "clean-1", first, commits=True, version=5)
    talk.put("to be aborted", topic_id, second, 0, [b"b9", b"h1"], name="clean-2")
    second = talk.end("abort", "clean-2", second, commits=False, version=5)
    talk.put("more of the first", topic_id, alone, 8, [b"e2"])
    _roll(talk, topic_id, alone, 9)
    compact(talk, topic_id)
    talk.stored("after one pass", topic_id)
    talk.put("again", topic_id, first, 0, [b"g2"], name="clean-1")
    talk.end("commit again", "clean-1", first, commits=True, version=5)
    _roll(talk, topic_id, alone, 10)
    compact(talk, topic_id)
    talk.stored("after two passes", topic_id)
    return talk.told


def _roll(talk: Conversation, topic_id: UUID, producer: tuple[int, int], sequence: int) -> None:
    """A batch of its own in the segment that no cleaner looks at."""
    talk.nap(_SEGMENT_SECONDS + 0.5)
    talk.put("the next segment", topic_id, producer, sequence, [b"z%d" % sequence])


def _simulated() -> list[tuple[str, Any]]:
    world = World(1)
    cluster = Cluster(world, "S", 1, KAFKA_4_3)
    cluster.create_topic("talk", 1)

    def compact(talk: Conversation, topic_id: UUID) -> None:
        partition = cluster.partition(TopicPartition("talk", 0))
        assert partition is not None
        clean(partition.log)

    return _script(simulated_link(world, cluster, _VERSIONS), "talk", compact)


def _compact(talk: Conversation, topic_id: UUID) -> None:
    """Until the cleaner has been there, and has nothing left to do."""
    before = now = talk.batches(topic_id)
    for _ in range(int(_WAIT_SECONDS / _POLL_SECONDS)):
        talk.nap(_POLL_SECONDS)
        was, now = now, talk.batches(topic_id)
        if now == was != before:
            return
    raise AssertionError(f"no cleaner came within {_WAIT_SECONDS} s: {now}")


def test_a_simulated_cleaner_leaves_what_one_of_4_3_leaves() -> None:
    with (
        KafkaCluster(name="clean", config={"log.cleaner.backoff.ms": "200"}) as cluster,
        real_link(cluster.bootstrap_servers, "talk", _VERSIONS, _SETTINGS) as talk,
    ):
        real = _script(talk, "talk", _compact)
    assert "\n".join(differences(_simulated(), real)) == ""
