"""A broker that gives no producer id, since it takes a former controller for the present one (KAFKA-14167), is made to
look for it and asked again. `tests/faults/test_former_controller.py` has real ones."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.admin import CreateTopicsRequest
from tests.faults.task_attempt import Task

from sparkmirror.kafka.errors import NO_ERROR, UNKNOWN_SERVER_ERROR, RequestRefused
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.producer_ids import fresh_producer


class Broker:
    """It looks for the controller when it has to pass a request on, unless `is_ill`: then nothing helps."""

    def __init__(self, *, is_ill: bool = False) -> None:
        self.asked: list[str] = []
        self._is_ill = is_ill
        self._knows_controller = False

    def version(self, key: int, _known: tuple[int, int]) -> int:
        return key

    def ask(self, request: Any, _response_class: Any, _version: int) -> Any:
        self.asked.append(type(request).__name__)
        if isinstance(request, CreateTopicsRequest):
            assert request.validate_only
            self._knows_controller = not self._is_ill
            return None
        code = NO_ERROR if self._knows_controller else UNKNOWN_SERVER_ERROR
        return SimpleNamespace(error_code=code, producer_id=7, producer_epoch=0)


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[Broker], ClientSettings]:
    def use_one(broker: Broker) -> ClientSettings:
        monkeypatch.setattr("sparkmirror.kafka.wire.producer_ids.ask_anyone", lambda _settings, ask: ask(broker))
        return Task("a:9092", "topic", "id", request_ms=300).options.settings

    return use_one


def test_a_broker_that_is_misled_is_made_to_look_for_the_controller(use: Callable[[Broker], ClientSettings]) -> None:
    broker = Broker()
    assert fresh_producer(use(broker)) == ProducerIdentity(7, 0)
    assert broker.asked == ["InitProducerIdRequest", "CreateTopicsRequest", "InitProducerIdRequest"]


def test_one_that_stays_so_ends_it_with_what_to_do(use: Callable[[Broker], ClientSettings]) -> None:
    with pytest.raises(RequestRefused, match="asking for a producer id failed with UNKNOWN") as caught:
        fresh_producer(use(Broker(is_ill=True)))
    assert "start that broker again" in caught.value.hint
