"""Transaction markers that a client writes without a coordinator (WriteTxnMarkers of KIP-98), as a simulated broker
takes them.

Source of the rules: kafka.server.KafkaApis.handleWriteTxnMarkersRequest of Apache Kafka 4.3. A broker appends them one
by one, waits for the replicas, and has one code for all of a producer and partition, that of the last one. A request
that has come is carried out, whatever becomes of who has sent it.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kafka.protocol.producer.transaction import WriteTxnMarkersResponse
from tests.simulation.waiting import Waiting, WaitingRequest
from tests.simulation.wire import Produced

from sparkmirror.model import TopicPartition

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster, Partition

WRITE_MARKERS = 27
_NO_ERROR, _UNKNOWN_TOPIC, _NOT_LEADER = 0, 3, 6
_LATE_SECONDS_MAX = 20.0
_STEPS = ("", "", "WriteTxnMarkers", "EndTxn", "InitProducerId")
Codes = dict[int, dict[TopicPartition, Produced]]
"""By producer id."""


def write_markers(cluster: "Cluster", node: int, request: Any, reply: Callable[[Any], None]) -> None:
    """Answers once all replicas have what was appended. While they are late, some come much later, in two parts, by a
    time or just as another process takes its next step."""
    random, codes, markers, came_at = cluster.world.random, Codes(), list(request.markers), cluster.world.now
    is_late = cluster.world.now < cluster.written_late_until
    parts = [markers[: (cut := random.randrange(len(markers) + 1))], markers[cut:]] if is_late else [markers]
    waiting = WaitingRequest(lambda: reply(_answer(codes)), len(parts))

    deaths = cluster.nodes[node].deaths

    def carry_out(part: list[Any]) -> None:
        if cluster.nodes[node].deaths == deaths:
            for partition in _append_all(cluster, node, part, codes, waiting):
                partition.is_taken_by_name |= cluster.topics[partition.where.topic].made_at > came_at
            waiting.left -= 1
            if not waiting.left:
                waiting.answer()

    def go_on() -> None:
        if parts:
            carry_out(parts.pop(0))
            go_on() if not is_late else wait()

    def wait() -> None:
        steps = [go_on]
        event, delay = random.choice(_STEPS), _LATE_SECONDS_MAX * random.random() ** 4

        def once() -> None:
            if steps:
                steps.pop()()

        if event:
            cluster.when(event, once)
        cluster.world.after(_LATE_SECONDS_MAX if event else delay, once)

    wait() if is_late else go_on()


def _append_all(
    cluster: "Cluster", node: int, markers: Iterable[Any], codes: Codes, waiting: WaitingRequest
) -> "list[Partition]":
    """The partitions that have taken markers."""
    touched: dict[TopicPartition, Partition] = {}
    for marker in markers:
        for where in _partitions(marker):
            told = codes.setdefault(marker.producer_id, {})[where] = Produced(where.topic, where.partition)
            partition = cluster.partition(where)
            told.error = _append(node, partition, marker)
            if told.error or partition is None:
                continue
            touched[where] = partition
            waiting.left += 1
            partition.waiting.append(Waiting(told, partition.log.end, waiting))
    for partition in touched.values():
        cluster.replicate_later(partition)
    return [*touched.values()]


def _partitions(marker: Any) -> list[TopicPartition]:
    return [TopicPartition(topic.name, one) for topic in marker.topics for one in topic.partition_indexes]


def _append(node: int, partition: "Partition | None", marker: Any) -> int:
    if partition is None:
        return _UNKNOWN_TOPIC
    if partition.leader != node:
        return _NOT_LEADER
    return partition.log.add_marker(
        marker.producer_id, marker.producer_epoch, commits=marker.transaction_result,
        coordinator_epoch=marker.coordinator_epoch,
    )  # fmt: skip


def _answer(codes: Codes) -> Any:
    kind = WriteTxnMarkersResponse.WritableTxnMarkerResult
    topic_kind = kind.WritableTxnMarkerTopicResult
    one = topic_kind.WritableTxnMarkerPartitionResult
    markers = [
        kind(
            producer_id=producer_id,
            topics=[
                topic_kind(name=where.topic, partitions=[one(partition_index=where.partition, error_code=told.error)])
                for where, told in found.items()
            ],
        )
        for producer_id, found in codes.items()
    ]
    return WriteTxnMarkersResponse(markers=markers)
