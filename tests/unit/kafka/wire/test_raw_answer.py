"""Answers that are handed over as they came, through kafka-python's own protocol parser."""

from types import SimpleNamespace
from uuid import UUID

import pytest
from kafka.protocol.admin import DescribeConfigsResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka.protocol.parser import KafkaProtocol

from sparkmirror.errors import ProtocolError
from sparkmirror.kafka.wire.raw_answer import RawAnswer, RawRequest, SettingsAnswer

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


def settings(topic: str, error: int = 0, throttle_ms: int = 0) -> RawAnswer:
    kind = DescribeConfigsResponse.DescribeConfigsResult
    entry = kind.DescribeConfigsResourceResult(
        name="retention.ms", value="7", read_only=False, config_source=1, is_sensitive=False, synonyms=[],
        config_type=5, documentation=None,
    )  # fmt: skip
    result = kind(error_code=error, error_message=None, resource_type=2, resource_name=topic, configs=[entry])
    answer = DescribeConfigsResponse(throttle_time_ms=throttle_ms, results=[result])
    kind_of_answer = SimpleNamespace(decode=lambda data: DescribeConfigsResponse.decode(data, version=4))
    return RawAnswer(bytes(answer.encode(version=4)), kind_of_answer)


def test_settings_are_read_when_they_are_asked_for_and_a_topic_that_cannot_be_is_left_out() -> None:
    told = SettingsAnswer([settings("orders"), settings("bills"), settings("secret", error=29)]).read()
    assert told.keys() == {"orders", "bills"}
    assert (told["orders"]["retention.ms"].value, told["orders"]["retention.ms"].is_override) == ("7", True)


def test_settings_that_say_the_same_have_the_same_digest_however_long_the_client_is_to_wait() -> None:
    before = SettingsAnswer([settings("orders")]).digest
    assert SettingsAnswer([settings("orders", throttle_ms=100)]).digest == before
    assert SettingsAnswer([settings("bills")]).digest != before
