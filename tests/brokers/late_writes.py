"""What a task that slept may still have under way: a position, as it writes it at least once."""

from kafka.protocol.producer import ProduceRequest

from sparkmirror.batch.header import parse_header, stamp
from sparkmirror.batch.records import encode_batch
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.ledger import positions
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.model import Position, TopicPartition

INVALID_PRODUCER_EPOCH = 47


def write_late(target: Admin, flow: FlowConfig, where: TopicPartition, identity: ProducerIdentity) -> int:
    """The broker's error code."""
    value = positions.encode_value(PositionRecord(Position(5), 4, 1, run="before"))
    batch = bytearray(encode_batch([(positions.encode_key(flow.name.source, where), value)], timestamp=1))
    stamp(memoryview(batch), 0, parse_header(memoryview(batch), 0), *identity, 0)
    one, name = ProduceRequest.TopicProduceData, flow.ledger_topics.positions
    topic = one(name=name, partition_data=[one.PartitionProduceData(index=0, records=bytes(batch))])
    home = TopicPartition(name, 0)
    leader = target.leaders([home.topic])[home].node_id
    answer = target.connection.ask(
        lambda: ProduceRequest(transactional_id=None, acks=-1, timeout_ms=10_000, topic_data=[topic], max_version=8),
        "writing late", leader,
    )  # fmt: skip
    return int(answer.responses[0].partition_responses[0].error_code)
