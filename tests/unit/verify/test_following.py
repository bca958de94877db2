"""What may come twice, and what may not: targets read against their source, letter by letter."""

import pytest

from sparkmirror.verify.regions import Followed, follow


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("cdef", Followed(equal=4)),
        ("cdcdef", Followed(equal=4, repeated=2)),
        ("cdecdcdef", Followed(equal=4, repeated=5)),
        ("abcdef", Followed(equal=4, repeated=2)),
        ("cdefgh", Followed(equal=4, ahead=2)),
        ("cde", Followed(equal=3, missing=1, first_missing=(5, 3))),
        ("cef", Followed(equal=3, missing=1, first_missing=(3, 1))),
        ("cdXef", Followed(equal=4, surplus=1, first_surplus=(4, 2))),
        ("", Followed(missing=4, first_missing=(2, 0))),
    ],
)
def test_a_target_goes_on_as_the_source_and_jumps_only_back(target: str, expected: Followed) -> None:
    """The region is `cdef` of `abcdefgh`."""
    assert follow("abcdefgh", target, 2, 6) == expected


def test_records_of_the_same_content_are_taken_for_the_latest_that_fits() -> None:
    assert follow("aabaac", "aabaaabaac", 0, 6) == Followed(equal=6, repeated=4)
    assert follow("aaaa", "aaaaaa", 0, 4) == Followed(equal=4, repeated=2)
