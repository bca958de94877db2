"""How much goes out before it is known how fast the target takes it."""

import pytest

from sparkmirror.pipeline.produce.pace import REQUEST_BYTES_MAX, TRANSACTION_BYTES_MAX, RequestPace, TransactionPace

KIB = 1 << 10


def test_requests_grow_in_number_and_size_while_no_pause_is_asked_for() -> None:
    pace = RequestPace()
    assert (pace.requests_max, pace.bytes_max) == (1, 256 * KIB)
    for _ in range(10):
        pace.note(100, 0.0)
    assert (pace.requests_max, pace.bytes_max) == (11, REQUEST_BYTES_MAX)


@pytest.mark.parametrize(("pause_seconds", "bytes_max"), [(0.5, 512 * KIB), (4.0, 100 * KIB), (1e6, 64 * KIB)])
def test_a_pause_leaves_one_request_and_a_long_one_makes_it_small(pause_seconds: float, bytes_max: int) -> None:
    pace = RequestPace()
    pace.requests_max = 5
    pace.note(400 * KIB, pause_seconds)
    assert (pace.requests_max, pace.bytes_max) == (1, bytes_max)


def test_positions_go_out_in_one_request_whatever_pause_it_costs() -> None:
    pace = RequestPace(in_one=True)
    pace.note(100, 60.0)
    assert (pace.requests_max, pace.bytes_max) == (1, REQUEST_BYTES_MAX)


def test_transactions_double_while_they_are_full_and_end_quickly() -> None:
    pace = TransactionPace(60.0)
    assert pace.bytes_max == 1024 * KIB
    pace.note(1000, 0.1)
    assert pace.bytes_max == 1024 * KIB, "it was not full"
    pace.note(1024 * KIB, 6.0)
    assert pace.bytes_max == 1024 * KIB, "nor was it quick"
    for _ in range(10):
        pace.note(pace.bytes_max, 0.1)
    assert pace.bytes_max == TRANSACTION_BYTES_MAX


def test_a_transaction_that_took_long_makes_the_next_one_smaller_down_to_a_least() -> None:
    pace = TransactionPace(60.0)
    pace.note(500_000, 50.0)
    assert pace.bytes_max == 100_000
    pace.note(10, 50.0)
    assert pace.bytes_max == 16 * KIB
    pace.begin_anew()
    assert pace.bytes_max == 1024 * KIB
