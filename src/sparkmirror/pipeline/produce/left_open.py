"""What transactions that have ended may have left open in partitions of the target, and how it is ended.

If a partition has no leader when a transaction ends, brokers (4.3 was looked at) take it for deleted and leave its
marker out. The records stay open there until the next marker of the same producer: a commit would commit those of an
aborted transaction, an abort would abort those of a committed one, whose position is stored. So nothing goes to a
partition before its leader has said that no transaction of this producer is open: when the task first writes there,
when its leader was in doubt since, and when a transaction with it was aborted. What lies open is ended by an empty
transaction. That one is committed where what lies open was, by the partition's `CommittedEnd`; where nobody knows, too:
its records may then come twice, and none is lost. Nothing here waits; owned by `pipeline.produce.transaction`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from sparkmirror.kafka.wire.open_transactions import Looked
from sparkmirror.ledger.committed_end import CommittedEnd, Verdict, judge
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.buffer import PartitionBuffer

_PAUSE_SECONDS: Final = 0.3
_LOTS_MAX: Final = 2
"""Of one partition in a row: an aborted transaction takes one where nothing lies open."""
_NEVER: Final = float("inf")
_TOPIC_AUTHORIZATION_FAILED: Final = 29
_NOT_THERE: Final = frozenset({3, 17})  # UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION


class LeftOpen:
    """The partitions that one transactional id of a task writes to. `wanted` are those for which records wait until an
    empty transaction has ended what lies open, with whether it is to be committed."""

    def __init__(self) -> None:
        self._clean: set[TopicPartition] = set()
        self._aborted: set[TopicPartition] = set()
        self._to_look: dict[TopicPartition, PartitionBuffer] = {}
        self._asked: dict[TopicPartition, PartitionBuffer] = {}
        self._look_at = 0.0
        self._since: dict[TopicPartition, float] = {}
        self._unseen: set[TopicPartition] = set()
        self.wanted: dict[TopicPartition, bool] = {}
        self.lot: tuple[TopicPartition, ...] = ()
        self._lots: Counter[TopicPartition] = Counter()

    def is_clean(self, where: TopicPartition) -> bool:
        return where in self._clean

    def note(self, buffers: Iterable[PartitionBuffer]) -> None:
        """The transaction with records of these buffers is aborted, or was none of which a decision could be carried
        out. The ledger's records come with the next one, newer."""
        aborted = {buffer.target for buffer in buffers if not buffer.is_ledger}
        self._aborted |= aborted
        self._clean -= aborted
        for where in aborted:
            self._since.pop(where, None)
            del self._lots[where]
        self.wanted.clear()
        self.lot = ()

    def doubt(self, partitions: Iterable[TopicPartition]) -> None:
        """Their leaders were away, or have changed: a marker may have been left out."""
        self._clean.difference_update(partitions)

    def hold_back(self, buffer: PartitionBuffer) -> None:
        """A record for this buffer's partition, which is not clean, waits for it."""
        if buffer.target not in self.wanted and buffer.target not in self._asked:
            self._to_look[buffer.target] = buffer
            if buffer.target not in self._since:  # a pause is for those that no leader answers for
                self._look_at = 0.0

    # Looking.

    @property
    def look_at(self) -> float:
        """When the leaders are to be asked; inf if they need not."""
        return self._look_at if self._to_look and not self._asked else _NEVER

    def begin_look(self, now: float) -> Collection[TopicPartition]:
        """Those that are to be asked about, by one question."""
        self._asked, self._to_look = self._to_look, {}
        for where in self._asked:
            self._since.setdefault(where, now)
        return self._asked.keys()

    def take(self, looked: Looked, epoch: int, now: float) -> dict[TopicPartition, Verdict]:
        """Take what the leaders say, of the holder of `epoch`. Returns what is worth a word: partitions of which nobody
        knows what lies open there."""
        asked, self._asked = self._asked, {}
        said: dict[TopicPartition, Verdict] = {}
        for where, buffer in asked.items():
            if where in looked.refused:
                verdict = Verdict.UNKNOWN
                self._unseen.add(where)
            elif where in looked.open:
                self._unseen.discard(where)
                verdict = judge(looked.open[where], looked.producer_id, buffer.committed_end)
            else:
                self._look_at = now + _PAUSE_SECONDS
                self._to_look[where] = buffer
                continue
            self._decide(where, verdict, now)
            if verdict is Verdict.UNKNOWN:
                said[where] = verdict
            elif where in self._clean:
                _settle(buffer, CommittedEnd(looked.producer_id, epoch, 0))
        return said

    def _decide(self, where: TopicPartition, verdict: Verdict, now: float) -> None:
        """Where an aborted transaction was, a batch of it may still arrive: a newer epoch's marker forbids it. What
        several empty transactions have not ended, as by the word of a broker that leads no more, is looked at again
        after a pause."""
        if verdict is Verdict.CLEAN and where not in self._aborted:
            self._note_clean(where)
            return
        self.wanted[where] = verdict in (Verdict.COMMITTED, Verdict.UNKNOWN)
        self._lots[where] += 1
        if self.is_stubborn(where):
            self._look_at = now + _PAUSE_SECONDS
        else:
            self._since.pop(where, None)

    def is_stubborn(self, where: TopicPartition) -> bool:
        """Whether its leader goes on naming a transaction that is open there."""
        return self._lots[where] > _LOTS_MAX

    def _note_clean(self, where: TopicPartition) -> None:
        self._clean.add(where)
        self._since.pop(where, None)
        del self._lots[where]

    def fail_look(self, now: float) -> None:
        """Nothing was heard of those that were asked about."""
        self._to_look, self._asked = self._asked | self._to_look, {}
        self._look_at = now + _PAUSE_SECONDS

    def give_up(self, now: float, seconds: float) -> set[TopicPartition]:
        """Those whose leaders have not answered for so long; they are asked about again when a record waits again."""
        silent = {where for where in self._to_look if now - self._since.get(where, now) > seconds}
        for where in silent:
            del self._to_look[where], self._since[where]
        return silent

    # Ending what lies open.

    def next_lot(self) -> bool:
        """Choose wanted partitions as the `lot` of one empty transaction; returns whether it is to be committed."""
        commits = all(self.wanted.values())
        self.lot = tuple(sorted(where for where, one in self.wanted.items() if one is commits))
        return commits

    def drop_refused(self, refused: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """If any is refused, nothing was added: another is tried again, and of what is gone or forbidden the leader is
        asked again. Returns the reasons to report."""
        self._aborted -= {where for where, code in refused.items() if code in _NOT_THERE}
        said = {where: code for where, code in refused.items() if code == _TOPIC_AUTHORIZATION_FAILED}
        for where in refused.keys() & self.wanted.keys():
            if refused[where] in _NOT_THERE or where in said:
                del self.wanted[where]
        if refused:
            self.lot = ()
        return said

    def clear_lot(self) -> bool:
        """The coordinator's marker should stand in all partitions of the lot, if there is one: their leaders are asked
        once more, but for those of which they say nothing."""
        lot, self.lot = self.lot, ()
        for where in lot:
            self.wanted.pop(where, None)
        self._aborted.difference_update(lot)
        for where in self._unseen.intersection(lot):
            self._note_clean(where)
        return bool(lot)


def _settle(buffer: PartitionBuffer, end: CommittedEnd) -> None:
    """Whatever the producer has written there has ended: what it sends from now on is what can lie open."""
    known = buffer.committed_end
    if known is None or known.producer_id != end.producer_id:
        buffer.know_committed_end(end)
