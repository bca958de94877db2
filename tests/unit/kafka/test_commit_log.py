"""The log of commits: where a group's are, what a record says, and which commits were overwritten."""

from collections.abc import Iterable

import pytest

from sparkmirror.kafka.commit_log import Commit, CommitLog, commits_partition, overwritten, parse_commit
from sparkmirror.kafka.group_answers import Committed
from sparkmirror.kafka.tail import TailRecord
from sparkmirror.model import Topic, TopicPartition

ORDERS = TopicPartition("orders", 3)
LOG = TopicPartition("__consumer_offsets", 0)
KEY = bytes.fromhex("0001000267 310006" + b"orders".hex() + "00000003")
OFFSET = "000000000000002a"
OURS = {"g": {ORDERS: Committed(100)}}


def record(key: bytes | None, value: bytes | None) -> TailRecord:
    return TailRecord(LOG, 7, 0, key, value)


@pytest.mark.parametrize(
    "value",
    [
        "0000" + OFFSET + "00026d64" + "00" * 8,
        "0001" + OFFSET + "00026d64" + "00" * 16,
        "0003" + OFFSET + "00000005" + "00026d64" + "00" * 8,
        "0004" + OFFSET + "00000005" + "036d64" + "00" * 9,
    ],
)
def test_every_version_of_a_commit_is_read(value: str) -> None:
    assert parse_commit(record(KEY, bytes.fromhex(value))) == ("g1", ORDERS, Committed(42, "md"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (KEY, None),
        (b"\0\2\0\2g1", b"\0\3"),
        (KEY[:-2], b"\0\3"),
        (KEY, b"\0\3\0"),
        (KEY, b"\0\4" + b"\0" * 12),
        (KEY, b"\0\4" + b"\0" * 12 + b"\xff" * (1 << 20)),
    ],
)
def test_other_records_are_passed_by(key: bytes | None, value: bytes | None) -> None:
    assert parse_commit(record(key, value)) is None


@pytest.mark.parametrize(("group", "partition"), [("g1", 42), ("", 0), ("billing", 9), ("polygenelubricants", 0)])
def test_a_groups_commits_are_where_javas_hash_says(group: str, partition: int) -> None:
    assert commits_partition(group, 50) == partition


def commit(offset: int) -> Commit:
    return "g", ORDERS, Committed(offset)


def found(log: list[int], stood: int | None) -> list[int]:
    """What is restored of a group that stood there when ours, 100, was planned."""
    seen = {} if stood is None else {"g": {ORDERS: Committed(stood)}}
    return [one[ORDERS].offset for one in overwritten([commit(offset) for offset in log], seen, OURS).values()]


@pytest.mark.parametrize(
    ("log", "stood", "restored"),
    [
        ([120, 150, 100], 50, 150),
        ([100, 120, 100], 50, 120),
        ([150, 120, 100], None, 120),
        ([80, 40, 100], None, 40),
        ([40, 100], 50, 40),
        ([-1, 100], 50, -1),
        ([100, 103, 101, 100], 98, 101),
        ([100, 103, 99, 100], 98, 99),
        ([120, 100, 100], 50, 120),
        ([10, 100, 100], 50, 10),
    ],
)
def test_a_higher_commit_before_ours_was_overwritten_and_one_that_put_the_group_back(
    log: list[int], stood: int | None, restored: int
) -> None:
    assert found(log, stood) == [restored]


@pytest.mark.parametrize(
    "log",
    [[], [100], [50, 100], [50, 60, 100], [100, 100], [100, 150], [150, 100, 90], [100, 90]],
)
def test_steps_on_the_way_to_ours_and_what_came_after_stand(log: list[int]) -> None:
    assert found(log, 50) == []


class Hidden:
    """A cluster whose log of commits we may not see."""

    alias = "B"

    def list_topics(self, _names: object) -> dict[str, Topic]:
        return {}

    def await_latest_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)


def test_without_the_right_to_see_the_log_nothing_is_restored_and_that_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    commits = CommitLog(Hidden())  # type: ignore[arg-type]
    for _ in range(2):
        assert commits.overtaken(commits.ends(), {}, OURS) == {}
    (said,) = caplog.messages
    assert "B cannot be restored: Cluster B shows no topic __consumer_offsets." in said


def test_other_groups_are_not_ours_to_restore() -> None:
    assert overwritten([("h", ORDERS, Committed(150)), commit(100)], {}, OURS) == {}
