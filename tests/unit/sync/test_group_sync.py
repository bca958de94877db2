"""Which groups a flow follows, by the lists that its source's brokers give."""

from collections.abc import Callable
from typing import cast

import pytest
from tests.flows import flow_of

from sparkmirror.errors import ClusterError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.group_answers import GroupListing
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
