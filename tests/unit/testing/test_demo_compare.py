"""The demo's proof: what counts as a difference, and in which words."""

from typing import Any

import pytest

from sparkmirror.model import TopicPartition
from sparkmirror.testing.demo_client import Received, find_difference

HERE = TopicPartition("flights", 0)
THERE = TopicPartition("A.flights", 0)
HEADERS = (("origin", b"EWR"), ("reason", None))


def source(count: int = 3) -> list[Received]:
    return [Received(HERE, n, b"UA1545", b"%d" % n, HEADERS, 1_357_034_100_000 + n) for n in range(count)]


def copy(records: list[Received], first_offset: int = 0) -> list[Received]:
    return [record._replace(at=THERE, offset=first_offset + n) for n, record in enumerate(records)]


def test_a_faithful_copy_has_no_difference_whatever_its_offsets() -> None:
    assert find_difference(source(), copy(source(), first_offset=40)) is None
    assert find_difference([], []) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("key", None),
        ("value", None),
        ("value", b""),
        ("headers", (("reason", None), ("origin", b"EWR"))),
        ("headers", (("origin", b"EWR"), ("reason", b""))),
        ("timestamp_ms", 1_357_034_100_000),
    ],
)
def test_any_changed_part_is_named_with_both_offsets(field: str, value: Any) -> None:
    target = copy(source(), first_offset=40)
    target[2] = target[2]._replace(**{field: value})

    difference = find_difference(source(), target)

    assert difference is not None
    assert difference.startswith(f"offset 2 at the source and 42 at the target differ in {field}: ")
    assert difference.endswith(f" and {value!r}")


def test_two_records_in_the_wrong_order_differ() -> None:
    first, second, third = source()

    difference = find_difference(source(), copy([first, third, second]))

    assert difference is not None
    assert "offset 1 at the source and 1 at the target differ in value: b'1' and b'2'" in difference


@pytest.mark.parametrize(("originals", "copies"), [(3, 2), (2, 3), (1, 0), (0, 1)])
def test_a_record_too_few_or_too_many_is_counted(originals: int, copies: int) -> None:
    difference = find_difference(source(originals), copy(source(copies)))

    assert difference == f"{originals} records at the source, {copies} at the target"


def test_long_values_are_cut_in_the_sentence() -> None:
    target = copy(source(1))
    target[0] = target[0]._replace(value=b"x" * 5000)

    difference = find_difference(source(1), target)

    assert difference is not None
    assert len(difference) < 200
