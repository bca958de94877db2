"""One transaction at a time of one transactional id, for a caller that blocks: records, an offset of a group, the end.

It speaks the first protocol (KIP-98), which all brokers take, also those that have finalized `transaction.version` 2.
Called by `records.task_transaction`, in Spark's workers.
"""

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

from sparkmirror.errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    ClusterError,
    ClusterUnreachable,
    ProtocolError,
    SparkMirrorError,
)
from sparkmirror.kafka.coordinators import GROUP, TRANSACTION
from sparkmirror.kafka.errors import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_PASSING,
    NO_ERROR,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
    refusal,
)
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.kafka.former_controller import make_look_for_controller
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.coordinator import (
    AddPartitions,
    Answer,
    Describe,
    EndTransaction,
    Initialize,
    Question,
    find,
)
from sparkmirror.kafka.wire.link import Link
from sparkmirror.kafka.wire.lookup import with_servers_from
from sparkmirror.model import TopicPartition

T = TypeVar("T")

_OFFSET_FETCH: Final = (9, (8, 9))
_ADD_OFFSETS: Final = (25, (3, 3))
_COMMIT_OFFSETS: Final = (28, (3, 3))
"""Keys of the requests, and the versions of the first protocol that have the fields used here."""
_UNSTABLE_OFFSET_COMMIT: Final = 88
_ENDING: Final = frozenset({CONCURRENT_TRANSACTIONS, _UNSTABLE_OFFSET_COMMIT})
"""A transaction before is being ended: the same coordinator is asked again."""
_MOVING: Final = COORDINATOR_PASSING | {7, 13, 19, 20, 56}
"""The coordinator is looked up again. REQUEST_TIMED_OUT, NETWORK_EXCEPTION, NOT_ENOUGH_REPLICAS,
NOT_ENOUGH_REPLICAS_AFTER_APPEND, KAFKA_STORAGE_ERROR: what it had to write, or to ask, failed for now."""
_APPEARS_SECONDS: Final = 5.0
"""A broker may not know a new topic for so long."""
_NOT_ATTEMPTED: Final = 55
"""Said of a partition where another one is refused."""
_ID_NOT_FOUND: Final = 105
_INVALID_TIMEOUT: Final = 50
_LOST: Final = frozenset({47, 48, 49, 90})
"""INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED."""
_NEW: Final = ProducerIdentity(-1, -1)
_COMMITTED: Final = "CompleteCommit"
_DECISIONS: Final = {
    "PrepareCommit": True,
    _COMMITTED: True,
    "Ongoing": False,
    "PrepareEpochFence": False,
    "PrepareAbort": False,
    "CompleteAbort": False,
}
"""By the state of the transaction before `begin`: whether it is committed. Of an empty one nobody knows."""
_SOCKET_SECONDS_MIN: Final = 1.0
_MARKER_SECONDS_MAX: Final = 5.0
"""So long after its transaction has ended an offset of a group may be pending without its marker being left out."""
_PAUSE_SECONDS: Final = 0.05
_PAUSE_SECONDS_MAX: Final = 1.0


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """An offset of a group, as it is committed within a transaction."""

    where: TopicPartition
    offset: int
    metadata: str


Offsets = dict[TopicPartition, GroupOffset]


