"""Which groups a flow follows, by the lists that its source's brokers give, and what becomes of commits that cross."""

from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from tests.flows import flow_of

from sparkmirror.errors import AuthorizationFailed, ClusterError, ClusterUnreachable, SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.commit_log import overwritten
from sparkmirror.kafka.group_answers import Committed, GroupListing, GroupOffsets
from sparkmirror.ledger.checkpoints import Renewal
from sparkmirror.ledger.lineage import Extent
from sparkmirror.ledger.mirror_records import Checkpoint
from sparkmirror.model import Topic, TopicPartition
from sparkmirror.sync import group_sync
from sparkmirror.sync.group_sync import GroupRound

NOBODY = cast(Admin, None)


@pytest.fixture
def loading(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source of which one coordinator is loading its groups."""

    def refuse(_: Admin) -> dict[str, GroupListing]:
        raise ClusterError("broker 2 does not list the groups that it coordinates")

    monkeypatch.setattr(group_sync, "GroupOffsetsClient", lambda _: None)
    monkeypatch.setattr(group_sync, "CommitLog", lambda _: None)
    monkeypatch.setattr(group_sync, "list_groups", lambda _: {"other": GroupListing("other", "consumer")})
    monkeypatch.setattr(group_sync, "list_all_groups", refuse)


@pytest.fixture
def following() -> Callable[..., GroupRound]:
    return lambda *lines: GroupRound(flow_of(*lines), NOBODY, NOBODY, {}, {}, {})


@pytest.mark.usefixtures("loading")
def test_only_groups_that_are_looked_for_again_may_be_missing_for_a_moment(
    following: Callable[..., GroupRound],
) -> None:
    again, once = following(), following("refresh.groups.enabled = false")
    again.find_groups()
    assert again.groups == ["other"]
    with pytest.raises(ClusterError, match="broker 2"):
        once.find_groups()


ORDERS, BILLS = TopicPartition("A.orders", 0), TopicPartition("A.bills", 0)
STOOD, FOREIGN = Committed(10), Committed(200)


class Coordinator:
    """The target's. A consumer commits between the look and the commit, which the log of commits alone shows then."""

    def __init__(self, *refused: TopicPartition, answers: bool = True) -> None:
        self.refused, self.answers = refused, answers
        self.stands: dict[TopicPartition, Committed] = {ORDERS: STOOD, BILLS: STOOD}
        self.log: list[tuple[str, TopicPartition, Committed]] = []
        self.alias = "B"

    def committed(self, groups: Iterable[str]) -> tuple[dict[str, GroupOffsets], dict[str, SparkMirrorError]]:
        found: dict[str, GroupOffsets] = {group: dict(self.stands) for group in groups}
        if not self.log:
            self._take("g", {ORDERS: FOREIGN})
        return found, {}

    def commit(self, group: str, offsets: GroupOffsets) -> dict[TopicPartition, SparkMirrorError]:
        self._take(group, {where: one for where, one in offsets.items() if where not in self.refused})
        if not self.answers:
            self.answers = True
            raise ClusterUnreachable("broker 1 does not answer")
        return {where: AuthorizationFailed(f"no READ on {where.topic}") for where in offsets if where in self.refused}

    def _take(self, group: str, offsets: GroupOffsets) -> None:
        self.stands |= offsets
        self.log += [(group, where, one) for where, one in offsets.items()]

    def ends(self) -> dict[TopicPartition, int]:
        return {}

    def overtaken(
        self, _: object, seen: Mapping[str, GroupOffsets], written: Mapping[str, GroupOffsets]
    ) -> dict[str, GroupOffsets]:
        return overwritten(self.log, seen, written)

    def list_topics(self, _: object) -> dict[str, Topic]:
        return {where.topic: Topic(where.topic, UUID(int=1), 1, 1) for where in (ORDERS, BILLS)}


@pytest.mark.parametrize(
    "target",
    [Coordinator(), Coordinator(BILLS), Coordinator(answers=False)],
    ids=["taken", "one partition is refused", "not answered"],
)
def test_a_commit_that_ours_has_overtaken_is_restored(target: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the mirror may not commit for another partition of the group, or does not learn that it has."""
    logs = {where: Extent(where.topic, UUID(int=1), 1000) for where in (ORDERS, BILLS)}
    state: Any = SimpleNamespace(sources=dict, now=lambda one, *_: one.downstream)
    monkeypatch.setattr(group_sync, "GroupOffsetsClient", lambda _: target)
    monkeypatch.setattr(group_sync, "CommitLog", lambda _: target)
    monkeypatch.setattr(group_sync, "list_groups", lambda _: {})
    monkeypatch.setattr(group_sync, "read_target_logs", lambda *_: logs)
    checkpoints = {("g", where): Checkpoint("g", where, 150, 150, "") for where in (ORDERS, BILLS)}
    following = GroupRound(flow_of(), NOBODY, cast(Admin, target), checkpoints, {}, {})
    following.commit(state)
    assert target.stands[ORDERS] == FOREIGN
    assert following.counts.restored == 1


def test_a_group_that_has_members_when_its_log_is_cut_is_taken_back_once_they_have_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They have read nothing there, and commit nothing: it stands where the mirror has put it."""
    target, listed = Coordinator(), {"g": GroupListing("g", "consumer", "Stable")}
    target.log.append(("other", BILLS, STOOD))
    monkeypatch.setattr(group_sync, "GroupOffsetsClient", lambda _: target)
    monkeypatch.setattr(group_sync, "CommitLog", lambda _: target)
    monkeypatch.setattr(group_sync, "list_groups", lambda _: listed)
    lines = ["sync.group.offsets.enabled = true"]
    following = GroupRound(flow_of(*lines), NOBODY, cast(Admin, target), {}, {}, {})
    cut = Renewal(Checkpoint("g", ORDERS, 150, 10), Checkpoint("g", ORDERS, 150, 0), 0)
    following.remember(following.take_back([cut]))
    assert target.stands[ORDERS] == STOOD, "they may commit"
    following.remember([Checkpoint("g", ORDERS, 160, 7)])
    assert following.take_back([]) == [] and target.stands[ORDERS] == STOOD
    listed.clear()
    assert following.take_back([]) == [], "the checkpoint is there already"
    assert target.stands[ORDERS] == Committed(7)
    target.stands[ORDERS] = Committed(10)
    following.take_back([])
    assert target.stands[ORDERS] == Committed(10), "by whomever: it is taken back once"
