"""Two threads that read their first answers at the same time."""

import gc
from threading import Event, Thread
from typing import Any

import pytest
from kafka.protocol.admin import DescribeQuorumRequest, DescribeQuorumResponse
from kafka.protocol.api_header import ResponseClassRegistry

from sparkmirror.kafka.client_setup import prepare_clients


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer to DescribeQuorum has been read, and what is patched here is as before afterwards."""
    monkeypatch.setattr(DescribeQuorumResponse, "_VERSIONS", {})
    register = dict(ResponseClassRegistry._response_class_registry)
    monkeypatch.setattr(ResponseClassRegistry, "_response_class_registry", register)


@pytest.mark.usefixtures("unread")
def test_the_class_of_an_answer_outlives_a_race_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_clients()
    began, overtaken = Event(), Event()
    register = ResponseClassRegistry.register_response_class

    def register_slowly(response_class: Any) -> None:
        """The first thread goes on when the second has registered its own class, as it is overtaken there."""
        register(response_class)
        if began.is_set():
            overtaken.set()
        else:
            began.set()
            overtaken.wait(5)

    monkeypatch.setattr(ResponseClassRegistry, "register_response_class", register_slowly)
    request = DescribeQuorumRequest(topics=[], version=1)
    request.with_header()
    readers = [Thread(target=request.header.get_response_class) for _ in range(2)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    gc.collect()
    assert overtaken.is_set()
    assert request.header.get_response_class()[None] is DescribeQuorumResponse
