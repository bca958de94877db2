"""Fetch and Produce against kafka-python's own classes, version by version, and against damaged frames."""

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from sparkmirror.errors import ProtocolError
from sparkmirror.kafka.wire import data_requests as wire
from sparkmirror.kafka.wire.data_requests import AbortedTransaction, FetchPosition, ProduceItem

ORDERS = UUID("11111111-2222-3333-4444-555555555555")
PAYMENTS = UUID("aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee")
NAMES = {ORDERS: "orders", PAYMENTS: "payments-ü"}
FETCH_VERSIONS = range(wire.FETCH_VERSIONS[0], wire.FETCH_VERSIONS[1] + 1)
PRODUCE_VERSIONS = range(wire.PRODUCE_VERSIONS[0], wire.PRODUCE_VERSIONS[1] + 1)

Topic = FetchResponse.FetchableTopicResponse
Partition = Topic.PartitionData
Produced = ProduceResponse.TopicProduceResponse


def key(topic: UUID, version: int, first_by_id: int = 13) -> bytes | str:
    return topic.bytes if version >= first_by_id else NAMES[topic]


def framed(message: object) -> memoryview:
    """What a broker sends after the frame's length: response header v1 and body, encoded by kafka-python."""
    message.with_header(correlation_id=7)  # type: ignore[attr-defined]
    return memoryview(message.encode(header=True))  # type: ignore[attr-defined]


def fetch_answer(version: int, records: bytes = b"a whole batch") -> memoryview:
    fetched = Partition(
        partition_index=3,
        error_code=0,
        high_watermark=1 << 40,
        last_stable_offset=99,
        log_start_offset=5,
        aborted_transactions=[Partition.AbortedTransaction(producer_id=4000, first_offset=77)],
        preferred_read_replica=2,
        records=records,
    )
    diverged = Partition(
        partition_index=4,
        error_code=0,
        high_watermark=-1,
        diverging_epoch=Partition.EpochEndOffset(epoch=6, end_offset=60),
        current_leader=Partition.LeaderIdAndEpoch(leader_id=1, leader_epoch=9),
        aborted_transactions=None,
        records=None,
    )
    refused = Partition(partition_index=0, error_code=1, high_watermark=-1, aborted_transactions=[], records=b"")
    endpoints = {}
    if version >= 16:
        endpoint = FetchResponse.NodeEndpoint(node_id=1, host="localhost", port=9092, rack=None)
        endpoints = {"node_endpoints": [endpoint]}
    return framed(
        FetchResponse(
            version=version,
            throttle_time_ms=250,
            error_code=0,
            session_id=1234,
            responses=[
                Topic(topic="orders", topic_id=ORDERS, partitions=[fetched, diverged]),
                Topic(topic="payments-ü", topic_id=PAYMENTS, partitions=[refused]),
            ],
            **endpoints,
        )
    )


