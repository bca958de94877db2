"""The partitions that a task reads, with the position in each. No I/O; owned by `pipeline.fetch.reader`.

The positions to ask of each broker are updated partition by partition as they change: a task may have thousands of
partitions, of which few change at a time.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from sparkmirror.control.assignment import Assigned
from sparkmirror.kafka.wire.data_requests import FetchPosition
from sparkmirror.ledger.lineage import Lineage
from sparkmirror.model import NO_EPOCH, NO_TOPIC_ID, TopicPartition
from sparkmirror.pipeline.fetch.absences import Absences
from sparkmirror.pipeline.fetch.fetch_session import PartitionKey
from sparkmirror.pipeline.fetch.loss import Loss
from sparkmirror.pipeline.relay.ring import slot_count

if TYPE_CHECKING:
    from sparkmirror.pipeline.fetch.throttle import Bucket

_ASKED: Final = frozenset(
    {"lineage", "offset", "end", "node", "current_epoch", "held_by_writer", "held_by_order", "not_before", "is_chased",
     "buckets"}
)  # fmt: skip
"""The fields that decide whether a partition is fetched, from which broker and from which offset."""
_set_field: Final = object.__setattr__
NO_SLOT: Final = -1
"""The slot of a partition that has none on the control page."""
_NOWHERE: Final = (-1, None, None)
_new_tuple = tuple.__new__


@dataclass(slots=True, eq=False)
class PartitionFetchState:
    """One partition being read. `offset` is the next to fetch, of the log that `lineage` tells; `slot` its place on the
    control page, or NO_SLOT; `losses` are all that have turned the log since the task took the partition on; `other_id`
    is one that the topic was shown with, and when, which is not believed yet (`pipeline.fetch.topic_ids`);
    `is_end_told` says that the writer has heard where the log ends.

    `node` is the broker to fetch from, None while it is unknown, and `current_epoch` the leader epoch by which it was
    found, of this topic id; `is_nearer` says that it is not the leader, which alone knows where the log ends;
    `doubts` counts how often it did not know our epoch; `not_before` is a monotonic time until which the partition
    rests after an error. `readable` is the end of what readers may read, as the last answer said; `bytes_per_offset`
    and `batch_bytes` are means of what came lately. While `is_chased`, `pipeline.fetch.read_ahead_connections` reads
    it, and no fetch session does. It enters itself in `changed` when something about asking for it changes, and in
    `unasked` where that is the offset alone.
    """

    changed: "dict[PartitionFetchState, None]" = field(default_factory=dict, kw_only=True, repr=False)
    unasked: "dict[PartitionFetchState, None]" = field(default_factory=dict, kw_only=True, repr=False)
    partition: TopicPartition
    lineage: Lineage
    offset: int
    end: int | None
    slot: int
    node: int | None = None
    current_epoch: int = NO_EPOCH
    is_nearer: bool = False
    doubts: int = 0
    losses: tuple[Loss, ...] = ()
    other_id: tuple[UUID, float] | None = None
    is_end_told: bool = False
    held_by_writer: bool = False
    held_by_order: bool = False
    not_before: float = 0.0
    fault: str = ""
    readable: int = 0
    bytes_per_offset: float = 0.0
    batch_bytes: float = 0.0
    is_chased: bool = False
    buckets: "tuple[Bucket, ...]" = ()

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name in _ASKED:
            self.changed[self] = None

    def advance(self, offset: int) -> None:
        """All before `offset` has come. What has no end is not done by that: only where to ask changes."""
        if self.end is None:
            _set_field(self, "offset", offset)
            self.unasked[self] = None
        else:
            self.offset = offset

    @property
    def is_followed(self) -> bool:
        """Whether it is read without end and limits, and nothing unusual was said of it lately."""
        return self.end is None and self.is_end_told and not (self.fault or self.doubts or self.buckets)

    def follow(self, offset: int, readable: int, batches: int, size: int) -> None:
        """All before `offset` has come, in so many batches: `advance` and `measure` of what `is_followed`."""
        offsets = offset - self.offset
        _set_field(self, "bytes_per_offset", 0.5 * (self.bytes_per_offset + size / offsets))
        _set_field(self, "batch_bytes", 0.5 * (self.batch_bytes + size / batches))
        _set_field(self, "readable", readable)
        _set_field(self, "offset", offset)
        self.unasked[self] = None

    @property
    def topic_id(self) -> UUID:
        return self.lineage.topic_id

    @property
    def leader_epoch(self) -> int:
        return self.lineage.leader_epoch

    @property
    def newest_epoch(self) -> int:
        """The newest leader epoch seen, by a look-up or in the log: a leader of an earlier one was replaced."""
        return max(self.current_epoch, self.lineage.leader_epoch)

    @property
    def stop(self) -> int:
        """The offset up to which there are records to read, as far as is known."""
        return self.readable if self.end is None else min(self.readable, self.end)

    @property
    def paused(self) -> bool:
        """Whether it must not be fetched: its target does not accept records, or the operator paused it."""
        return self.held_by_writer or self.held_by_order

    def may_read(self, now: float) -> bool:
        """Whether it is neither done nor paused, resting or held back by a rate limit."""
        if self.paused or self.done or self.not_before > now:
            return False
        return not any(bucket.seconds_until_ready(now) for bucket in self.buckets)

    def grain_bytes(self, otherwise: int) -> int:
        """The bytes that one fetch may ask for under its rate limits."""
        return min((bucket.grain_bytes for bucket in self.buckets), default=otherwise)

    def spend(self, size: int) -> None:
        for bucket in self.buckets:
            bucket.spend(size)

    def measure(self, offsets: int, batches: int, size: int) -> None:
        """Update the mean sizes by a run; the newest run counts half."""
        if offsets and batches:
            weight = 0.5 if self.batch_bytes else 1.0
            by_offset, by_batch = self.bytes_per_offset, self.batch_bytes
            _set_field(self, "bytes_per_offset", by_offset + weight * (size / offsets - by_offset))
            _set_field(self, "batch_bytes", by_batch + weight * (size / batches - by_batch))

    @property
    def done(self) -> bool:
        return self.end is not None and self.offset >= self.end

    def key(self, by_id: bool) -> PartitionKey:
        return (self.topic_id.bytes if by_id else self.partition.topic, self.partition.partition)


class _Home:
    """One broker's partitions by key, the positions to ask for, and the keys whose positions have changed."""

    def __init__(self, *, by_id: bool) -> None:
        self.by_id = by_id
        self.fetch_states: dict[PartitionKey, PartitionFetchState] = {}
        self.wanted: dict[PartitionKey, FetchPosition] = {}
        self.changed: set[PartitionKey] = set()

    def put(self, key: PartitionKey, fetch_state: PartitionFetchState) -> None:
        self.fetch_states[key] = fetch_state

    def ask(self, key: PartitionKey, position: FetchPosition | None) -> None:
        if position is None:
            self._forget(key)
        elif self.wanted.get(key) != position:
            self.wanted[key] = position
            self.changed.add(key)

    def drop(self, key: PartitionKey, fetch_state: PartitionFetchState) -> None:
        """Does nothing if the key belongs to another partition by now."""
        if self.fetch_states.get(key) is fetch_state:
            del self.fetch_states[key]
            self._forget(key)

    def _forget(self, key: PartitionKey) -> None:
        if self.wanted.pop(key, None) is not None:
            self.changed.add(key)


