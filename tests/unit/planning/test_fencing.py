"""Two processes that take a flow over in the same moment: one at most writes on, with exactly-once."""

from collections.abc import Callable, Collection, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from greenlet import getcurrent, greenlet
from hypothesis import given
from hypothesis import strategies as st
from tests.flows import flow_of

from sparkmirror.errors import FencedError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.fencing import ProducerIdentity, TransactionUnfinished
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.planning import fencing
from sparkmirror.planning.fencing import Taken, take_over

FLOW = flow_of("B.exactly.once.source.support = enabled", "tasks.max = 2")
LEDGER = cast(LedgerReader, SimpleNamespace(view=SimpleNamespace(unknown_tenures={}, tenures=tuple)))


class Coordinator:
    """Of all ids. `unfinished` have an aborted transaction that does not end yet. Others may go first each time."""

    def __init__(
        self, known: Collection[int], unfinished: Collection[int] = (), pause: Callable[[], object] = int
    ) -> None:
        self.epochs = dict.fromkeys(known, 0)
        self.unfinished = set(unfinished)
        self._pause = pause

    def used_tasks(self, *_: object) -> set[int]:
        self._pause()
        return set(self.epochs)

    def init(self, _: Admin, names: Sequence[str], *_more: object, **_options: object) -> dict[str, ProducerIdentity]:
        self._pause()
        (name,) = names
        number = int(name.rpartition("-")[2])
        self.epochs[number] = self.epochs.get(number, -1) + 1
        if number in self.unfinished:
            raise TransactionUnfinished(f"the aborted transaction of {name} does not end.")
        return {name: self.holder(number)}

    def holders(self, _: Admin, names: Collection[str]) -> dict[str, ProducerIdentity]:
        self._pause()
        return {name: self.holder(int(name.rpartition("-")[2])) for name in names}

    def holder(self, number: int) -> ProducerIdentity:
        return ProducerIdentity(number, self.epochs[number])

    def still_writes(self, taken: dict[int, Taken]) -> bool:
        return any(one.identity == self.holder(one.number) for one in taken.values())


def put(coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencing, "used_tasks", coordinator.used_tasks)
    monkeypatch.setattr(fencing, "init_producer_ids", coordinator.init)
    monkeypatch.setattr(fencing, "holders", coordinator.holders)


def begin() -> dict[int, Taken] | None:
    try:
        return take_over(FLOW, cast(Admin, None), LEDGER, [0, 1])
    except FencedError:
        return None


@given(order=st.data(), unfinished=st.sets(st.integers(0, 3)), known=st.sets(st.integers(0, 3)))
def test_of_two_that_begin_in_the_same_moment_one_writes_and_the_other_does_not(
    order: Any, unfinished: set[int], known: set[int]
) -> None:
    main, ended = getcurrent(), list[dict[int, Taken] | None]()
    coordinator = Coordinator(known | unfinished, unfinished, lambda: cast(Any, main).switch())
    with pytest.MonkeyPatch.context() as patched:
        put(coordinator, patched)
        both = [greenlet(lambda: ended.append(begin())) for _ in range(2)]
        while running := [one for one in both if not one.dead]:
            running[order.draw(st.integers(0, len(running) - 1))].switch()
            if coordinator.unfinished and order.draw(st.integers(0, 1)):
                coordinator.unfinished.pop()
    (going_on,) = [taken for taken in ended if taken is not None and coordinator.still_writes(taken)]
    assert going_on


def test_an_id_that_was_left_alone_is_tried_again_once_all_others_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = Coordinator([0, 1], [0])
    put(coordinator, monkeypatch)
    taken = take_over(FLOW, cast(Admin, None), LEDGER, [0, 1])
    assert taken[0].number == 2 and taken[1].number == 1
    assert coordinator.epochs[0] == 2, "asked for twice"


def test_an_id_that_came_while_the_others_were_taken_is_taken_too(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = Coordinator([0, 1])
    put(coordinator, monkeypatch)

    def appear(*_: object) -> set[int]:
        if coordinator.epochs[1]:
            coordinator.epochs.setdefault(6, 0)
        return set(coordinator.epochs)

    monkeypatch.setattr(fencing, "used_tasks", appear)
    take_over(FLOW, cast(Admin, None), LEDGER, [0, 1])
    assert coordinator.epochs[6] == 1


def test_who_has_lost_the_lowest_id_ends_and_who_has_lost_another_takes_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    coordinator, lost = Coordinator([0, 1]), [1]
    put(coordinator, monkeypatch)

    def look(admin: Admin, names: Collection[str]) -> dict[str, ProducerIdentity]:
        while lost:
            coordinator.epochs[lost.pop()] += 1
        return coordinator.holders(admin, names)

    monkeypatch.setattr(fencing, "holders", look)
    taken = take_over(FLOW, cast(Admin, None), LEDGER, [0, 1])
    assert taken[1].identity == coordinator.holder(1)
    lost.append(0)
    with pytest.raises(FencedError, match="at this moment"):
        take_over(FLOW, cast(Admin, None), LEDGER, [0, 1])
