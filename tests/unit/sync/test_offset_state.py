"""What follows a flow's offset records is closed where they cannot be read."""

from collections.abc import Sequence
from typing import Any

import pytest
from tests.flows import flow_of

from sparkmirror.errors import AuthorizationFailed
from sparkmirror.sync import offset_state
from sparkmirror.sync.offset_state import OffsetState


class Follower:
    """The topic of checkpoints may not be read."""

    opened: list[str]

    def __init__(self, _cluster: Any, _admin: Any, topic: str, _role: str) -> None:
        self._topic = topic
        self.opened.append(topic)

    def read(self) -> Sequence[Any]:
        if "checkpoints" in self._topic:
            raise AuthorizationFailed("no READ")
        return ()

    def close(self) -> None:
        self.opened.remove(self._topic)


def test_followers_are_closed_where_one_of_them_may_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a client with a thread, and the job opens them again at each of its rounds."""
    monkeypatch.setattr(Follower, "opened", [], raising=False)
    monkeypatch.setattr(offset_state, "TopicFollower", Follower)
    monkeypatch.setattr(offset_state, "_read_all", lambda *_: [])
    nobody: Any = object()
    with pytest.raises(AuthorizationFailed):
        OffsetState(flow_of("preserve.offsets.enabled = true", "emit.offset-syncs.enabled = false"), nobody, nobody)
    assert Follower.opened == []
