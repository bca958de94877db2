"""What the cluster says of the topics that are read: partitions, where their logs begin and end, offsets by time.

Made by `records.batch_reader` and `records.stream_reader` in the driver's processes.
"""

import logging
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.errors import ClusterError, ClusterUnreachable, ConfigError
from sparkmirror.kafka.admin import ALL_SECONDS_MAX, Admin
from sparkmirror.kafka.answers import EARLIEST, LATEST
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.connection import waits_within
from sparkmirror.kafka.errors import UNKNOWN_TOPIC_OR_PARTITION
from sparkmirror.kafka.log_offsets import LogOffsets
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.leader_search import LeaderSearch
from sparkmirror.kafka.wire.lookup import ClusterView, likely_id, look_up, with_servers_from
from sparkmirror.model import ANOTHER_ID_SECONDS, NO_TOPIC_ID, Topic, TopicPartition, is_another_topic
from sparkmirror.policy.java_regex import compile_java
from sparkmirror.records.offset_limits import AtOffsets, AtTimestamps, Everywhere, OffsetLimit
from sparkmirror.records.options import ALIAS, ReadOptions

log = logging.getLogger(__name__)

_APPEARS_SECONDS: Final = 2.0
"""A broker may report a topic this much later than another one."""
_PAUSE_SECONDS: Final = 0.1
_SHOWN_MAX: Final = 5
_CLEANUP: Final = "cleanup.policy"

Offsets = dict[TopicPartition, int]
T = TypeVar("T")
_AGREE_SECONDS: Final = 10.0
"""For which brokers may say different things of a topic before a read gives up. One that wakes up learns within a
second what it missed."""
_LOOKS: Final = 3
"""At topics that are deleted or made again meanwhile."""


class Edges(NamedTuple):
    """Where the logs of partitions begin, and up to where consumers may read them."""

    earliest: Offsets
    latest: Offsets


class DataLoss(ClusterError):
    """Records that the read was to have are gone, or may be."""


class PartitionsGone(ClusterError):
    """Partitions that were there a moment ago are not."""


def report_loss(what: str, *, is_fatal: bool) -> None:
    """The one place where losses are reported. Raises DataLoss unless the user wants to go on."""
    if is_fatal:
        raise DataLoss(
            f"{what} The read ends because records may be lost to it.",
            "With failOnDataLoss=false it goes on with what is there.",
        )
    log.warning("Records may be lost to a read of Kafka: %s", what)


