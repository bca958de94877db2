"""Answers that are handed over as they came, through kafka-python's own protocol parser."""

from uuid import UUID

import pytest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka.protocol.parser import KafkaProtocol

from sparkmirror.errors import ProtocolError
from sparkmirror.kafka.raw_answer import RawAnswer, RawRequest

VERSION = 13


def exchange(response: MetadataResponse) -> RawAnswer:
    """Send a request for all topics, and receive the response in two pieces."""
    parser = KafkaProtocol(client_id="test")
    request = RawRequest(MetadataRequest(topics=None, allow_auto_topic_creation=False))
    request.API_VERSION = VERSION
    correlation = parser.send_request(request)
    assert b"test" in parser.send_bytes()
    body = correlation.to_bytes(4, "big") + b"\0" + response.encode(version=VERSION)
    frame = len(body).to_bytes(4, "big") + body
    assert parser.receive_bytes(frame[:10]) == []
    ((answered, answer),) = parser.receive_bytes(frame[10:])
    assert answered == correlation
    assert isinstance(answer, RawAnswer)
    return answer


def metadata(*names: str, throttle_ms: int = 0) -> MetadataResponse:
    kind = MetadataResponse.MetadataResponseTopic
    topics = [kind(error_code=0, name=name, topic_id=UUID(int=7), is_internal=False, partitions=[]) for name in names]
    return MetadataResponse(
        throttle_time_ms=throttle_ms, brokers=[], cluster_id="c", controller_id=1, topics=topics, error_code=0
    )


def test_an_answer_is_decoded_when_it_is_asked_to_be() -> None:
    answer = exchange(metadata("orders", "bills"))
    assert [topic.name for topic in answer.decode().topics] == ["orders", "bills"]


def test_answers_that_say_the_same_have_the_same_bytes() -> None:
    assert exchange(metadata("orders")).data == exchange(metadata("orders")).data != exchange(metadata("bills")).data


def test_the_client_sees_that_it_is_throttled() -> None:
    assert exchange(metadata("orders", throttle_ms=1500)).throttle_time_ms == 1500


def test_what_cannot_be_read_is_said_to_be() -> None:
    answer = exchange(metadata("orders"))
    with pytest.raises(ProtocolError, match="cannot be read as MetadataResponse"):
        RawAnswer(answer.data[:20], answer._kind).decode()
