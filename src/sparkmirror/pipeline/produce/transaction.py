"""Exactly once: data and the positions it reaches in one transaction after another (KIP-98, KIP-890).

A transaction opens with the first batch. When its time is over, no new data goes out: the positions that the sent data
reaches follow it, all acknowledgements are awaited, and EndTxn ends it. Nothing else becomes visible to a
read_committed consumer (invariant 4). After any doubt the producer is initialized again, which aborts what is open and
shows whether another instance has taken over; all partitions go back to what is committed and are read again from
there.
"""

import logging
from collections.abc import Collection
from typing import Final

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.errors import FencedError, SparkMirrorError
from sparkmirror.kafka.background import Outcome
from sparkmirror.kafka.errors import NO_ERROR, error_name, refusal
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.kafka.wire.coordinator import (
    UNENDED_STATES,
    Answer,
)
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.effects import Abort, Commit, Effects, Refuse, RollBack, Speak
from sparkmirror.pipeline.produce.ledger_flush import LedgerFlush
from sparkmirror.pipeline.produce.left_open import LeftOpen
from sparkmirror.pipeline.produce.progress import Progress
from sparkmirror.pipeline.produce.transaction_intake import AsksLeaders, TransactionIntake
from sparkmirror.pipeline.produce.transaction_phase import NOTHING_OPEN, Phase, TransactionOptions
from sparkmirror.pipeline.produce.transactional_producer import Fencing, TransactionalProducer
from sparkmirror.pipeline.produce.unfinished import Seat

log = logging.getLogger(__name__)

_ANSWERS_SECONDS_MAX: Final = 2.0
"""How long a transaction that is to be aborted waits for answers to what it has sent."""
_NEVER: Final = float("inf")
_FENCED = frozenset({47, 90})  # INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
# INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING, UNKNOWN_PRODUCER_ID, TRANSACTION_ABORTABLE: a new epoch mends them.
_ABORTED = frozenset({48, 49, 59, 120})
_LOOK_SECONDS: Final = 3.0
_BELIEVE_SECONDS_MAX: Final = 3.0
"""EndTxn leaves the epoch as it is, so a planner that takes the flow over meanwhile may not have fenced this task.
After four seconds such a planner goes on without an id whose aborted transaction does not end (`kafka.fencing`): beyond
this time the id may belong to another instance."""
_ASKED_AS: Final = {
    Phase.ABORTING: Phase.WAITING,
    Phase.RECOVERING: Phase.WAITING,
    Phase.ENDING: Phase.DECIDING,
    Phase.ADDING: Phase.WAITING,
    Phase.CLEARING: Phase.WAITING,
}
"""Phases in which a coordinator that is silent for long is asked what became of the transaction."""
_AWAY_ADVICE: Final = "its leader is away, or too few of its replicas are in sync"