class Transaction:
    """Of the holder of `transactional_id`, from `begin` to `commit`; to `begin` again aborts it. Each request is tried
    again for `seconds_max` while its coordinator is away or loads; what got no answer is asked again, since
    coordinators know a question that they have answered. All methods raise ClusterError.

    `is_clean` says that the last transaction before `begin` was committed, or that there was none: no aborted one may
    lie open in a partition whose marker was left out."""

    def __init__(self, settings: ClientSettings, transactional_id: str, timeout_ms: int, seconds_max: float) -> None:
        self.transactional_id = transactional_id
        self.identity = _NEW
        self.is_clean = False
        self._settings = settings
        self._timeout_ms = timeout_ms
        self._seconds_max = seconds_max
        self._links: dict[int, Link] = {}
        self._added: set[TopicPartition] = set()
        self._was_committed: bool | None = None
        self._turn = 0
        self._brokers: tuple[tuple[str, int], ...] = ()

    def close(self) -> None:
        for link in self._links.values():
            link.close()
        self._links = {}

    def know_brokers(self, brokers: Iterable[tuple[str, int]]) -> None:
        """Coordinators are looked for there too: the bootstrap servers may be away."""
        self._brokers = tuple(brokers)

    @property
    def is_begun(self) -> bool:
        """Whether records may be in it."""
        return bool(self._added)

    def begin(self, seconds_max: float | None = None) -> None:
        """Fences the holder before, and waits until the transaction that it had begun is ended. What this one had begun
        is aborted, and no record of it that is still on its way is taken."""
        question = Initialize(self.transactional_id, self._timeout_ms, _NEW)
        self._was_committed = None

        def ask(link: Link) -> tuple[int, ProducerIdentity | None]:
            before = self._described(link)
            if before.error not in (NO_ERROR, _ID_NOT_FOUND):
                return before.error, None
            answer = question.decode(link, link.exchange(question.encode(link)))
            self.is_clean = before.error == _ID_NOT_FOUND or before.state == _COMMITTED
            self._was_committed = _DECISIONS.get(before.state, self._was_committed)
            if answer.error == UNKNOWN_SERVER_ERROR:
                make_look_for_controller(link)
            return answer.error, answer.identity

        doing = f"beginning transactions of {self.transactional_id}"
        identity = self._ask(TRANSACTION, self.transactional_id, doing, ask, seconds_max, UNKNOWN_SERVER_ERROR)
        if identity is None:
            raise ProtocolError(f"The coordinator of {self.transactional_id} gave no producer id.")
        self.identity, self._added = identity, set()

    def abort(self, seconds_max: float) -> None:
        """As to `begin` again; does nothing where another one has begun since, which that would fence."""
        if self._describe(seconds_max).identity == self.identity:
            self.begin(seconds_max)

    def is_known(self) -> bool:
        """Whether the id was used before."""
        return self._describe(None).error != _ID_NOT_FOUND

    def _describe(self, seconds_max: float | None) -> Answer:
        def ask(link: Link) -> tuple[int, Answer]:
            answer = self._described(link)
            return NO_ERROR if answer.error == _ID_NOT_FOUND else answer.error, answer

        return self._ask(TRANSACTION, self.transactional_id, f"describing {self.transactional_id}", ask, seconds_max)

    def _described(self, link: Link) -> Answer:
        question = Describe(self.transactional_id)
        return question.decode(link, link.exchange(question.encode(link)))

    @property
    def why_lost(self) -> str:
        """What a person may do where another one has the id, or the brokers have ended the transaction."""
        return (
            f"Another task or program has begun with the id {self.transactional_id}, or its transaction lasted longer "
            f"than kafka.transaction.timeout.ms = {self._timeout_ms}: raise it."
        )

    def add(self, partitions: Collection[TopicPartition]) -> None:
        """Before the first records go there."""
        if new := tuple(sorted(set(partitions) - self._added)):
            doing = f"adding {', '.join(map(str, new[:3]))} to the transaction of {self.transactional_id}"
            self._decide(AddPartitions(self.transactional_id, self.identity, new), doing)
            self._added |= set(new)

    def commit_offset(self, group: str, offset: GroupOffset, *, of_all: bool = False) -> Offsets:
        """It counts when the transaction is committed. Returns the offset of the group there that counts until then, or
        with `of_all` all of its offsets. No broker says that which has the group no longer and does not know it, as
        `committed` may: it could not have taken the new one."""
        self._add_group(group)
        take = _plain(self._offset_request(group, offset), TxnOffsetCommitResponse, _COMMIT_OFFSETS, _code_of_offsets)
        read = _plain(_fetch(group, None if of_all else offset.where, is_stable=False), *_FETCH)

        def ask(link: Link) -> tuple[int, Any]:
            code, answer = take(link)
            return (code, answer) if code else read(link)

        doing = f"committing an offset of group {group} in the transaction of {self.transactional_id}"
        return _offsets(self._ask(GROUP, group, doing, ask))

    def _add_group(self, group: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            group_id=group,
        )
        doing = f"adding group {group} to the transaction of {self.transactional_id}"
        self._ask(TRANSACTION, self.transactional_id, doing, _plain(request, AddOffsetsToTxnResponse, _ADD_OFFSETS))

    def commit(self) -> bool:
        """Returns whether it is certain that each partition gets its marker: the first answer said that it is decided,
        and no coordinator had to take it over."""
        return self._end(commits=True) == 1

    def end_left_open(self, partitions: Collection[TopicPartition], *, commits: bool) -> None:
        """By a transaction without records, before this one begins: what earlier ones have left open there."""
        self.add(partitions)
        self._end(commits=commits)

    def _end(self, *, commits: bool) -> int:
        """How often it was asked for."""
        question = EndTransaction(self.transactional_id, self.identity, second_protocol=False, commits=commits)
        doing = f"{'committing' if commits else 'aborting'} the transaction of {self.transactional_id}"
        times = self._decide(question, doing)
        self._added, self._was_committed = set(), commits
        return times

    def committed(self, group: str, where: TopicPartition | None = None) -> Offsets:
        """The offset of a group there, once no transaction with it is open; or all of its offsets. What the last
        transaction of the id has left open, for want of its marker, is ended."""
        fetch = _plain(_fetch(group, where, is_stable=True), *_FETCH)
        end_at = time.monotonic() + _MARKER_SECONDS_MAX

        def ask(link: Link) -> tuple[int, Any]:
            code, answer = fetch(link)
            if code == _UNSTABLE_OFFSET_COMMIT and self._was_committed is not None and time.monotonic() > end_at:
                self._add_group(group)
                self._end(commits=self._was_committed)
                self.is_clean = False
            return code, answer

        return _offsets(self._ask(GROUP, group, f"reading the offsets of group {group}", ask))

    def _offset_request(self, group: str, offset: GroupOffset) -> Any:
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        one = topic.TxnOffsetCommitRequestPartition(
            partition_index=offset.where.partition,
            committed_offset=offset.offset,
            committed_leader_epoch=-1,
            committed_metadata=offset.metadata,
        )
        return TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            generation_id=-1,
            member_id="",
            group_instance_id=None,
            topics=[topic(name=offset.where.topic, partitions=[one])],
        )

    def _decide(self, question: Question, doing: str) -> int:
        """How often it was asked."""
        times = 0

        def ask(link: Link) -> tuple[int, int]:
            nonlocal times
            times += 1
            answer = question.decode(link, link.exchange(question.encode(link)))
            refused = sorted(answer.refused.values(), key=lambda code: code == _NOT_ATTEMPTED)
            return answer.error or (refused[0] if refused else NO_ERROR), times

        return self._ask(TRANSACTION, self.transactional_id, doing, ask)

    def _ask(
        self,
        kind: int,
        key: str,
        doing: str,
        ask: Callable[[Link], tuple[int, T]],
        seconds_max: float | None = None,
        *passing: int,
    ) -> T:
        """What the coordinator of `key` answers: an error code, and what it means. Raises ClusterError; with a code of
        `passing` it is asked again, too."""
        pause, began_at = _PAUSE_SECONDS, time.monotonic()
        ends_at, appears_at = began_at + (seconds_max or self._seconds_max), began_at + _APPEARS_SECONDS
        while True:
            try:
                link = self._links[kind] = self._links.get(kind) or self._dial(key, kind)
                self._limit(link, ends_at - time.monotonic())
                code, answer = ask(link)
            except (AuthenticationFailed, AuthorizationFailed):
                raise
            except (OSError, ProtocolError, ClusterError) as problem:
                self._hang_up(kind)
                if time.monotonic() + pause > ends_at:
                    raise self._silent(doing, problem) from None
            else:
                if code == NO_ERROR:
                    return answer
                is_new = code == UNKNOWN_TOPIC_OR_PARTITION and time.monotonic() < appears_at
                if not (code in (*_ENDING, *_MOVING, *passing) or is_new) or time.monotonic() + pause > ends_at:
                    raise self._refusal(code, doing)
                if code in _MOVING:
                    self._hang_up(kind)
            time.sleep(pause)
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)

    def _dial(self, key: str, kind: int) -> Link:
        """By the word of another server each time: one that is cut off from the others says what it knew."""
        turn, self._turn = self._turn, self._turn + 1
        return find(with_servers_from(self._settings, turn, self._brokers), key, kind)

    def _limit(self, link: Link, seconds: float) -> None:
        link.socket.settimeout(max(_SOCKET_SECONDS_MIN, min(self._settings.request_timeout_seconds, seconds)))

    def _refusal(self, code: int, doing: str) -> SparkMirrorError:
        problem = refusal(code, self._settings.alias, doing)
        if code in _LOST:
            return ClusterError(str(problem.args[0]), self.why_lost)
        if code == _INVALID_TIMEOUT:
            hint = "The brokers' transaction.max.timeout.ms is smaller than transaction.timeout.ms."
            return ClusterError(str(problem.args[0]), hint)
        if code in _ENDING:
            hint = (
                f"The transaction before of {self.transactional_id} is not ended: a partition that it wrote to has no "
                "leader, or too few replicas in sync: `kafka-transactions.sh find-hanging` names it. If all have, its "
                "coordinator may have forgotten it, before Kafka 3.8 (KAFKA-16352): start that broker again."
            )
            return ClusterError(str(problem.args[0]), hint)
        return problem

    def _silent(self, doing: str, problem: Exception) -> ClusterError:
        why = str(problem.args[0] if problem.args else problem).rstrip(".")
        return ClusterUnreachable(f"Cluster {self._settings.alias} did not answer while {doing}: {why}.")

    def _hang_up(self, kind: int) -> None:
        if (link := self._links.pop(kind, None)) is not None:
            link.close()


