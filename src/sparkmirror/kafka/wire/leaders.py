"""Looks up, remembers, refreshes and forgets the leaders of partitions for one loop of the data plane, and dials them.

Owned by `pipeline.fetch.reader` for the source and by `pipeline.produce.brokers` for the target. Nothing here blocks:
look-ups and dials run in `kafka.background`. Each look-up that fails doubles the pause before the next, as in Kafka's
clients (KIP-580).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from math import inf
from typing import Final
from uuid import UUID

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.kafka.background import Background, Outcome
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.leader_epochs import LeaderEpochs
from sparkmirror.kafka.wire.link import dial
from sparkmirror.kafka.wire.lookup import ClusterView, look_up, with_servers_from
from sparkmirror.model import TopicPartition

LOOK_UP_KEYS: Final = ("metadata", "prefetch")
"""Keys of the outcomes for `Leaders.take`."""
_PAUSE_SECONDS: Final = 0.2
_PAUSE_SECONDS_MAX: Final = 1.0
_AGE_SECONDS_MIN: Final = 1.0
_AGAIN_SECONDS: Final = 10.0

DialKey = tuple[str, int] | tuple[str, int, int]
"""What is dialled: a name, the broker's node id, and the number of the connection where there are several."""


class Leaders:
    """Leaders, addresses and topic ids of one cluster, as its brokers last reported them."""

    def __init__(
        self,
        settings: ClientSettings,
        background: Background,
        *,
        addresses: Mapping[int, tuple[str, int]] | None = None,
        leaders: Mapping[TopicPartition, int] | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`addresses` and `leaders` are what the planner has seen; they spare the first look-up."""
        self._settings = settings
        self._background = background
        self._clock = clock
        self._leaders = dict(leaders or {})
        self._unknown: set[str] = set()
        self._epochs = LeaderEpochs()
        self._turn = 0
        self._refresh_at = 0.0
        self._ask_at = 0.0
        self._pause = _PAUSE_SECONDS
        self._dial_at: dict[DialKey, float] = {}
        self.addresses = dict(addresses or {})
        self.topic_ids: dict[str, UUID] = {}
        self.topic_keys: dict[str, bytes] = {}
        """The same as their 16 bytes, as requests have them."""
        self._asked_at: dict[str, float] = {}
        self.doubted: set[TopicPartition] = set()
        """Those whose leader was in doubt, or has changed, since the set was last emptied."""
        self.problem = ""

    def of(self, partition: TopicPartition) -> int | None:
        """The leader's node id; None where it is not known, and then the next look-up asks about the topic."""
        leader = self._leaders.get(partition)
        if leader is None:
            self._unknown.add(partition.topic)
        return leader

    def asked_at(self, topic: str) -> float:
        """When the look-up began that brought the topic's id, by the clock; -inf if none has brought it."""
        return self._asked_at.get(topic, -inf)

    def want(self, topics: Iterable[str]) -> None:
        """Ask about these topics as soon as the pause allows."""
        self._unknown.update(topics)

    def prefetch(self, topics: Iterable[str]) -> None:
        """Ask at once, before a partition of these topics is wanted."""
        self._background.submit(LOOK_UP_KEYS[1], partial(_ask, self.settings_in_turn(), list(topics), self._clock))

    def may_ask(self) -> bool:
        """Whether the pause after the last look-up is over."""
        return self._clock.monotonic() >= self._ask_at

    def refresh(self) -> None:
        """Ask about all known topics again, each `metadata.max.age.ms`: a leader that is cut off from the others goes
        on answering, and nothing else would show its successor."""
        now = self._clock.monotonic()
        if now < self._refresh_at:
            return
        if self._refresh_at:
            self._unknown.update(where.topic for where in self._leaders)
        self._refresh_at = now + max(self._settings.metadata_age_seconds_max, _AGE_SECONDS_MIN)

    def poll(self) -> None:
        """Start a look-up if a leader is unknown and the pause is over."""
        if self._unknown and self.may_ask():
            topics, self._unknown = self._unknown, set()
            self._ask_at = self._clock.monotonic() + self._pause
            self._background.submit(LOOK_UP_KEYS[0], partial(_ask, self.settings_in_turn(), topics, self._clock))

    def settings_in_turn(self) -> ClientSettings:
        """For a look-up, which begins with another server each time."""
        turn, self._turn = self._turn, self._turn + 1
        return self.settings_from(turn)

    def settings_from(self, turn: int) -> ClientSettings:
        """With the server first whose turn it is, of those that are known by now."""
        return with_servers_from(self._settings, turn, self.addresses.values())

    def way_to_look(self) -> tuple[ClientSettings, LeaderEpochs]:
        """For a look-up beside the loop: the settings in turn, and the epochs that were seen."""
        return self.settings_in_turn(), self._epochs.copy()

    def take(self, outcome: Outcome) -> ClusterView | None:
        """Remember what a look-up brought; None if it failed, and then `problem` says why. Leaders of epochs that are
        over are left out of it."""
        if outcome.error is not None:
            self.problem = str(outcome.error)
            self._refresh_at = min(self._refresh_at, self._clock.monotonic() + _AGAIN_SECONDS)
            self._pause = min(self._pause * 2, _PAUSE_SECONDS_MAX)
            return None
        self.problem = ""
        self._pause = _PAUSE_SECONDS
        view = self._epochs.sift(outcome.result)
        self.addresses.update(view.brokers)
        known = self._leaders
        self.doubted.update(where for where, node in view.leaders.items() if known.get(where, node) != node)
        self._leaders.update(view.leaders)
        self.topic_ids.update(view.topic_ids)
        self.topic_keys.update((topic, found.bytes) for topic, found in view.topic_ids.items())
        self._asked_at.update(dict.fromkeys(view.topic_ids, view.asked_at))
        return view

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Look these leaders up again before they are used."""
        for partition in partitions:
            self.doubted.add(partition)
            self._leaders.pop(partition, None)

    def forget_node(self, node: int) -> None:
        """A broker did not answer: the partitions that it leads may have another leader by now."""
        self.forget([partition for partition, leader in self._leaders.items() if leader == node])

    def dial(
        self,
        key: DialKey,
        node: int,
        *,
        pause_seconds: float = _PAUSE_SECONDS,
        receive_bytes: int = 0,
        send_bytes: int = 0,
    ) -> bool:
        """Start to connect, unless that was tried a moment ago; the link comes as the outcome of `key`.

        False, and the node's leaderships are forgotten, if its address is not known.
        """
        now = self._clock.monotonic()
        if now < self._dial_at.get(key, 0.0):
            return True
        self._dial_at[key] = now + pause_seconds
        address = self.addresses.get(node)
        if address is None:
            self.forget_node(node)
            return False
        host, port = address
        work = partial(dial, host, port, self._settings, receive_bytes=receive_bytes, send_bytes=send_bytes)
        self._background.submit(key, work)
        return True

    def broke(self, key: DialKey) -> None:
        """A connection broke: it is dialled again after a pause."""
        self._dial_at[key] = self._clock.monotonic() + _PAUSE_SECONDS


def _ask(settings: ClientSettings, topics: Iterable[str], clock: Clock) -> ClusterView:
    began = clock.monotonic()
    return replace(look_up(settings, topics), asked_at=began)
