"""The edges of a simulated log: which producers its leader knows at the end (KIP-664), and where its start is moved to
(KIP-107). Answers of `tests.simulation.cluster`."""

from typing import TYPE_CHECKING, Any

from kafka.protocol.admin import DeleteRecordsResponse, DescribeProducersResponse

from sparkmirror.model import TopicPartition

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster, Partition

DESCRIBE_PRODUCERS, DELETE_RECORDS = 61, 21
_NO_ERROR, _OUT_OF_RANGE, _UNKNOWN_TOPIC, _NOT_LEADER, _POLICY_VIOLATION = 0, 1, 3, 6, 44
_HIGH_WATERMARK = -1


def describe_producers(cluster: "Cluster", node: int, request: Any) -> Any:
    kind = DescribeProducersResponse.TopicResponse
    topics = [
        kind(
            name=topic.name,
            partitions=[_producers(cluster, node, TopicPartition(topic.name, one)) for one in topic.partition_indexes],
        )
        for topic in request.topics
    ]
    return DescribeProducersResponse(throttle_time_ms=0, topics=topics)


def _producers(cluster: "Cluster", node: int, where: TopicPartition) -> Any:
    kind = DescribeProducersResponse.TopicResponse.PartitionResponse
    partition, error = _led_by(cluster, node, where)
    states = [
        kind.ProducerState(
            producer_id=producer_id, producer_epoch=one.epoch, last_sequence=one.last_sequence,
            last_timestamp=one.latest_ms, coordinator_epoch=one.coordinator_epoch,
            current_txn_start_offset=-1 if one.first_open is None else one.first_open,
        )
        for producer_id, one in (partition.log.producers if partition is not None else {}).items()
    ]  # fmt: skip
    return kind(partition_index=where.partition, error_code=error, error_message=None, active_producers=states)


def _led_by(cluster: "Cluster", node: int, where: TopicPartition) -> tuple["Partition | None", int]:
    """The partition, if the node leads it, else an error."""
    partition = cluster.partition(where)
    if partition is None:
        return None, _UNKNOWN_TOPIC
    return (partition, _NO_ERROR) if partition.leader == node else (None, _NOT_LEADER)


def delete_records(cluster: "Cluster", node: int, request: Any) -> Any:
    kind = DeleteRecordsResponse.DeleteRecordsTopicResult
    topics = []
    for topic in request.topics:
        found = []
        for one in topic.partitions:
            error, start = _delete(cluster, node, TopicPartition(topic.name, one.partition_index), one.offset)
            found.append(
                kind.DeleteRecordsPartitionResult(
                    partition_index=one.partition_index, low_watermark=start, error_code=error
                )
            )
        topics.append(kind(name=topic.name, partitions=found))
    return DeleteRecordsResponse(throttle_time_ms=0, topics=topics)


def _delete(cluster: "Cluster", node: int, where: TopicPartition, offset: int) -> tuple[int, int]:
    """Error, and where the log starts."""
    partition, error = _led_by(cluster, node, where)
    if partition is None:
        return error, -1
    if "delete" not in cluster.topics[where.topic].overrides.now.get("cleanup.policy", "delete"):
        return _POLICY_VIOLATION, -1
    log = partition.log
    offset = log.high_watermark if offset == _HIGH_WATERMARK else offset
    if not 0 <= offset <= log.high_watermark:
        return _OUT_OF_RANGE, -1
    log.delete_records(offset)
    cluster.poke()
    return _NO_ERROR, log.start
