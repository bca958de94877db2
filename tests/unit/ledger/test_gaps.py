"""Gaps as they are stored and listed."""

from dataclasses import replace
from uuid import UUID

import pytest

from sparkmirror.ledger.gaps import UNREADABLE, Gap, decode, encode_key, encode_value, list_gaps
from sparkmirror.model import TopicPartition

GAP = Gap(TopicPartition("orders", 3), "retention", 100, 130, "went on", 1_700_000_000_000, UUID(int=7), "run")


def test_a_gap_comes_back_as_it_was_stored() -> None:
    assert decode("A", encode_key("A", GAP), encode_value(GAP)) == GAP
    assert GAP.lost_records == 30
    assert GAP.as_json()["at"] == "2023-11-14T22:13:20+00:00"


def test_a_log_that_leads_back_lost_nothing_that_could_be_counted() -> None:
    assert replace(GAP, cause="recreated", resumed=0).lost_records == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (encode_key("B", GAP), encode_value(GAP)),
        (encode_key("A", GAP), None),
        (b"[]", encode_value(GAP)),
        (None, b"{}"),
        (b"[" * 100_000, b"{}"),
    ],
)
def test_what_is_no_gap_of_this_flow_is_passed_by(key: bytes | None, value: bytes | None) -> None:
    assert decode("A", key, value) is None


@pytest.mark.parametrize("value", [b"garbage", b'{"cause":"retention"}', encode_value(replace(GAP, at_ms=1 << 60))])
def test_a_gap_of_this_flow_that_cannot_be_read_is_reported_as_one(value: bytes) -> None:
    found = decode("A", encode_key("A", GAP), value)
    assert found == Gap(GAP.partition, UNREADABLE, 100, 130, "unknown", 0, GAP.topic_id)


def test_gaps_are_listed_as_they_were_found_and_each_is_kept() -> None:
    later = replace(GAP, expected=200, resumed=210, at_ms=GAP.at_ms + 1)
    assert list_gaps("A", [(encode_key("A", gap), encode_value(gap)) for gap in (later, GAP)]) == [GAP, later]


def test_a_gap_that_is_found_again_is_the_same_gap_and_a_topic_created_again_twice_has_two() -> None:
    again, another = replace(GAP, at_ms=GAP.at_ms + 1), replace(GAP, topic_id=UUID(int=8))
    records = [(encode_key("A", gap), encode_value(gap)) for gap in (GAP, again, another)]
    assert list_gaps("A", records) == [another, again]


def test_a_log_that_was_made_again_and_cut_where_the_former_one_was_left_has_two_gaps() -> None:
    """Both begin and end at the same offsets, and lead into the same log: one does not take the other's place."""
    made = replace(GAP, cause="recreated", expected=5, resumed=0)
    cut = replace(made, cause="truncated", at_ms=made.at_ms + 1)
    assert list_gaps("A", [(encode_key("A", gap), encode_value(gap)) for gap in (made, cut)]) == [made, cut]
