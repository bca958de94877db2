"""Commands survive the topic; what is not one of ours is left alone."""

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sparkmirror.control.assignment import Assigned
from sparkmirror.control.commands import (
    Assign,
    Began,
    Command,
    Pause,
    Restart,
    Resume,
    Retry,
    Selection,
    Share,
    Slots,
    Stop,
    Throttle,
    command_key,
    decode_command,
    encode_command,
    ends_epoch,
    in_parts,
    is_growth,
)
from sparkmirror.ledger.committed_end import CommittedEnd
from sparkmirror.model import Position, TopicPartition

offsets = st.integers(0, (1 << 63) - 2)
numbers = st.integers(0, (1 << 31) - 1)
expressions = st.sampled_from(["", "orders", ".*", "a|b", "(a+)+b", "\\Qx.y\\E"])
where = st.builds(TopicPartition, st.text(min_size=1, max_size=20), st.integers(0, 1 << 20))
epochs = st.lists(st.tuples(numbers, offsets), max_size=3).map(tuple)
positions = st.builds(Position, offsets, epochs, st.uuids())
assigned = st.builds(Assigned, where, offsets, epochs, st.uuids(), st.none() | offsets, st.none() | positions)
throttles = st.builds(Throttle, st.text(max_size=10), expressions, st.none() | offsets)
selections = st.builds(Selection, expressions, st.none() | st.integers(0, 1 << 20))
orders = st.one_of(*(st.builds(kind.of, st.text(max_size=10), selections, offsets) for kind in (Pause, Resume, Retry)))
task_sets = st.frozensets(st.integers(0, 99), max_size=4)
shares = st.builds(
    Share, st.text(max_size=10), st.text(max_size=10), offsets, task_sets, st.text(max_size=10), st.booleans()
)
commands = (
    st.builds(Stop, st.text(max_size=10), st.text(max_size=10))
    | shares
    | st.builds(Began, st.text(max_size=10), st.text(max_size=10), offsets)
    | st.builds(Slots, st.text(max_size=10), st.text(max_size=10), numbers, st.integers(0, 3600))
    | throttles
    | orders
    | st.builds(Restart, st.text(max_size=10), offsets)
    | st.builds(
        Assign,
        st.text(max_size=10),
        st.integers(0, 1 << 30),
        st.integers(0, 99),
        st.lists(assigned, max_size=3).map(tuple),
        st.lists(where, max_size=3).map(tuple),
        st.dictionaries(st.text(min_size=1, max_size=5), st.integers(0, 99), max_size=3),
    )
)

ASSIGNED = Assigned(
    TopicPartition("orders", 3), 42, ((5, 7),), UUID(int=9), end=50, committed_end=CommittedEnd(7, 3, 9)
)
ASSIGN = Assign("run", 4, 1, (ASSIGNED,))


@given(commands)
def test_a_command_is_read_as_it_was_given(command: Command) -> None:
    assert decode_command(encode_command(command)) == command


def changed(**fields: object) -> bytes:
    stored = json.loads(encode_command(ASSIGN))
    stored["add"][0] |= fields
    return json.dumps(stored).encode()


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"null",
        b"[]",
        b'"stop"',
        b"7",
        b"\xff\xfe",
        b"{}",
        b'{"kind":"stop"}',
        b'{"kind":"throttle","run":"run"}',
        b'{"kind":"pause","run":"run","pattern":"","partition":"all","at_ms":1}',
        b'{"kind":"retry","run":"run","pattern":""}',
        b'{"kind":"assign","run":"run","generation":1,"task":0,"add":[],"release":[["orders"]],"topics":{}}',
        b'{"kind":"assign","run":"run","generation":1,"task":0,"add":[7],"release":[],"topics":{}}',
        b"[" * 100_000,
        b'{"kind":"pause","run":"run","pattern":"(","partition":null,"at_ms":1}',
        b'{"kind":"throttle","run":"run","pattern":"a{5,2}","bytes_per_second":1}',
        b'{"kind":"throttle","run":"run","pattern":"","bytes_per_second":-1}',
        b'{"kind":"slots","run":"run","process":"","tasks":1,"turn_seconds":1000000}',
        b'{"kind":"share","run":"run","process":"p","number":1,"tasks":[-1],"member":"m"}',
        json.dumps({"kind": "stop", "run": "r" * 2000}).encode(),
        json.dumps({"kind": "stop", "run": "r", "more": "x" * (1 << 20)}).encode(),
        b'{"kind":"stop","run":"run","more":' + b"[" * 100_000,
        changed(offset=-1),
        changed(partition=True),
        changed(topic=""),
        changed(extent=["t", str(UUID(int=1)), -1]),
        changed(id=5),
        changed(id=None),
        changed(id="no uuid"),
    ],
)
def test_what_is_no_command_of_this_version_is_left_alone(value: bytes | None) -> None:
    assert decode_command(value) is None


