"""Which ids that no task uses are kept from those who held them before."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.flows import flow_of

from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.model import TopicPartition
from sparkmirror.planning import idle_ids
from sparkmirror.planning.fencing import Taken
from sparkmirror.planning.idle_ids import IdleIds

ORDERS = TopicPartition("orders", 0)


def test_an_id_that_left_the_process_and_came_back_is_barred_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process has held it meanwhile, and may have slept."""
    known: list[str] = []
    monkeypatch.setattr(idle_ids, "make_known", lambda _target, name, *_: known.append(name))
    barring, target = IdleIds(flow_of()), SimpleNamespace()

    def bar(*numbers: int) -> int:
        known.clear()
        taken: Any = {one: Taken(one, ProducerIdentity(7, 3), held={one: ProducerIdentity(7, 3)}) for one in numbers}
        barring.bar(target, taken, {0: frozenset({ORDERS})}, [])  # type: ignore[arg-type]
        return len(known)

    assert [bar(0, 1), bar(0, 1), bar(0), bar(0, 1)] == [1, 0, 0, 1]
