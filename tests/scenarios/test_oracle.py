"""The witness itself must be able to say no."""

import pytest
from tests.oracle import Log, Seen, assert_same, assert_whole_repeats


def log(*numbers: int) -> Log:
    return {0: [Seen(b"key", str(number).encode(), (("h", b"1"),), (1, number)) for number in numbers]}


def test_equal_logs_pass() -> None:
    assert_same(log(0, 1, 2), log(0, 1, 2), "orders")


@pytest.mark.parametrize(
    ("mirrored", "words"),
    [
        (log(0, 1), "the first missing one is key=b'key' value=b'2'"),
        (log(0, 1, 2, 2), "the first surplus one is key=b'key' value=b'2'"),
        (log(0, 2, 1), "record 1 of 3 differs"),
        ({**log(0, 1, 2), 1: []}, "partitions"),
        ({0: [*log(0, 1)[0], Seen(b"key", b"2", (("h", None),), (1, 2))]}, "record 2 of 3 differs"),
        ({0: [*log(0, 1)[0], Seen(b"key", b"2", (("h", b"1"),), (2, 2))]}, "record 2 of 3 differs"),
    ],
)
def test_any_difference_is_told(mirrored: Log, words: str) -> None:
    with pytest.raises(AssertionError, match="orders") as told:
        assert_same(log(0, 1, 2), mirrored, "orders")
    assert words in str(told.value)


def test_repeats_are_counted_when_they_are_whole() -> None:
    assert assert_whole_repeats(log(0, 1, 2, 3), log(0, 1, 2, 1, 2, 3), "orders") == 2


@pytest.mark.parametrize(
    ("mirrored", "words"),
    [
        (log(0, 2, 3), "record 2 follows record 0: 1 are missing"),
        (log(0, 1, 2, 3, 1), "ends with record 1 of 4"),
        (log(0, 1, 2), "ends with record 2 of 4"),
        (log(0, 1, 2, 3, 4), "not a record of the source"),
    ],
)
def test_holes_and_lost_ends_are_no_repeats(mirrored: Log, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        assert_whole_repeats(log(0, 1, 2, 3), mirrored, "orders")
