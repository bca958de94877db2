"""What is made of a target's log that does not reach as far as it must."""

from uuid import UUID

import pytest

from sparkmirror.ledger.lineage import TARGET_DELETED, TARGET_TRUNCATED, Extent, judge
from sparkmirror.model import NO_TOPIC_ID

ONE, OTHER = UUID(int=1), UUID(int=2)


@pytest.mark.parametrize(
    ("known", "found", "cause"),
    [
        ((ONE, 300), (ONE, 300), None),
        ((ONE, 300), (ONE, 450), None),
        ((ONE, 300), (ONE, 299), TARGET_TRUNCATED),
        ((ONE, 300), (OTHER, 0), TARGET_DELETED),
        ((ONE, 300), (OTHER, 900), TARGET_DELETED),
        ((ONE, 300), (NO_TOPIC_ID, 0), TARGET_DELETED),
        ((NO_TOPIC_ID, 300), (OTHER, 900), None),
        ((NO_TOPIC_ID, 300), (OTHER, 100), TARGET_TRUNCATED),
        ((ONE, 0), (OTHER, 0), None),
    ],
)
def test_a_log_that_is_another_one_or_shorter_has_lost_records(
    known: tuple[UUID, int], found: tuple[UUID, int], cause: str | None
) -> None:
    assert judge(Extent("t", *known), Extent("t", *found)) == cause
