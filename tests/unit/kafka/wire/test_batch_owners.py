"""Who reads a log's batches goes on over another connection after whatever was wrong with the last."""

from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.errors import ClusterUnreachable, ProtocolError
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.batch_owners import OwnerReader
from sparkmirror.model import TopicPartition


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (ProtocolError("broker b announced an answer of -1 bytes"), ProtocolError),
        (SimpleNamespace(responses=[]), ProtocolError),
        (ConnectionResetError("gone"), ClusterUnreachable),
    ],
    ids=["cannot be read", "makes no sense", "broke off"],
)
def test_an_answer_that_is_none_ends_its_connection(
    answer: Any, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    dialled: list[Any] = []

    def ask(*_: object) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    def dial(_: TopicPartition) -> tuple[Any, None]:
        link = SimpleNamespace(address="b", reauthenticate_at=float("inf"), is_closed=False, version=lambda *_: 12)
        link.ask, link.close = ask, lambda: setattr(link, "is_closed", True)
        dialled.append(link)
        return link, None

    reader = OwnerReader(ClientSettings("B", ("b:1",), "test"), TopicPartition("orders", 0))
    monkeypatch.setattr(reader._search, "dial", dial)
    for _ in range(2):
        with pytest.raises(kind):
            reader.look(0)
    assert [link.is_closed for link in dialled] == [True, True]