def _fetch(group: str, where: TopicPartition | None, *, is_stable: bool) -> Any:
    wanted = OffsetFetchRequest.OffsetFetchRequestGroup
    topic = wanted.OffsetFetchRequestTopics
    topics = None if where is None else [topic(name=where.topic, partition_indexes=[where.partition])]
    groups = [wanted(group_id=group, topics=topics)]
    return OffsetFetchRequest(group_id=group, topics=None, groups=groups, require_stable=is_stable)


def _offsets(answer: Any) -> Offsets:
    found = [
        GroupOffset(TopicPartition(topic.name, one.partition_index), one.committed_offset, one.metadata or "")
        for topic in answer.groups[0].topics
        for one in topic.partitions
        if one.committed_offset >= 0
    ]
    return {one.where: one for one in found}


def _plain(
    request: Any, response_class: Any, api: tuple[int, tuple[int, int]], code_of: Callable[[Any], int] | None = None
) -> Callable[[Link], tuple[int, Any]]:
    """Asks by kafka-python's classes."""

    def ask(link: Link) -> tuple[int, Any]:
        answer = link.ask(request, response_class, link.version(*api))
        return int(answer.error_code if code_of is None else code_of(answer)), answer

    return ask


def _code_of_offsets(answer: Any) -> int:
    codes = [one.error_code for topic in answer.topics for one in topic.partitions]
    return max(codes, key=abs, default=NO_ERROR)


def _code_of_groups(answer: Any) -> int:
    group = answer.groups[0]
    codes = [one.error_code for topic in group.topics for one in topic.partitions]
    return int(group.error_code or max(codes, key=abs, default=NO_ERROR))


_FETCH: Final = (OffsetFetchResponse, _OFFSET_FETCH, _code_of_groups)
