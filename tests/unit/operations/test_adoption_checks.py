"""What the plan says of logs that a flow which keeps offsets has not written."""

from dataclasses import replace

from sparkmirror.model import TopicPartition
from sparkmirror.operations.adoption_checks import ForeignLog
from sparkmirror.operations.kept_starts import KeptStarts
from sparkmirror.planning.log_alignment import LogFacts

WHERE, REMOTE = TopicPartition("orders", 3), TopicPartition("A.orders", 3)
FACTS = LogFacts(None, 0, 10**9, 100, 1000, adopts=True)


def test_it_is_said_what_is_compared_before_a_log_is_adopted() -> None:
    small = ForeignLog(WHERE, REMOTE, FACTS)
    assert small.sentence == "adopt A.orders-3, offsets 100 to 999, if all of it is the same on the source"
    large = ForeignLog(WHERE, REMOTE, replace(FACTS, ends=100_000_000))
    assert large.sentence == (
        "adopt A.orders-3, offsets 100 to 99999999, if 164,000 of them, in 33 samples, are the same on the source"
    )
    ahead = ForeignLog(WHERE, REMOTE, replace(FACTS, source_end=900))
    assert ahead.sentence == (
        "A.orders-3 cannot be adopted: the target's log ends at offset 1000, and its source's at 900"
    )


def test_what_is_not_to_be_adopted_is_a_warning() -> None:
    found = ForeignLog(WHERE, REMOTE, replace(FACTS, adopts=False))
    assert found.warning == (
        "A.orders-3 has 900 offsets and no stored position: what this flow has not written is refused, and adopted "
        "only where `preserve.offsets.adopt` names orders"
    )


def test_the_plan_lists_adoptions_and_counts_many() -> None:
    some = tuple(ForeignLog(TopicPartition("orders", at), TopicPartition("A.orders", at), FACTS) for at in range(25))
    lines = list(KeptStarts(30, (), adoptions=some).lines())
    assert lines[0].startswith("adopt A.orders-0, offsets 100 to 999")
    assert lines[20:] == ["adopt the logs of 5 more partitions", "keep the offsets of 30 partitions"]
    assert KeptStarts(30, (), adoptions=some[:1]).as_json()["adoptions"] == [
        {"topic": "orders", "partition": 0, "sentence": lines[0]}
    ]
