"""Which checkpoints and group offsets are written: MirrorMaker's rules where they are sound."""

from sparkmirror.kafka.group_answers import Committed, GroupOffsets
from sparkmirror.ledger.checkpoints import Checkpoints, GroupWrite, plan_checkpoints, plan_group_writes
from sparkmirror.ledger.mirror_records import Checkpoint
from sparkmirror.ledger.translate import Translated
from sparkmirror.model import TopicPartition

ORDERS, REMOTE = TopicPartition("orders", 0), TopicPartition("A.orders", 0)


def planned(offset: int, downstream: int | None, last: Checkpoint | None = None, note: str = "") -> list[Checkpoint]:
    before: Checkpoints = {("g", REMOTE): last} if last else {}
    answer = None if downstream is None else Translated(REMOTE, downstream, True)
    return plan_checkpoints({"g": {ORDERS: Committed(offset, note)}}, before, lambda *_: answer)


def checkpoint(upstream: int, downstream: int, note: str = "") -> Checkpoint:
    return Checkpoint("g", REMOTE, upstream, downstream, note)


def test_the_first_checkpoint_carries_the_groups_note() -> None:
    """`MirrorCheckpointTaskTest.testCheckpoint`."""
    assert planned(150, 101, note="by me") == [checkpoint(150, 101, "by me")]


def test_without_a_translation_or_an_offset_there_is_none() -> None:
    """`testNoCheckpointForTopicWithoutOffsetSyncs`, `…WithNullOffsetAndMetadata`."""
    assert planned(150, None) == []
    assert planned(-1, 101) == []


def test_checkpoints_go_forward_unless_the_group_itself_went_back() -> None:
    """`testCheckpointRecordsMonotonicIfStoreRewinds`."""
    last = checkpoint(400, 376)
    assert planned(400, 376, last) == []
    assert planned(450, 376, last) == [], "the translation did not move"
    assert planned(450, 300, last) == [], "less is known than before"
    assert planned(450, 401, last) == [checkpoint(450, 401)]
    assert planned(250, 201, last) == [checkpoint(250, 201)], "a rewind on the source"


def test_what_was_published_before_a_restart_counts() -> None:
    """`testCheckpointsTaskRestartUsesExistingCheckpoints`."""
    last = checkpoint(200, 201)
    assert planned(250, 176, last) == []
    assert planned(370, 176, last) == []
    assert planned(400, 376, last) == [checkpoint(400, 376)]


def writes(on_target: GroupOffsets | None, *, active: bool = False) -> list[GroupWrite]:
    return plan_group_writes(
        {"g": {REMOTE: checkpoint(100, 101, "note")}},
        frozenset({"g"} if active else ()),
        {} if on_target is None else {"g": on_target},
    )


def test_a_group_moves_forward_and_only_forward() -> None:
    """`testSyncOffset`; the same for a group that does not exist yet."""
    forward = [GroupWrite("g", {REMOTE: Committed(101, "note")})]
    assert writes({}) == forward
    assert writes({REMOTE: Committed(100)}) == forward
    assert writes({REMOTE: Committed(-1)}) == forward
    assert writes({REMOTE: Committed(101)}) == []
    assert writes({REMOTE: Committed(500)}) == []
    assert writes({TopicPartition("A.orders", 1): Committed(500)}) == forward


def test_an_active_group_and_one_that_could_not_be_read_are_left_alone() -> None:
    assert writes({}, active=True) == []
    assert writes(None) == []
