"""Which gaps count for what is compared."""

from uuid import UUID

from tests.unit.verify.test_plan import standing

from sparkmirror.ledger.gaps import Gap
from sparkmirror.model import Topic
from sparkmirror.verify.observe import _with_gaps

HOME, OTHER = UUID(int=1), UUID(int=2)


def test_what_was_left_out_counts_in_the_topic_that_keeps_its_own_records_there() -> None:
    one = standing(None, keeps_offsets=True)
    gaps = [Gap(one.source, cause, 100, 130, "", 0, HOME) for cause in ("left out", "retention")]
    name = one.target.topic

    def causes(topic_id: UUID) -> list[str]:
        (found,) = _with_gaps([one], gaps, {name: Topic(name, topic_id, 1, 1)})
        return [gap.cause for gap in found.gaps]

    assert causes(HOME) == ["left out", "retention"]
    assert causes(OTHER) == ["retention"], "the flow has mirrored them to it"