def produce_answer(version: int) -> memoryview:
    problem = Produced.PartitionProduceResponse.BatchIndexAndErrorMessage
    leader = {}
    if version >= 10:
        current = Produced.PartitionProduceResponse.LeaderIdAndEpoch(leader_id=2, leader_epoch=5)
        leader = {"current_leader": current}
    return framed(
        ProduceResponse(
            version=version,
            responses=[
                Produced(
                    name="orders",
                    topic_id=ORDERS,
                    partition_responses=[
                        Produced.PartitionProduceResponse(
                            index=3, error_code=0, base_offset=1 << 33, record_errors=[], error_message=None
                        ),
                        Produced.PartitionProduceResponse(
                            index=4,
                            error_code=87,
                            base_offset=-1,
                            record_errors=[problem(batch_index=1, batch_index_error_message="no key")],
                            error_message="one record is refused",
                            **leader,
                        ),
                    ],
                )
            ],
            throttle_time_ms=40,
        )
    )


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_a_fetch_request_is_read_by_kafka_python_as_it_was_meant(version: int) -> None:
    body = wire.encode_fetch(
        version,
        session_id=77,
        session_epoch=3,
        positions=[
            FetchPosition(key(ORDERS, version), 3, 1 << 41, 12, 1 << 20, 14),
            FetchPosition(key(PAYMENTS, version), 0, 0, -1, 4096),
            FetchPosition(key(ORDERS, version), 4, 7, 11, 1 << 20),
        ],
        forgotten=[(key(PAYMENTS, version), 1), (key(PAYMENTS, version), 2)],
        wait_ms=500,
        bytes_min=1,
        bytes_max=8 << 20,
        read_committed=True,
        rack="rack-ä",
    )
    header = wire.request_header(wire.FETCH, version, 42, "sparkmirror")
    request = FetchRequest.decode(header + body, version=version, header=True)
    assert (request.header.request_api_key, request.header.request_api_version) == (1, version)
    assert (request.header.correlation_id, request.header.client_id) == (42, "sparkmirror")
    assert (request.session_id, request.session_epoch) == (77, 3)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 8 << 20)
    assert (request.isolation_level, request.rack_id, request.replica_id) == (1, "rack-ä", -1)
    by_id = version >= wire.TOPIC_ID_FETCH
    asked = [
        (topic.topic_id.bytes if by_id else topic.topic, p.partition, p.fetch_offset, p.last_fetched_epoch)
        for topic in request.topics
        for p in topic.partitions
    ]
    assert asked == [
        (key(ORDERS, version), 3, 1 << 41, 12),
        (key(ORDERS, version), 4, 7, 11),
        (key(PAYMENTS, version), 0, 0, -1),
    ]
    assert [p.current_leader_epoch for topic in request.topics for p in topic.partitions] == [14, -1, -1]
    (forgotten,) = request.forgotten_topics_data
    assert (forgotten.topic_id.bytes if by_id else forgotten.topic, list(forgotten.partitions)) == (
        key(PAYMENTS, version),
        [1, 2],
    )
    assert request.encode() == body


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_a_fetch_response_says_what_kafka_python_put_in_and_leaves_records_in_place(version: int) -> None:
    frame = fetch_answer(version)
    response = wire.decode_fetch(version, frame)
    assert (response.throttle_ms, response.error, response.session_id) == (250, 0, 1234)
    fetched, diverged, refused = response.partitions
    assert (fetched.topic_key, fetched.partition, fetched.error) == (key(ORDERS, version), 3, 0)
    assert (fetched.high_watermark, fetched.last_stable_offset, fetched.log_start_offset) == (1 << 40, 99, 5)
    assert fetched.preferred_replica == 2
    assert fetched.aborted == (AbortedTransaction(4000, 77),)
    assert frame[fetched.start : fetched.stop] == b"a whole batch"
    assert (fetched.diverging_epoch, fetched.diverging_offset) == (-1, -1)
    assert (diverged.partition, diverged.diverging_epoch, diverged.diverging_offset) == (4, 6, 60)
    assert diverged.start == diverged.stop
    assert (refused.topic_key, refused.partition, refused.error) == (key(PAYMENTS, version), 0, 1)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize("transactional_id", [None, "A-mm2-MirrorSourceConnector-0"])
def test_a_produce_request_is_read_by_kafka_python_as_it_was_meant(version: int, transactional_id: str | None) -> None:
    batches = [bytes([letter]) * size for letter, size in ((65, 61), (66, 127), (67, 20_000))]
    items = [
        ProduceItem(key(topic, version), partition, memoryview(batch))
        for (topic, partition), batch in zip([(ORDERS, 3), (PAYMENTS, 0), (ORDERS, 4)], batches, strict=True)
    ]
    body = wire.encode_produce(items, transactional_id=transactional_id, timeout_ms=12_345)
    assert any(part is items[2].records for part in body), "records are handed on, not copied"
    header = wire.request_header(wire.PRODUCE, version, 1, "sparkmirror")
    frame = b"".join(wire.frame(header, *body))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    request = ProduceRequest.decode(frame[4:], version=version, header=True)
    assert (request.transactional_id, request.acks, request.timeout_ms) == (transactional_id, -1, 12_345)
    by_id = version >= wire.TOPIC_ID_PRODUCE
    sent = [
        (topic.topic_id.bytes if by_id else topic.name, p.index, bytes(p.records))
        for topic in request.topic_data
        for p in topic.partition_data
    ]
    assert sent == [
        (key(ORDERS, version), 3, batches[0]),
        (key(ORDERS, version), 4, batches[2]),
        (key(PAYMENTS, version), 0, batches[1]),
    ]


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_a_produce_response_says_what_kafka_python_put_in(version: int) -> None:
    response = wire.decode_produce(version, produce_answer(version))
    assert response.throttle_ms == 40
    done, refused = response.partitions
    assert (done.topic_key, done.partition, done.error) == (key(ORDERS, version), 3, 0)
    assert (done.base_offset, done.message) == (1 << 33, "")
    assert (refused.partition, refused.error, refused.base_offset) == (4, 87, -1)
    assert refused.message == "one record is refused; no key"


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_the_short_way_reads_what_the_long_one_does_and_leaves_it_all_else(version: int) -> None:
    def answered(*errors: int, throttle_ms: int = 0) -> memoryview:
        each = [
            Produced.PartitionProduceResponse(
                index=number, error_code=error, base_offset=number << 33, record_errors=[], error_message=None
            )
            for number, error in enumerate(errors)
        ]
        topics = [Produced(name="orders", topic_id=ORDERS, partition_responses=each)]
        return framed(ProduceResponse(version=version, responses=topics, throttle_time_ms=throttle_ms))

    plain, topic = answered(*[0] * 200), key(ORDERS, version)
    assert wire.decode_plain_produce(plain, topic, 200) == wire.decode_produce(version, plain).partitions
    others = answered(0, 7), answered(0, 0, throttle_ms=1), answered(0), produce_answer(version), plain[:9], plain[:4]
    assert [wire.decode_plain_produce(other, topic, 2) for other in others] == [None] * len(others)
    assert wire.decode_plain_produce(answered(0), key(PAYMENTS, version), 1) is None