class Partitions:
    """All partitions of the task, found by name, by slot, and by broker."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._fetch_states: dict[TopicPartition, PartitionFetchState] = {}
        self._slots: list[PartitionFetchState | None] = []
        self._changed: dict[PartitionFetchState, None] = {}
        self._unasked: dict[PartitionFetchState, None] = {}  # known to its broker, and its position not updated since
        self._timed: dict[PartitionFetchState, None] = {}  # whether it may be fetched depends on the clock
        self._lost: dict[PartitionFetchState, None] = {}
        self._nodes: Counter[int] = Counter()
        self._homes: dict[int, _Home] = {}
        self._absences = Absences()
        self._places: dict[PartitionFetchState, tuple[int, _Home | None, PartitionKey]] = {}

    def __iter__(self) -> Iterator[PartitionFetchState]:
        return iter(self._fetch_states.values())

    def __len__(self) -> int:
        return len(self._fetch_states)

    def get(self, partition: TopicPartition) -> PartitionFetchState | None:
        return self._fetch_states.get(partition)

    def add(self, assigned: Assigned, node: int | None) -> PartitionFetchState:
        slot = NO_SLOT
        if len(self._slots) < slot_count():
            slot = len(self._slots)
            self._slots.append(None)
        position = assigned.stands_at
        fetch_state = PartitionFetchState(
            assigned.partition,
            Lineage.of(position),
            position.offset,
            assigned.end,
            slot,
            node=node,
            changed=self._changed,
            unasked=self._unasked,
        )
        self._fetch_states[assigned.partition] = fetch_state
        if slot >= 0:
            self._slots[slot] = fetch_state
        return fetch_state

    def remove(self, partition: TopicPartition) -> PartitionFetchState | None:
        fetch_state = self._fetch_states.pop(partition, None)
        if fetch_state is not None:
            self._changed[fetch_state] = None
            if fetch_state.slot >= 0:
                self._slots[fetch_state.slot] = None
        return fetch_state

    @property
    def slots(self) -> range:
        return range(len(self._slots))

    def in_slot(self, slot: int) -> PartitionFetchState | None:
        return self._slots[slot]

    @property
    def nodes(self) -> Set[int]:
        """The brokers that lead a partition of this task."""
        self._file_changed()
        return self._nodes.keys()

    def wanted(self, node: int, *, by_id: bool, now: float) -> Mapping[PartitionKey, FetchPosition]:
        """The positions to ask for at one broker."""
        home = self._home(node, by_id=by_id)
        self._file_changed()
        unasked = [*self._unasked, *self._timed] if self._timed else list(self._unasked)
        self._unasked.clear()
        for fetch_state in unasked:
            if not self._ask_further(fetch_state, now):
                self._ask(fetch_state, now)
        return home.wanted

    def take_changes(self, node: int) -> Set[PartitionKey]:
        """The keys for which `wanted` has changed since the last call."""
        home = self._homes[node]
        changed, home.changed = home.changed, set()
        return changed

    def by_key(self, node: int, *, by_id: bool) -> Mapping[PartitionKey, PartitionFetchState]:
        home = self._home(node, by_id=by_id)
        self._file_changed()
        return home.fetch_states

    def asked_of(self, node: int) -> Mapping[PartitionKey, PartitionFetchState] | None:
        """The partitions of a broker; None where a change of what is asked of it is not sent yet, or time may bring
        one."""
        self._file_changed()
        home = self._homes.get(node)
        if home is None or home.changed or self.await_time or any(one.node == node for one in self._unasked):
            return None
        return home.fetch_states

    def leaderless(self, now: float) -> list[PartitionFetchState]:
        """The partitions whose leader must be looked up."""
        self._file_changed()
        return [fetch_state for fetch_state in self._lost if not fetch_state.paused and fetch_state.not_before <= now]

    @property
    def await_time(self) -> bool:
        """Whether time alone may change what is to be asked: rests, rate limits, leaders to be looked up again."""
        return bool(self._timed or self._lost)

    def all_done(self) -> bool:
        return all(fetch_state.done for fetch_state in self._fetch_states.values())

    # Kept up to date with each partition's state.

    def _home(self, node: int, *, by_id: bool) -> _Home:
        home = self._homes.get(node)
        if home is None or home.by_id != by_id:
            home = self._homes[node] = _Home(by_id=by_id)
            self._changed |= dict.fromkeys(fetch_state for fetch_state in self if fetch_state.node == node)
        return home

    def _file_changed(self) -> None:
        if not self._changed:
            return
        changed = list(self._changed)
        self._changed.clear()
        for fetch_state in changed:
            self._file(fetch_state)

    def _file(self, fetch_state: PartitionFetchState) -> None:
        is_read = self._fetch_states.get(fetch_state.partition) is fetch_state
        node = fetch_state.node if is_read else None
        home = self._homes.get(node) if node is not None else None
        key = fetch_state.key(home is None or home.by_id)
        before = self._places.pop(fetch_state, None)
        if before is not None:
            self._leave(fetch_state, *before, still=(home, key))
        if node is not None:
            self._places[fetch_state] = (node, home, key)
            self._nodes[node] += 1
            if home is not None:
                home.put(key, fetch_state)
        if node is None:
            self._absences.forget(fetch_state)
        is_lost = node is None or fetch_state.topic_id == NO_TOPIC_ID
        _enter(self._lost, fetch_state, is_read and is_lost and not fetch_state.done)
        _enter(self._unasked, fetch_state, is_read)
        self._timed.pop(fetch_state, None)

    def _leave(
        self,
        fetch_state: PartitionFetchState,
        node: int,
        home: _Home | None,
        key: PartitionKey,
        still: tuple[_Home | None, PartitionKey],
    ) -> None:
        self._nodes[node] -= 1
        if not self._nodes[node]:
            del self._nodes[node]
        if home is not None and (home, key) != still:
            home.drop(key, fetch_state)

    def _ask_further(self, fetch_state: PartitionFetchState, now: float) -> bool:
        """As `_ask` for a partition that is read without end and limits and asked for already, of which the offset
        alone has changed; else False."""
        _, home, key = self._places.get(fetch_state, _NOWHERE)
        if home is None or key not in home.wanted or fetch_state.not_before > now or fetch_state.buckets:
            return False
        if fetch_state.end is not None or fetch_state.held_by_writer or fetch_state.held_by_order:
            return False
        if not fetch_state.is_end_told or fetch_state.is_chased or fetch_state in self._timed:
            return False
        epochs = fetch_state.lineage.epochs
        last_epoch = epochs[-1][0] if epochs else NO_EPOCH
        asked = (*key, fetch_state.offset, last_epoch, self._bytes_max, fetch_state.current_epoch)
        home.wanted[key] = _new_tuple(FetchPosition, asked)
        home.changed.add(key)
        return True

    def _ask(self, fetch_state: PartitionFetchState, now: float) -> None:
        _, home, key = self._places.get(fetch_state, (-1, None, None))
        if home is not None and key is not None:
            position = self._position(fetch_state, key, home, now)
            is_fetched = position is not None or fetch_state.is_chased
            if not home.by_id and self._absences.is_back(fetch_state, is_fetched=is_fetched, now=now):
                fetch_state.node = position = None
            home.ask(key, position)
            may_change = fetch_state.not_before > now or bool(fetch_state.buckets)
            _enter(self._timed, fetch_state, may_change and not fetch_state.done)

    def _position(
        self, fetch_state: PartitionFetchState, key: PartitionKey, home: _Home, now: float
    ) -> FetchPosition | None:
        is_unnamed = home.by_id and fetch_state.topic_id == NO_TOPIC_ID
        if fetch_state.is_chased or is_unnamed or not fetch_state.may_read(now):
            return None
        bytes_max = min(self._bytes_max, fetch_state.grain_bytes(self._bytes_max))
        last_epoch, current_epoch = fetch_state.leader_epoch, fetch_state.current_epoch
        return FetchPosition(*key, fetch_state.offset, last_epoch, bytes_max, current_epoch)


def _enter(those: dict[PartitionFetchState, None], fetch_state: PartitionFetchState, belongs: bool) -> None:
    if belongs:
        those[fetch_state] = None
    else:
        those.pop(fetch_state, None)