class ExactlyOnce(TransactionIntake):
    """The transactions of one task, as `pipeline.produce.guarantee.Guarantee` says."""

    transactional = True

    def __init__(
        self,
        options: TransactionOptions,
        task: int,
        seat: Seat,
        progress: Progress,
        ledger_flush: LedgerFlush,
        effects: Effects,
        looks: AsksLeaders,
        doubted: set[TopicPartition],
        spare: Seat | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`spare` is used while a transaction under `seat`'s transactional id cannot end; `doubted` is as
        TransactionIntake has it."""
        producer = TransactionalProducer(task, seat, spare, clock)
        super().__init__(task, producer, options, effects, looks, doubted, clock)
        self._progress = progress
        self._ledger_flush = ledger_flush
        self._must_roll_back = self._commits_lot = self._was_adding = False
        self._roll_back_by = 0.0
        self._look_at = 0.0
        self._believe_until = _NEVER

    @property
    def identity(self) -> ProducerIdentity:
        return self._producer.identity

    @property
    def hurries(self) -> bool:
        return self.phase is Phase.CLOSING

    def throttled(self, until: float) -> None:
        self._cadence.throttle(until)

    # What is due.

    rest_seconds = 0.25

    @property
    def wake_at(self) -> float:
        own = _NEVER
        if self.phase is Phase.OPEN:
            own = self._cadence.due_at
        elif self.phase is Phase.READY:
            is_due = self._left_open.wanted and not self._producer.busy
            own = 0.0 if is_due else self._cadence.resume_at or self._cadence.status_at
        if not self._producer.busy:
            own = min(own, self._added.due_at)
        return min(own, self._producer.wake_at, self._left_open.look_at)

    def poll(self, now: float) -> None:
        if self._must_roll_back and (now >= self._roll_back_by or self._contents.is_answered):
            self._start_over()
        self._producer.poll(now)
        self._look_for_open(now)
        phase = self.phase
        if phase is Phase.OPEN:
            if now >= self._cadence.due_at or self._cadence.is_full:
                self._close(now)
        elif phase is Phase.CLOSING:
            self._end_if_settled(now)
        elif phase is Phase.READY:
            if self._left_open.wanted and not self._producer.busy:
                self._end_left_open()
            elif now >= self._cadence.resume_at:
                self._go_on(now)
        elif phase is Phase.STARTING:
            if self._producer.learn_protocol():
                self._get_ready()
        elif phase is Phase.FENCED:
            if now >= self._look_at and not self._producer.busy:
                self._look(Phase.FENCED)
        elif now >= self._look_at and phase in _ASKED_AS and self._producer.has_spare and not self._must_roll_back:
            self._was_adding = phase is Phase.ADDING
            self._look(_ASKED_AS[phase])
        if now >= self._added.due_at and not self._producer.busy and not self._must_roll_back:
            self._producer.add(self._added.next_lot())

    def _go_on(self, now: float) -> None:
        """Continue when no transaction is open and the throttle time is over."""
        if self._cadence.end_pause():
            self._release_held()
        if now >= self._cadence.status_at:
            self._close(now)

    def _end_left_open(self) -> None:
        self._commits_lot = self._left_open.next_lot()
        self._add_lot()

    def _add_lot(self) -> None:
        self.phase = Phase.ADDING
        self._look_at = self._clock.monotonic() + self._options.silence_seconds_max
        self._producer.add(self._left_open.lot)

    def finish(self) -> bool:
        """Commit the open transaction, with the last positions, offset maps and status; without them while a broker
        throttles."""
        self._cadence.want_status()
        if self.phase is Phase.READY:
            now = self._clock.monotonic()
            return now < self._cadence.resume_at or not self._close(now)
        if self.phase is Phase.OPEN:
            self._close(self._clock.monotonic())
        return False

    def _get_ready(self) -> None:
        self._effects.append(Speak(self._producer.second_protocol, self._producer.transactional_id))
        self.phase = Phase.READY
        self._release_held()

    def _close(self, now: float) -> bool:
        """Accept no more data and store the positions that it reaches; False if there is nothing to store."""
        fresh = self._ledger_flush.store(self._cadence.takes_status(now))
        was_open = self.phase is not Phase.READY
        if not (was_open or fresh):
            return False
        self.phase = Phase.CLOSING
        self._cadence.close(now, was_open=was_open)
        self._contents.close(now)
        return True

    def _end_if_settled(self, now: float) -> None:
        """End the transaction when all of it is acknowledged and the stored positions match its data."""
        unsettled = self._contents.settle(now)
        if unsettled or not self._progress.settled or self._producer.busy:
            if self._contents.is_silent(now, self._options.silence_seconds_max, self._progress.buffers.values()):
                self._look(Phase.LOOKING)
            return
        if self._progress.uncommitted.is_false:
            self._recover("the target refused records before a gap that it stores", awaits_answers=True)
            return
        if self._progress.is_untrue(self._contents.sources):
            if not self._ledger_flush.store(False):
                self._recover("the positions of its data could not be stored")
            return
        if self._progress.lacks_map(self._contents.sources):
            if not self._ledger_flush.store(False):
                self._recover("the offset map cannot say that the target's log was cut")
            return
        self._end(now)

    def _end(self, now: float) -> None:
        self.phase = Phase.ENDING
        self._look_at = now + self._options.silence_seconds_max
        self._producer.end()

    # Where a partition of the target does not answer.

    def _look(self, phase: Phase) -> None:
        self.phase = phase
        self._producer.describe()

    def _take_look(self, answer: Answer) -> None:
        """Take the description of a closing transaction: it waits for its own partitions, or for the end of the one
        before."""
        self.phase = Phase.CLOSING
        self._contents.note_progress(self._clock.monotonic())
        if answer.error != NO_ERROR:
            return
        if answer.state not in UNENDED_STATES:
            self._give_up({buffer.target for buffer in self._contents.awaited(self._progress.buffers.values())})
        elif self._producer.has_spare and self._producer.is_ours(answer):
            self._leave(answer.partitions)

    def _take_decision(self, answer: Answer) -> None:
        """Take the description of an ending transaction. A coordinator that moved during EndTxn does not answer it
        before all markers are written: one that it describes as committed under our identity is committed."""
        if self._producer.has_spare and self._producer.is_committing(answer):
            self._take_committed(answer, answer.partitions)
            self._leave(answer.partitions)
        else:
            self._end(self._clock.monotonic())

    def _give_up(self, away: set[TopicPartition]) -> None:
        """Isolate these partitions and abort the transaction; all others go on. If one is the ledger's, its positions
        are refused first: then EndTxn may abort."""
        if not away:
            return
        self._hold(away, f"has not answered for {self._options.silence_seconds_max:.0f} s")
        self._effects.append(Abort(f"{', '.join(map(str, sorted(away)))} did not answer"))

    def _hold(self, away: Collection[TopicPartition], what: str) -> None:
        self._producer.note_away(away)
        for where in sorted(away):
            self._effects.append(Refuse(where, f"the target {what}; {_AWAY_ADVICE}"))

    def _take_outcome(self, answer: Answer) -> None:
        """Take the outcome of a transaction that is to be aborted. A committed one is never taken for aborted. Where an
        empty one is to begin, the one before it may not end; it may have begun, and is not given up if it commits."""
        was_adding, self._was_adding = self._was_adding, False
        is_unended = was_adding and self._producer.is_ours(answer) and answer.state in UNENDED_STATES
        if self._producer.has_spare and (is_unended or self._producer.is_aborting(answer)):
            self._leave(answer.partitions)
        elif was_adding and self._commits_lot:
            self._add_lot()
        else:
            self._initialize()

    def _leave(self, away: Collection[TopicPartition]) -> None:
        """Go on under the spare id, with all partitions but those that lack the transaction's marker."""
        self._hold(away, "does not take the marker that ends the last transaction")
        self._forget_transaction()
        self._effects.append(RollBack())
        self._producer.change_to_spare()
        self._left_open = LeftOpen()
        self._must_roll_back = False
        self.phase = Phase.STARTING

    def holds(self, buffer: PartitionBuffer) -> bool:
        return self._producer.holds(buffer)

    # Answers.

    def take(self, outcome: Outcome) -> None:
        self._producer.take(outcome)
        if outcome.key == self._looks.key:
            self._take_found(outcome)

    def serve(self) -> None:
        answer = self._producer.serve()
        if answer is None or self._must_roll_back:
            return
        if self.phase is Phase.ABORTING:
            self._producer.adopt(answer)
            self._initialize()  # whatever the answer was
        elif self.phase is Phase.RECOVERING:
            self._take_identity(answer)
        elif self.phase is Phase.FENCED:
            self._take_description(answer)
        elif self.phase is Phase.LOOKING:
            self._take_look(answer)
        elif self.phase is Phase.DECIDING:
            self._take_decision(answer)
        elif self.phase is Phase.WAITING:
            self._take_outcome(answer)
        elif answer.error in _FENCED or answer.error in _ABORTED:
            self._recover(f"the coordinator answers {error_name(answer.error)}")
        elif answer.error != NO_ERROR:
            raise self._refusal(answer.error, "the transaction")
        elif self.phase is Phase.ENDING:
            self._take_committed(answer)
        elif self.phase is Phase.ADDING:
            self._take_added_lot(answer)
        elif self.phase is Phase.CLEARING:
            self._take_cleared(answer)
        else:
            self._take_added(answer)

    def _take_committed(self, answer: Answer, unmarked: Collection[TopicPartition] = ()) -> None:
        """`unmarked` lack the marker: records of another producer may come before it."""
        self._producer.adopt(answer)
        if not self._left_open.clear_lot():
            self._cadence.commit(self._clock.monotonic())
        for buffer in self._contents.all:
            buffer.commit_sent(is_marked=buffer.target not in unmarked)
        self._forget_transaction()
        self._effects.append(Commit())
        self.phase = Phase.READY
        self._release_held()

    def _take_added(self, answer: Answer) -> None:
        for where, code in self._added.take(answer.refused, self._clock.monotonic()).items():
            self._refuse(where, code)
        self._take_absent(answer.refused)
        if self._added and self.phase is Phase.READY:
            self._open()
        self._release_held()

    def _refuse(self, where: TopicPartition, code: int) -> None:
        self._effects.append(Refuse(where, f"the target refuses it in a transaction: {error_name(code)}"))

    def _take_added_lot(self, answer: Answer) -> None:
        """Take the answer about what lies open. In a deleted topic nothing does; another refused partition is tried
        again."""
        for where, code in self._left_open.drop_refused(answer.refused).items():
            self._refuse(where, code)
        if answer.refused:
            self._get_ready()
            return
        if self._commits_lot:
            self._end(self._clock.monotonic())
            return
        self.phase = Phase.CLEARING
        self._producer.end(commits=False)

    def _take_cleared(self, answer: Answer) -> None:
        self._producer.adopt(answer)
        self._left_open.clear_lot()
        self._get_ready()

    def _take_identity(self, answer: Answer) -> None:
        if answer.error in _FENCED:
            self._look_at = self._clock.monotonic() + _LOOK_SECONDS
            self._look(Phase.FENCED)
            return
        if answer.error != NO_ERROR or answer.identity is None:
            raise self._refusal(answer.error, "taking a new producer epoch")
        if self._clock.monotonic() > self._believe_until:
            raise SparkMirrorError(f"task {self._task}'s transaction was long in being aborted; the task starts again")
        self._producer.adopt(answer)
        self._producer.end_away()
        self._producer.learn_protocol()
        self._get_ready()

    def _take_description(self, answer: Answer) -> None:
        """Take the coordinator's description after a newer epoch was seen.

        After a time-out the task cannot recover in place (KAFKA-9803), and another process may be taking the id over: a
        new attempt of the task reads the ledger, which shows a newer instance. While the abort cannot end, the task
        goes on under the spare id: a newer instance fences all ids of the flow before it reads the ledger.
        """
        fencing = self._producer.judge_fencing(answer)
        if fencing is Fencing.NEWER:
            raise FencedError(f"task {self._task} was fenced: a newer instance has taken over")
        if fencing is Fencing.ABORTING and self._producer.has_spare:
            if self._clock.monotonic() >= self._look_at:
                self._leave(answer.partitions)
            return
        raise SparkMirrorError(f"task {self._task}'s transaction took too long and was aborted; the task starts again")

    def _refusal(self, code: int, doing: str) -> SparkMirrorError:
        return refusal(code, self._options.target_alias, f"{doing} of {self._producer.transactional_id}")

    def _forget_transaction(self) -> None:
        self._contents.forget()
        self._added.forget()
        self._cadence.forget_transaction()

    # Doubt.

    def fenced(self, where: PartitionBuffer) -> None:
        """Another instance fenced the producer, or the coordinator did because the transaction timed out: ask which."""
        self._recover(f"{where.target} knows a newer epoch of the producer")

    def sequence_lost(self, where: PartitionBuffer, reason: str) -> None:
        self._recover(f"{where.target}: {reason}")

    def refused_in_doubt(self, where: PartitionBuffer) -> None:
        self._recover(f"{where.target} refused a batch that it may have")

    def positions_refused(self, where: PartitionBuffer) -> None:
        """Abort: committed without its positions, the data would come again after a crash."""
        self._recover(f"{where.target}: {where.reason}", awaits_answers=True)

    def abort(self, reason: str, *, awaits_answers: bool = False) -> None:
        self._recover(reason, awaits_answers=awaits_answers)

    def _recover(self, reason: str, *, awaits_answers: bool = False) -> None:
        """Abort the open transaction and go back to the last commit. With the first protocol an abort by InitProducerId
        fences its caller (KAFKA-9803), an abort by EndTxn does not; EndTxn may be sent when no batch of the transaction
        can arrive after it.
        """
        if self.phase in NOTHING_OPEN:
            return
        log.warning(
            "task %d: %s; its transaction is aborted and sent again.", self._task, reason, extra={"event": "aborted"}
        )
        self.phase = Phase.RECOVERING
        self._must_roll_back = True
        may_end = awaits_answers and not self._producer.second_protocol
        self._roll_back_by = self._clock.monotonic() + _ANSWERS_SECONDS_MAX if may_end else 0.0

    def _start_over(self) -> None:
        ends = self._roll_back_by > 0 and self._contents.is_answered
        self._must_roll_back = False
        self._left_open.note(self._contents.all)
        self._forget_transaction()
        self._cadence.begin_anew()
        self._effects.append(RollBack())
        self._believe_until = self._clock.monotonic() + _BELIEVE_SECONDS_MAX if ends else _NEVER
        if ends:
            self.phase = Phase.ABORTING
            self._look_at = self._clock.monotonic() + _LOOK_SECONDS
            self._producer.end(commits=False)
        else:
            self._initialize()

    def _initialize(self) -> None:
        self.phase, self._left_open.lot = Phase.RECOVERING, ()
        self._look_at = self._clock.monotonic() + _LOOK_SECONDS
        self._producer.initialize(self._options.timeout_ms)

    def close(self) -> None:
        self._producer.close()
