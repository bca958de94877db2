"""What follows a flow's offset records is closed where they cannot be read, and knows which topics' partitions part."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from tests.flows import flow_of

from sparkmirror.errors import AuthorizationFailed
from sparkmirror.ledger.map_records import ChunkName, encode_chunk, encode_key
from sparkmirror.ledger.offset_map import OffsetMap
from sparkmirror.model import Topic, TopicPartition
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


ORDERS = TopicPartition("orders", 0)


class MapFollower:
    """The first records of `orders-0` lie at the same offsets."""

    def __init__(self, _cluster: Any, _admin: Any, topic: str, _role: str) -> None:
        self._is_map = "offset-map.A" in topic

    def read(self) -> Sequence[Any]:
        if not self._is_map:
            return ()
        self._is_map = False
        found = OffsetMap(0)
        found.append(0, 100, 0)
        key, value = encode_key("A", ORDERS, ChunkName(1, 1, 1)), encode_chunk(found.as_chunk())
        return [SimpleNamespace(key=key, value=value)]

    def close(self) -> None:
        pass


def admin(partitions: int) -> Any:
    return SimpleNamespace(list_topics=lambda names: {name: Topic(name, UUID(int=1), partitions, 1) for name in names})


@pytest.mark.parametrize(
    ("line", "source", "target", "is_known"),
    [
        ("partitioning = key", 1, 1, True),
        ("partitioning = key", 2, 3, False),
        ("partitioning = source", 2, 3, True),
        ("partitioning = key", None, 1, True),
        ("partitioning = key", None, 3, False),
        ("transforms.set.partition = pmod(offset, 2)", 2, 2, False),
        ("transforms.set.partition = pmod(offset, 2)", None, 2, False),
        ("transforms.set.topic = concat(target_topic, '-clean')", 2, 2, True),
    ],
)
def test_no_offset_is_translated_of_a_topic_whose_records_are_put_into_other_partitions(
    line: str, source: int | None, target: int, is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition of the target has records of several: a group that has read one of these would skip the others'."""
    monkeypatch.setattr(offset_state, "TopicFollower", MapFollower)
    monkeypatch.setattr(offset_state, "_read_all", lambda *_: [])
    with OffsetState(flow_of(line), None if source is None else admin(source), admin(target)) as state:
        assert state.follow() == {ORDERS}
        assert (state.translator.translate(ORDERS, 40) is not None) is is_known
