"""The checksum algebra against the library that reads every byte."""

import google_crc32c
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.batch import crc

word = st.integers(0, 2**32 - 1)


def test_the_checksum_is_castagnoli_s() -> None:
    assert crc.value(b"123456789") == 0xE3069283
    assert crc.value(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4


@given(first=st.binary(max_size=200), second=st.binary(max_size=200), zeros=st.integers(0, 3_000_000))
def test_two_checksums_combine_to_that_of_the_whole(first: bytes, second: bytes, zeros: int) -> None:
    second += bytes(zeros)
    whole = google_crc32c.value(first + second)
    assert crc.advance(google_crc32c.value(first), len(second)) ^ google_crc32c.value(second) == whole


@given(one=word, other=word, length=st.integers(0, 2**31 - 1))
def test_advancing_is_linear_for_every_length(one: int, other: int, length: int) -> None:
    assert crc.advance(one ^ other, length) == crc.advance(one, length) ^ crc.advance(other, length)


@given(difference=word, first=st.integers(0, 2**24), second=st.integers(0, 2**24))
def test_two_crc_advances_in_a_row_equal_one(difference: int, first: int, second: int) -> None:
    assert crc.advance(crc.advance(difference, first), second) == crc.advance(difference, first + second)


def test_advancing_over_nothing_changes_nothing() -> None:
    assert crc.advance(0xDEADBEEF, 0) == 0xDEADBEEF