def test_members_that_a_later_version_adds_are_ignored() -> None:
    stored = json.loads(encode_command(ASSIGN)) | {"reason": "why not"}
    stored["add"][0]["priority"] = 1
    assert decode_command(json.dumps(stored).encode()) == ASSIGN


def test_a_selection_is_by_whole_topic_name_and_number() -> None:
    orders, audit = TopicPartition("orders", 3), TopicPartition("orders.audit", 3)
    assert Selection().covers(orders)
    assert [Selection("orders").covers(where) for where in (orders, audit)] == [True, False]
    assert [Selection("orders.*", 3).covers(where) for where in (orders, audit)] == [True, True]
    assert not Selection("orders", 4).covers(orders)


def test_an_expression_that_backtracks_without_end_selects_nothing_and_holds_nobody_up() -> None:
    order = decode_command(
        b'{"kind":"pause","run":"run","pattern":"((a{1,999}){1,999}){1,999}b","partition":null,"at_ms":1}'
    )
    assert isinstance(order, Pause)
    assert not any(order.selection.covers(TopicPartition("a" * 249, number)) for number in range(10_000))


@pytest.mark.parametrize("pattern", ["(?u)orders", "(", "((a{1000}){1000}){1000}"])
def test_what_is_no_expression_is_no_order(pattern: str) -> None:
    order = {"kind": "pause", "run": "run", "pattern": pattern, "partition": None, "at_ms": 1}
    assert decode_command(json.dumps(order).encode()) is None


def test_no_order_displaces_another_of_its_run_in_the_compacted_topic() -> None:
    some: list[Command] = [
        Pause.of("run", Selection(), 1),
        Pause.of("run", Selection("a"), 1),
        Pause.of("run", Selection("a", 1), 1),
        Resume.of("run", Selection(), 1),
        Pause.of("run", Selection(), 2),
        Retry.of("run", Selection(), 1),
        Restart("run", 1),
        Restart("run", 2),
    ]
    assert len({command_key(command) for command in some}) == len(some)


def test_an_epoch_ends_for_what_is_new_to_its_process_and_for_nothing_of_another() -> None:
    share = Share("run", "p1", 3, frozenset({0}), "member")
    ended_by: list[Command] = [
        Stop("run"),
        Stop("run", "p1"),
        Restart("run", 1),
        Share("run", "p1", 4, frozenset(), "member"),
    ]
    assert all(ends_epoch(command, share) for command in ended_by)
    others: list[Command] = [
        Stop("run", "p2"),
        Share("run", "p2", 9, frozenset(), "m"),
        share,
        Began("run", "p1", 3),
        ASSIGN,
    ]
    assert not any(ends_epoch(command, share) for command in others)
    assert ends_epoch(Slots("run", "p1", 2), share)
    assert not ends_epoch(Slots("run", "p2", 2), share)
    assert ends_epoch(Slots("run", "", 2), None), "it shares with nobody"
    assert ends_epoch(Stop("run"), None)
    assert not ends_epoch(Stop("run", "p1"), None), "it shares with nobody"


def test_a_share_is_growth_when_it_is_the_next_one_of_the_same_member_and_takes_nothing_away() -> None:
    before = Share("run", "p1", 3, frozenset({0, 2}), "member")
    grown = replace(before, number=4, tasks=frozenset({0, 1, 2}), at_once=True)
    assert is_growth(grown, before)
    assert not is_growth(replace(grown, at_once=False), before), "somebody may only sleep"
    assert not is_growth(replace(grown, number=5), before), "one between them may have taken some away"
    assert not is_growth(replace(grown, member="again"), before)
    assert not is_growth(replace(grown, process="p2"), before)
    for tasks in ({0, 1}, {0, 2}, {0}, set()):
        assert not is_growth(replace(grown, tasks=frozenset(tasks)), before)
    assert not is_growth(grown, replace(before, tasks=frozenset())), "nothing runs that could take it"
    assert not is_growth(grown, None)


def test_of_each_process_the_last_share_is_kept_by_a_compacted_topic() -> None:
    first, second = (Share("run", "p1", number, frozenset(), "m") for number in (1, 2))
    assert command_key(first) == command_key(second)
    assert len({command_key(one) for one in (first, Share("run", "p2", 1, frozenset(), "m"), Stop("run", "p1"))}) == 3


def test_orders_for_very_many_partitions_come_in_parts_that_follow_each_other() -> None:
    add = tuple(Assigned(TopicPartition("orders", number), 0) for number in range(1001))
    release = tuple(TopicPartition("old", number) for number in range(501))
    whole = [Assign("r", 7, 0, add, release, {"orders": 1001}), Assign("r", 7, 1, topics={"orders": 1001})]
    parts = in_parts(whole)
    assert [(part.task, part.generation) for part in parts] == [(0, 7), (0, 8), (0, 9), (1, 7)]
    assert tuple(item for part in parts for item in part.add) == add
    assert tuple(where for part in parts for where in part.release) == release
    assert [bool(part.topics) for part in parts] == [True, False, False, True]
    assert len({command_key(part) for part in parts}) == 4