def name_some(partitions: Iterable[TopicPartition]) -> str:
    """The first few, for a sentence."""
    names = [str(one) for one in sorted(partitions)]
    more = len(names) - _SHOWN_MAX
    return ", ".join(names[:_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")


class SourceLog:
    """Connects when it is first asked, and again after the cluster was away. For one thread."""

    def __init__(self, options: ReadOptions, clock: Clock = SYSTEM_CLOCK) -> None:
        self._options = options
        self._clock = clock
        self._admin: Admin | None = None
        self._compacted: dict[str, bool] = {}
        self.topic_ids: dict[str, UUID] = {}
        """As `partitions` has found them last."""
        self._cluster_id: str | None = None

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def _ask(self, question: Callable[[Admin], T]) -> T:
        try:
            return question(self._open())
        except ClusterUnreachable:
            self.close()  # addresses may have moved
            return question(self._open())

    def _open(self) -> Admin:
        if self._admin is None:
            self._admin = open_admin(self._options.cluster, "records")
        return self._admin

    def cluster_id(self) -> str:
        """Empty where brokers do not tell it."""
        if self._cluster_id is None:
            self._cluster_id = self._ask(Admin.cluster_id)
        return self._cluster_id

    def partitions(self, expected: Collection[TopicPartition] = ()) -> set[TopicPartition]:
        """Those that are there now. What is `expected` and missing is looked for a little longer."""
        return self._ask(lambda admin: self._find(admin, expected))

    def at_once(self, find: Callable[[Edges], T]) -> tuple[T, Edges]:
        """What `find` makes of the logs of all partitions, of one and the same topics. For what begins a read: which
        topics these are most of several brokers say, before and afterwards, and where their logs begin and end the
        newest leaders that these know. One broker may be cut off from the others, or have just woken up, and a topic
        may be made again between two questions. Raises as `all_partitions`, `earliest` and `find`."""
        for _ in range(_LOOKS):
            partitions = self.all_partitions()
            ids = dict(self.topic_ids)
            edges = Edges(self._newest(partitions, EARLIEST), self._newest(partitions, LATEST))
            found = find(edges)
            self.all_partitions()
            if all(self.topic_ids.get(one.topic) == ids.get(one.topic) for one in partitions):
                return found, edges
        raise ClusterUnreachable(
            f"Topics of cluster {ALIAS} are made again each time that it is asked where {name_some(partitions)} begin.",
            "Start the read again when the topics are there to stay.",
        )

    def _newest(self, partitions: Collection[TopicPartition], at: int) -> Offsets:
        committed = self._options.read_committed and at == LATEST
        wanted = dict.fromkeys(partitions, at)
        return self._ask(
            lambda admin: _all(admin.newest_offsets(wanted, ALL_SECONDS_MAX, read_committed=committed).all(), wanted)
        )

    def all_partitions(self) -> set[TopicPartition]:
        """As `partitions`, by what most of several brokers say. Raises ClusterError for a topic or partition that the
        options name and that is not there, ClusterUnreachable where the brokers do not agree for a while."""
        selection = self._options.topics
        expected = [*selection.partitions, *(TopicPartition(name, 0) for name in selection.names)]
        found = self._ask(lambda admin: self._find(admin, expected, is_agreed=True))
        if absent := set(selection.names) - {one.topic for one in found}:
            raise ClusterError(
                f"Cluster {ALIAS} has no topic {', '.join(sorted(absent))}, which subscribe names.",
                "Create it, or correct the name; a principal without DESCRIBE on a topic does not see it either.",
            )
        if missing := set(selection.partitions) - found:
            raise ClusterError(f"Cluster {ALIAS} has no partition {name_some(missing)}, which assign names.")
        return found

    def _agreed(self, admin: Admin, names: Collection[str] | None) -> dict[str, Topic]:
        """As `Admin.list_topics`, by what most of several brokers say."""
        ends_at = self._clock.monotonic() + _AGREE_SECONDS
        while True:
            found, doubtful = most_say(admin.shown_topics(names))
            doubtful = {name for name in doubtful if self._options.topics.takes_some_of(name)}
            if not doubtful:
                return found
            if not waits_within(admin.connection, _PAUSE_SECONDS, ends_at, self._clock):
                raise ClusterUnreachable(
                    f"Brokers of cluster {ALIAS} show different topics of the name {', '.join(sorted(doubtful))}.",
                    "One of them may be cut off from the others: start the read again when they agree.",
                )

    def _find(
        self, admin: Admin, expected: Collection[TopicPartition], *, is_agreed: bool = False
    ) -> set[TopicPartition]:
        selection = self._options.topics
        names = None if selection.pattern else {*selection.names, *(one.topic for one in selection.partitions)}
        pattern = compile_java(selection.pattern) if selection.pattern else None
        ends_at = self._clock.monotonic() + _APPEARS_SECONDS
        while True:
            topics = self._agreed(admin, names) if is_agreed else admin.list_topics(names)
            if pattern is not None:
                topics = {name: one for name, one in topics.items() if not one.internal and pattern.fullmatch(name)}
            self.topic_ids = {name: topic.topic_id for name, topic in topics.items()}
            found = {TopicPartition(name, at) for name, topic in topics.items() for at in range(topic.partitions)}
            if selection.partitions:
                found &= set(selection.partitions)
            if found.issuperset(expected) or not waits_within(admin.connection, _PAUSE_SECONDS, ends_at, self._clock):
                return found

    def gone(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Those that the cluster does not have, whatever the options name. Raises ClusterError."""
        return gone_partitions(self._options.settings, partitions, self._clock)

    def doubted(self, known: Mapping[str, UUID]) -> set[str]:
        """The topics that `partitions` has found with another id than the known one, though `ANOTHER_ID_SECONDS` later
        as many servers show that: the broker that was asked has just woken up, or is cut off from the others. For all
        that it found with another id, `topic_ids` has what most show. Raises ClusterError, ProtocolError."""
        others = {
            name: one for name, one in known.items() if is_another_topic(one, self.topic_ids.get(name, NO_TOPIC_ID))
        }
        if not others:
            return set()
        self._clock.sleep(ANOTHER_ID_SECONDS)
        views = self._views(others)
        found = {name: likely_id(views, name, [one]) for name, one in others.items()}
        self.topic_ids |= {name: one for name, one in found.items() if one != NO_TOPIC_ID}
        doubted = {name for name, one in others.items() if found[name] == one}
        if doubted:
            self.close()  # another broker may be asked next
        return doubted

    def shown(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Those among them that the options name and that any server shows. Raises ClusterError, ProtocolError."""
        wanted = {one for one in partitions if self._options.topics.takes(one)}
        views = self._views({one.topic for one in wanted}) if wanted else []
        return {one for one in wanted for view in views if one.partition < view.sizes.get(one.topic, 0)}

    def _views(self, topics: Collection[str]) -> list[ClusterView]:
        """What each server says of them."""
        search = LeaderSearch(self._options.settings)
        first = search.look_up(topics)
        return list(search.ask_each(topics)) or [first]

    def earliest(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Where the logs begin. Raises OffsetsUnknown, and PartitionsGone."""
        return self._ask(lambda admin: _all(admin.await_earliest_offsets(partitions), partitions))

    def latest(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Where consumers may read to, by the isolation level. Raises as `earliest`."""
        return self._ends(partitions, committed=self._options.read_committed)

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Where the logs end, open transactions included, by the newest leaders that several brokers know: the log of
        one that is cut off from the others ends early, and was not cut. Raises as `earliest`."""
        return self._ask(lambda admin: _all(admin.await_newest_ends(partitions), partitions))

    def _ends(self, partitions: Collection[TopicPartition], *, committed: bool) -> Offsets:
        return self._ask(
            lambda admin: _all(admin.await_latest_offsets(partitions, read_committed=committed), partitions)
        )

    def resolve(self, limit: OffsetLimit, earliest: Offsets, latest: Offsets) -> Offsets:
        """The limit as an offset of each partition. Raises ConfigError where it does not name each partition, and
        ClusterError where it asks for a record that is later than all there are."""
        match limit:
            case Everywhere(offset):
                return dict(earliest if offset == EARLIEST else latest)
            case AtOffsets(option, offsets):
                _check_named(option, offsets, latest)
                edges = {EARLIEST: earliest, LATEST: latest}
                return {where: edges[offset][where] if offset < 0 else offset for where, offset in offsets.items()}
            case AtTimestamps():
                return self._at_times(limit, latest)

    def _at_times(self, limit: AtTimestamps, latest: Offsets) -> Offsets:
        times = limit.times
        if limit.everywhere is not None:
            times = dict.fromkeys(latest, limit.everywhere)
        _check_named(limit.option, times, latest)
        committed = self._options.read_committed
        listed: LogOffsets = self._ask(
            lambda admin: admin.newest_offsets(times, ALL_SECONDS_MAX, read_committed=committed)
        )
        found = _all(listed.all(), times)
        late = [where for where, offset in found.items() if offset < 0]
        if late and not limit.or_latest:
            raise ClusterError(
                f"{limit.option}: {name_some(late)} has no record that is so late.",
                "With startingOffsetsByTimestampStrategy=latest such a partition is read from its end on.",
            )
        return found | {where: latest[where] for where in late}

    def compacted(self, topics: Iterable[str]) -> frozenset[str]:
        """The topics whose last offsets may have no records. One whose settings we may not read counts as another."""
        wanted = set(topics)
        if unknown := wanted - self._compacted.keys():
            settings = self._ask(lambda admin: admin.describe_configs(unknown, [_CLEANUP]))
            for name in unknown:
                entry = settings.get(name, {}).get(_CLEANUP)
                self._compacted[name] = entry is not None and "compact" in (entry.value or "")
        return frozenset(name for name in wanted if self._compacted[name])


def most_say(answers: Sequence[Mapping[str, Topic]]) -> tuple[dict[str, Topic], set[str]]:
    """The topics that more than half of the answers show, by the id that these have, and as large as any of them shows
    it; and the names of which there is no such majority, neither for a topic nor for none."""
    found: dict[str, Topic] = {}
    doubtful: set[str] = set()
    for name in {name for answer in answers for name in answer}:
        shown = [answer.get(name) for answer in answers]
        ids = Counter(None if topic is None else topic.topic_id for topic in shown)
        likely, count = ids.most_common(1)[0]
        if 2 * count <= len(answers):
            doubtful.add(name)
        elif likely is not None:
            same = (topic for topic in shown if topic is not None and topic.topic_id == likely)
            found[name] = max(same, key=lambda topic: topic.partitions)
    return found, doubtful


def _all(found: Mapping[TopicPartition, int], partitions: Collection[TopicPartition]) -> Offsets:
    if missing := set(partitions) - found.keys():
        raise PartitionsGone(f"Cluster {ALIAS} has no partition {name_some(missing)} any more: it was deleted.")
    return dict(found)


def gone_partitions(
    settings: ClientSettings, partitions: Collection[TopicPartition], clock: Clock = SYSTEM_CLOCK
) -> set[TopicPartition]:
    """Those that all servers say do not exist, each asked in its turn for a while: one that is cut off from the others
    does not know a new topic. One that we may not see is not gone. Raises ClusterError."""
    gone, ends_at = set(partitions), clock.monotonic() + _APPEARS_SECONDS
    known: set[tuple[str, int]] = set()
    turn = 0
    while True:
        servers = with_servers_from(settings, turn, sorted(known))
        view = look_up(servers, {one.topic for one in gone})
        known.update(view.brokers.values())
        unknown = {name for name, code in view.errors.items() if code == UNKNOWN_TOPIC_OR_PARTITION}
        gone = {one for one in gone if one.topic in unknown or one.partition >= view.sizes.get(one.topic, sys.maxsize)}
        if not gone or (clock.monotonic() > ends_at and turn >= len(servers.bootstrap_servers)):
            return gone
        turn += 1
        clock.sleep(_PAUSE_SECONDS)


def _check_named(option: str, named: Mapping[TopicPartition, int], wanted: Collection[TopicPartition]) -> None:
    if missing := set(wanted) - named.keys():
        raise ConfigError(f"{option} does not say where {name_some(missing)} is to be read.", "Name each partition.")
    if others := named.keys() - set(wanted):
        raise ConfigError(f"{option} names {name_some(others)}, which is not read.")
