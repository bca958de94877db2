"""What a Connect worker says that it runs."""

import struct
from collections.abc import Mapping, Sequence

import pytest

from sparkmirror.kafka.connect_group import assigned_connectors

Tasks = Mapping[str, Sequence[int]]


def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def listed(tasks: Tasks | None) -> bytes:
    if tasks is None:
        return struct.pack(">i", -1)
    entries = (
        text(name) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers) for name, numbers in tasks.items()
    )
    return struct.pack(">i", len(tasks)) + b"".join(entries)


def assignment(version: int, assigned: Tasks | None, revoked: Tasks | None = None) -> bytes:
    head = struct.pack(">hh", version, 0) + text("connect-1") + text("http://w:8083/") + struct.pack(">q", 4)
    return head + listed(assigned) + (listed(revoked) + struct.pack(">i", 0) if version else b"")


@pytest.mark.parametrize("version", [0, 1, 2])
def test_connectors_are_those_that_it_has_and_those_that_it_lets_go_of(version: int) -> None:
    assert assigned_connectors(assignment(version, {"a": [-1, 0], "b": [3]})) == {"a", "b"}
    assert assigned_connectors(assignment(version, {})) == set()
    if version:
        assert assigned_connectors(assignment(version, None, {"c": [0]})) == {"c"}


WHOLE = assignment(2, {"a": [-1, 0]}, {"b": [1]})


@pytest.mark.parametrize("data", [b"", WHOLE[:3], WHOLE[:-15], assignment(9, {}), b"\x00\x02" + b"\xff" * 60])
def test_what_is_cut_off_or_unheard_of_is_not_known(data: bytes) -> None:
    assert assigned_connectors(data) is None
