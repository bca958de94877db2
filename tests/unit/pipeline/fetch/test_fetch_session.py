"""Incremental fetch sessions (KIP-227) as the broker keeps its side of them."""

from uuid import UUID

import pytest

from sparkmirror.kafka.wire.data_requests import FetchPosition, FetchResponse
from sparkmirror.pipeline.fetch.fetch_session import (
    FETCH_SESSION_ID_NOT_FOUND,
    INVALID_FETCH_SESSION_EPOCH,
    FetchSession,
    PartitionKey,
)

TOPIC = UUID(int=7).bytes


def wanted(**offsets: int) -> dict[PartitionKey, FetchPosition]:
    """`wanted(p3=100)`: partition 3 from offset 100 on."""
    numbered = {int(name[1:]): offset for name, offset in offsets.items()}
    return {(TOPIC, number): FetchPosition(TOPIC, number, offset, 2, 1 << 20) for number, offset in numbered.items()}


def answered(session_id: int = 99, error: int = 0) -> FetchResponse:
    return FetchResponse(0, error, session_id, [])


def in_session(**offsets: int) -> FetchSession:
    session = FetchSession()
    session.step(wanted(**offsets))
    assert session.accept(answered())
    return session


def test_the_first_request_is_full_and_opens_a_session() -> None:
    session = FetchSession()
    asked = wanted(p0=5, p1=6)
    assert session.step(asked) == (0, 0, list(asked.values()), [])
    assert session.accept(answered(99))
    assert session.step(asked) == (99, 1, [], [])


def test_afterwards_only_changes_are_sent_and_what_is_not_wanted_is_forgotten() -> None:
    session = in_session(p0=5, p1=6)
    assert session.step(wanted(p0=8, p1=6)) == (99, 1, list(wanted(p0=8).values()), [])
    session.accept(answered())
    assert session.step(wanted(p1=6, p2=0)) == (99, 2, list(wanted(p2=0).values()), [(TOPIC, 0)])
    session.accept(answered())
    assert session.step(wanted(p0=8, p1=6, p2=0)) == (99, 3, list(wanted(p0=8).values()), [])


def test_epochs_count_up_and_wrap_past_the_full_ones() -> None:
    session = in_session(p0=5)
    session._epoch = 0x7FFFFFFF
    session.accept(answered())
    assert session.step(wanted(p0=5))[:2] == (99, 1)


@pytest.mark.parametrize(
    ("error", "closes"), [(FETCH_SESSION_ID_NOT_FOUND, 0), (INVALID_FETCH_SESSION_EPOCH, 99), (106, 99)]
)
def test_a_lost_session_is_followed_by_a_full_request_that_closes_what_may_be_left(error: int, closes: int) -> None:
    session = in_session(p0=5, p1=6)
    session.step(wanted(p0=7, p1=6))
    assert not session.accept(answered(0, error))
    asked = wanted(p0=7, p1=6)
    assert session.step(asked) == (closes, 0, list(asked.values()), [])
    session.accept(answered(100))
    assert session.step(asked) == (100, 1, [], [])


def test_a_broker_without_room_for_sessions_gets_full_requests() -> None:
    """Also a throttled answer to a full request, which is empty and has no session (KIP-219)."""
    session = FetchSession()
    asked = wanted(p0=5)
    for _ in range(2):
        assert session.step(asked) == (0, 0, list(asked.values()), [])
        assert session.accept(answered(0))


def test_an_answer_is_recognised_by_the_offset_that_was_asked_for() -> None:
    session = in_session(p0=5)
    assert session.offset_of((TOPIC, 0)) == 5
    assert session.offset_of((TOPIC, 1)) == -1
