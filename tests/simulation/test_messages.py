"""What is decoded once for all histories must be the same for each."""

from kafka.protocol.metadata import MetadataResponse
from tests.simulation import messages
from tests.simulation.cluster import Cluster
from tests.simulation.scheduler import World
from tests.simulation.wire import KAFKA_4_3

from sparkmirror.kafka.witnesses import take_newest

_VERSION = 12


def _metadata(cluster: Cluster) -> bytes:
    request = type("Asked", (), {"topics": None})
    answer = cluster.metadata(request, cluster.known_topics())
    return messages.encode_answer(answer, _VERSION, 0)[4:]


def test_newer_leaders_that_a_process_puts_into_an_answer_are_its_own() -> None:
    cluster = Cluster(World(1), "A", 2, KAFKA_4_3)
    (partition,) = cluster.create_topic("orders", 1).partitions
    before = _metadata(cluster)
    cluster.move_leader(partition, 1)
    mine, newer, next_one = (
        messages._decode(MetadataResponse, data, _VERSION, True) for data in (before, _metadata(cluster), before)
    )
    take_newest(mine, [newer])
    theirs = messages._decode(MetadataResponse, before, _VERSION, True)
    assert [one.topics[0].partitions[0].leader_id for one in (mine, next_one, theirs)] == [1, 0, 0]
