"""Commands survive the topic; what is not one of ours is left alone."""

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.model import TopicPartition
from sparkmirror.source.commands import Assign, Command, Stop, Throttle, decode_command, encode_command
from sparkmirror.source.plan import Assigned

offsets = st.integers(0, (1 << 63) - 1)
where = st.builds(TopicPartition, st.text(min_size=1, max_size=20), st.integers(0, 1 << 20))
assigned = st.builds(
    Assigned, where, offsets, st.integers(-1, 1 << 30), st.uuids(), st.none() | offsets, st.none() | offsets
)
throttles = st.builds(Throttle, st.text(max_size=10), st.text(max_size=10), st.none() | offsets)
commands = (
    st.builds(Stop, st.text(max_size=10))
    | throttles
    | st.builds(
        Assign,
        st.text(max_size=10),
        st.integers(0, 1 << 30),
        st.integers(0, 99),
        st.lists(assigned, max_size=3).map(tuple),
        st.lists(where, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=5), st.integers(0, 99), max_size=3),
    )
)

ASSIGN = Assign("run", 4, 1, (Assigned(TopicPartition("orders", 3), 42, 5, UUID(int=9), end=50),))


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
        b'{"kind":"assign","run":"run","generation":1,"task":0,"add":[],"release":[["orders"]],"topics":{}}',
        b'{"kind":"assign","run":"run","generation":1,"task":0,"add":[7],"release":[],"topics":{}}',
        b"[" * 100_000,
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