def test_tagged_fields_of_later_versions_are_stepped_over_everywhere() -> None:
    """A hand-made Fetch v13 answer with an unknown tag 9 in every place that may hold one."""
    tag = bytes((1, 9, 3)) + b"new"
    no_offset = (-1).to_bytes(8, "big", signed=True)
    aborted = b"\x02" + (4000).to_bytes(8, "big") + (77).to_bytes(8, "big") + tag
    partition = b"\0\0\0\3" + b"\0\0" + (10).to_bytes(8, "big") + no_offset * 2
    partition += aborted + b"\xff\xff\xff\xff" + b"\x05data" + tag
    topic = ORDERS.bytes + b"\x02" + partition + tag
    frame = b"\0\0\0\7" + tag + b"\0\0\0\0" + b"\0\0" + b"\0\0\0\5" + b"\x02" + topic + tag
    response = wire.decode_fetch(13, memoryview(frame))
    (fetched,) = response.partitions
    assert (response.session_id, fetched.topic_key, fetched.partition) == (5, ORDERS.bytes, 3)
    assert fetched.aborted == (AbortedTransaction(4000, 77),)
    assert frame[fetched.start : fetched.stop] == b"data"


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_a_fetch_response_cut_off_anywhere_is_a_protocol_error(version: int) -> None:
    frame = fetch_answer(version)
    for left in range(len(frame)):
        with pytest.raises(ProtocolError):
            wire.decode_fetch(version, frame[:left])


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_a_produce_response_cut_off_anywhere_is_a_protocol_error(version: int) -> None:
    frame = produce_answer(version)
    for left in range(len(frame)):
        with pytest.raises(ProtocolError):
            wire.decode_produce(version, frame[:left])


flips = st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), min_size=1, max_size=4)


def damaged(frame: memoryview, flipped: list[tuple[int, int]]) -> memoryview:
    copy = bytearray(frame)
    for at, mask in flipped:
        copy[at % len(copy)] ^= mask
    return memoryview(copy)


@settings(max_examples=150, deadline=None)
@given(version=st.sampled_from(FETCH_VERSIONS), flipped=flips)
def test_a_damaged_fetch_response_is_another_answer_within_the_frame_or_a_protocol_error(
    version: int, flipped: list[tuple[int, int]]
) -> None:
    frame = damaged(fetch_answer(version), flipped)
    try:
        response = wire.decode_fetch(version, frame)
    except ProtocolError:
        return
    assert all(0 < fetched.start <= fetched.stop <= len(frame) for fetched in response.partitions)


@settings(max_examples=150, deadline=None)
@given(version=st.sampled_from(PRODUCE_VERSIONS), flipped=flips)
def test_a_damaged_produce_response_is_another_answer_or_a_protocol_error(
    version: int, flipped: list[tuple[int, int]]
) -> None:
    frame = damaged(produce_answer(version), flipped)
    try:
        response = wire.decode_produce(version, frame)
    except ProtocolError:
        return
    assert len(response.partitions) < len(frame)


@pytest.mark.parametrize("value", [0, 1, 0x7F, 0x80, 0x3FFF, 0x4000, 1 << 20, (1 << 32) - 1])
def test_lengths_of_all_sizes_survive_the_wire(value: int) -> None:
    """As the size of a tagged field, the one place where a peer may put any length."""
    size = wire.encode_uvarint(value)
    if value > 1 << 20:
        with pytest.raises(ProtocolError):
            wire.decode_produce(9, memoryview(b"\0\0\0\1\1\5" + size))
        return
    frame = b"\0\0\0\1\1\5" + size + bytes(value) + b"\1" + b"\0\0\0\7" + b"\0"
    assert wire.decode_produce(9, memoryview(frame)).throttle_ms == 7


def test_a_length_that_does_not_end_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError, match="does not end"):
        wire.decode_produce(9, memoryview(b"\0\0\0\1" + b"\xff" * 40))


def test_a_negative_pause_is_none() -> None:
    """It would be counted into the ring's control page, whose words have no sign."""
    fetch = bytearray(fetch_answer(12))
    fetch[5:9] = b"\xff" * 4
    assert wire.decode_fetch(12, memoryview(fetch)).throttle_ms == 0
    produce = bytearray(produce_answer(12))
    produce[-5:-1] = b"\xff" * 4
    assert wire.decode_produce(12, memoryview(produce)).throttle_ms == 0
