"""Finds the leaders of partitions for callers that block: another server first each time, no leader of a former epoch.

A broker that is cut off from the others, or has just woken up, says what it knew, however often it is asked. Used by
what reads or writes one partition at a time; loops have `kafka.wire.leaders`.
"""

import random
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Final
from uuid import UUID

from sparkmirror.errors import ClusterError, ProtocolError
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.leader_epochs import LeaderEpochs
from sparkmirror.kafka.wire.link import SETUP_SECONDS_MAX, Link
from sparkmirror.kafka.wire.lookup import ClusterView, Span, dial_named, look_up, span_of, with_servers_from
from sparkmirror.model import TopicPartition

_FIRST_TURNS: Final = 1 << 16
_SERVER_SECONDS_MAX: Final = 3.0


class LeaderSearch:
    """The look-ups of one caller. The first begins with any server: who failed may try again by a new search."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._turn = random.randrange(_FIRST_TURNS)
        self._brokers: tuple[tuple[str, int], ...] = ()
        self._epochs = LeaderEpochs()

    def look_up(self, topics: Iterable[str], seconds_max: float = SETUP_SECONDS_MAX) -> ClusterView:
        """As `kafka.wire.lookup.look_up`."""
        turn, self._turn = self._turn, self._turn + 1
        view = self._epochs.sift(look_up(with_servers_from(self._settings, turn, self._brokers), topics, seconds_max))
        self._brokers = tuple(view.brokers.values())
        return view

    def dial(self, where: TopicPartition) -> tuple[Link, ClusterView]:
        """A connection to the partition's leader, and the look-up that named it. Raises ClusterUnreachable if it has no
        leader now, and what `look_up` and `dial` raise."""
        view = self.look_up([where.topic])
        return dial_named(self._settings, where, view), view

    def newest(self, where: TopicPartition) -> ClusterView:
        """What the server says of the partition that knows its newest leader: all bootstrap servers and brokers are
        asked, each alone. Raises as `look_up`, where none answers."""
        found = self.look_up([where.topic])
        for view in self.ask_each([where.topic]):
            found = view if where in view.epochs and where not in view.former else found
        return found

    def is_shown(self, topic: str, topic_id: UUID) -> bool:
        """Whether any server shows the topic by that id: one that has just woken up shows that of a former one."""
        return any(view.topic_ids.get(topic) == topic_id for view in self.ask_each([topic]))

    def ask_each(self, topics: Collection[str]) -> Iterator[ClusterView]:
        """What each server says of the topics that answers: the bootstrap servers, and brokers that `look_up` has
        found."""
        for server in with_servers_from(self._settings, 0, self._brokers).bootstrap_servers:
            alone = replace(self._settings, bootstrap_servers=(server,))
            with suppress(ClusterError, ProtocolError):
                yield self._epochs.sift(look_up(alone, topics, _SERVER_SECONDS_MAX))

    def span(self, where: TopicPartition) -> Span:
        """Where the log begins and ends, by the newest leader that any server knows. Raises ClusterError."""
        view = self.newest(where)
        return span_of(dial_named(self._settings, where, view), where, view)
