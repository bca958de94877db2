"""Exactly once: data and the positions it reaches in one transaction after another (KIP-98, KIP-890).

A transaction opens with the first batch. When its time is over no new data goes out; what was sent is waited for,
while the positions that it reaches follow it; then EndTxn. Nothing else becomes visible to a read_committed consumer
(invariant 4). After any doubt the producer is initialized anew, which aborts what is open and shows whether another
instance has taken over; all partitions go back to what is committed and are read again from there.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from sparkmirror.errors import FencedError, SparkMirrorError
from sparkmirror.kafka.background import Outcome
from sparkmirror.kafka.coordinator import AddPartitions, Answer, Describe, EndTransaction, Initialize
from sparkmirror.kafka.errors import NO_ERROR, error_name, refusal
from sparkmirror.kafka.fencing import ProducerIdentity, transactional_id
from sparkmirror.model import Connector, TopicPartition
from sparkmirror.target.coordinator import KEY, Coordinator
from sparkmirror.target.outbox import Outbox
from sparkmirror.target.pace import TransactionPace
from sparkmirror.target.parcel import Batch
from sparkmirror.target.plan_row import PlanRow
from sparkmirror.target.progress import Progress

log = logging.getLogger(__name__)

_BYTES_OF_LOAD: Final = 1 << 20
"""A transaction that carried so much was one of many: what counts then is how much of the time data goes out."""
_FLOW_TO_PAUSE: Final = 5
_INTERVALS_MAX: Final = 5
_ADD_AGAIN_SECONDS: Final = 0.1
_ANSWERS_SECONDS_MAX: Final = 2.0
"""How long a transaction that is to be aborted waits for answers to what it has sent."""
_NEVER: Final = float("inf")
_FENCED = frozenset({47, 90})  # INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
# INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING, UNKNOWN_PRODUCER_ID, TRANSACTION_ABORTABLE: a new epoch mends them.
_ABORTED = frozenset({48, 49, 59, 120})
_ABORTED_STATES = frozenset({"PrepareEpochFence", "PrepareAbort", "CompleteAbort"})
_TOPIC_AUTHORIZATION_FAILED: Final = 29
_ABSENT: Final = frozenset({3, 17})  # UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION


class Phase(Enum):
    STARTING = "the coordinator, and so the protocol, is not known yet"
    READY = "no transaction is open"
    OPEN = "data goes out"
    CLOSING = "what was sent is waited for, positions go out"
    ENDING = "EndTxn is under way"
    ABORTING = "all went back to what is committed; EndTxn, which aborts, is under way"
    RECOVERING = "all went back to what is committed; InitProducerId is under way"
    FENCED = "the coordinator knows a newer epoch; it is asked whose"


@dataclass(frozen=True, slots=True)
class TransactionOptions:
    """`interval_seconds` between two commits while data flows, `status_seconds` between two status records.

    `target_alias` is for what people read.
    """

    target_alias: str
    connector: Connector
    timeout_ms: int
    interval_seconds: float
    status_seconds: float


@dataclass(frozen=True, slots=True)
class Hooks:
    """What a transaction has the sender do.

    `speak` is told whether to use the second protocol; `store` composes positions (and the status, if so asked) and
    says whether there were any; `roll_back` takes everything back to what is committed; `refuse` isolates a partition.
    """

    speak: Callable[[bool], None]
    offer: Callable[[Outbox], None]
    store: Callable[[bool], bool]
    commit: Callable[[], None]
    roll_back: Callable[[], None]
    refuse: Callable[[TopicPartition, str], None]


class ExactlyOnce:
    """The transactions of one task, as `target.guarantee.Guarantee` says."""

    transactional = True

    def __init__(
        self, options: TransactionOptions, plan: PlanRow, coordinator: Coordinator, progress: Progress, hooks: Hooks
    ) -> None:
        self.identity = ProducerIdentity(plan.producer_id, plan.producer_epoch)
        self.phase = Phase.STARTING
        self._options = options
        self._task = plan.task
        self._transactional_id = transactional_id(options.connector, plan.task)
        self._coordinator = coordinator
        self._progress = progress
        self._hooks = hooks
        self._second = False
        self._held: dict[Outbox, None] = {}
        self._unsettled: dict[Outbox, None] = {}
        self._touched: dict[Outbox, None] = {}
        self._to_add: dict[TopicPartition, None] = {}
        self._adding: tuple[TopicPartition, ...] = ()
        self._added: set[TopicPartition] = set()
        self._absent: set[TopicPartition] = set()
        self._bytes = 0
        self._pace = TransactionPace(options.timeout_ms / 1000)
        self._resume_at = 0.0
        self._opened_at = 0.0
        self._close_at = 0.0
        self._empty_until = 0.0
        self._closed_at = 0.0
        self._pause = 0.0
        self._status_at = 0.0
        self._add_at = 0.0
        self._must_roll_back = False
        self._roll_back_by = 0.0

    # What may go out.

    def admits(self, outbox: Outbox) -> bool:
        if self._takes_in(outbox):
            if self._second or outbox.target in self._added:
                return True
            self._to_add[outbox.target] = None
        self._held[outbox] = None
        return False

    def _takes_in(self, outbox: Outbox) -> bool:
        phase = self.phase
        if phase is Phase.OPEN:
            return self._bytes < self._pace.bytes_max
        if phase is Phase.READY:
            return not self._resume_at or time.monotonic() >= self._resume_at
        return phase is Phase.CLOSING and outbox.is_ledger

    def sent(self, outbox: Outbox, batch: Batch) -> None:
        self._unsettled[outbox] = None
        self._bytes += len(batch.data)
        if self.phase is Phase.READY:
            self._open()

    def _open(self) -> None:
        """The first record after a pause is committed at once, under load a commit follows every interval."""
        self.phase = Phase.OPEN
        self._opened_at = time.monotonic()
        self._close_at = self._closed_at + self._interval
        self._empty_until = self._opened_at + self._options.interval_seconds

    @property
    def _interval(self) -> float:
        """Under load no data goes out while a transaction ends: where that takes long, the next one lasts longer."""
        least = self._options.interval_seconds
        return min(max(least, self._pause * _FLOW_TO_PAUSE), least * _INTERVALS_MAX)

    @property
    def _due_at(self) -> float:
        """With the first protocol a transaction is open before its first batch is sent: it may not end without one.

        Unless none comes, because the partition that asked for it has failed meanwhile.
        """
        return self._close_at if self._bytes else max(self._close_at, self._empty_until)

    @property
    def hurries(self) -> bool:
        return self.phase is Phase.CLOSING

    def throttled(self, until: float) -> None:
        """What is in the transaction is committed now, the next one opens after the pause: none lasts through it."""
        self._resume_at = max(self._resume_at, until)
        self._close_at = 0.0

    def _release_held(self) -> None:
        held, self._held = self._held, {}
        for outbox in held:
            self._hooks.offer(outbox)

    # What is due.

    @property
    def wake_at(self) -> float:
        own = _NEVER
        if self.phase is Phase.OPEN:
            own = self._due_at
        elif self.phase is Phase.READY:
            own = self._resume_at or self._status_at
        if self._to_add and not self._coordinator.busy:
            own = min(own, self._add_due_at)
        return min(own, self._coordinator.wake_at)

    def tend(self, now: float) -> None:
        if self._must_roll_back and (now >= self._roll_back_by or self._is_answered):
            self._start_over()
        self._coordinator.tend(now)
        phase = self.phase
        if phase is Phase.OPEN:
            if now >= self._due_at or self._bytes >= self._pace.bytes_max:
                self._close(now)
        elif phase is Phase.CLOSING:
            self._end_if_settled()
        elif phase is Phase.READY:
            if now >= self._resume_at:
                self._go_on(now)
        elif phase is Phase.STARTING and self._coordinator.second_protocol is not None:
            self._get_ready(self._coordinator.second_protocol)
        if self._to_add and now >= self._add_due_at and not self._coordinator.busy and not self._must_roll_back:
            self._add()

    def _go_on(self, now: float) -> None:
        """No transaction is open, and no broker pauses any more."""
        if self._resume_at:
            self._resume_at = 0.0
            self._release_held()
        if now >= self._status_at:
            self._close(now)

    def finish(self) -> bool:
        """Commit what is open; the last positions, offset maps and status first. While a broker pauses, go without."""
        self._status_at = 0.0
        if self.phase is Phase.READY:
            now = time.monotonic()
            return now < self._resume_at or not self._close(now)
        if self.phase is Phase.OPEN:
            self._close(time.monotonic())
        return False

    def _get_ready(self, second: bool) -> None:
        self._second = second
        self._hooks.speak(second)
        self.phase = Phase.READY
        self._release_held()

    def _close(self, now: float) -> bool:
        """Stop taking data in, and store how far it reaches; False when there is nothing to store at all."""
        with_status = now >= self._status_at
        if with_status:
            self._status_at = now + self._options.status_seconds
        fresh = self._hooks.store(with_status)
        if self.phase is Phase.READY:
            if not fresh:
                return False
            self._opened_at = now
        self.phase = Phase.CLOSING
        self._closed_at = now
        self._touched.update(self._unsettled)
        return True

    def _end_if_settled(self) -> None:
        """When all is acknowledged, and what is stored is true, the transaction may end."""
        unsettled = self._unsettled
        for outbox in list(unsettled):
            if outbox.settled:
                del unsettled[outbox]
        if unsettled or not self._progress.settled or self._coordinator.busy:
            return
        if self._progress.is_untrue(self._touched):
            if not self._hooks.store(False):
                self._recover("the positions of its data could not be stored")
            return
        self.phase = Phase.ENDING
        self._coordinator.ask(EndTransaction(self._transactional_id, self.identity, self._second))

    @property
    def _add_due_at(self) -> float:
        """Those that the target does not know are asked for again after a pause, others at once."""
        return 0.0 if self._to_add.keys() - self._absent else self._add_at

    def _add(self) -> None:
        """One that is refused has all others of the question refused: what was absent is asked for by itself."""
        self._adding = tuple(where for where in self._to_add if where not in self._absent) or tuple(self._to_add)
        self._coordinator.ask(AddPartitions(self._transactional_id, self.identity, self._adding))

    # Answers.

    def take(self, outcome: Outcome) -> None:
        if outcome.key == KEY:
            self._coordinator.take(outcome)

    def serve(self) -> None:
        answer = self._coordinator.serve()
        if answer is None or self._must_roll_back:
            return
        if self.phase is Phase.ABORTING:
            self.identity = answer.identity or self.identity
            self._initialize()  # whatever the answer was
        elif self.phase is Phase.RECOVERING:
            self._take_identity(answer)
        elif self.phase is Phase.FENCED:
            self._take_description(answer)
        elif answer.error in _FENCED or answer.error in _ABORTED:
            self._recover(f"the coordinator answers {error_name(answer.error)}")
        elif answer.error != NO_ERROR:
            raise self._refusal(answer.error, "the transaction")
        elif self.phase is Phase.ENDING:
            self._take_committed(answer)
        else:
            self._take_added(answer)

    def _take_committed(self, answer: Answer) -> None:
        if answer.identity is not None:
            self.identity = answer.identity
        now = time.monotonic()
        self._pause = now - self._closed_at if self._bytes >= _BYTES_OF_LOAD else 0.0
        self._pace.note(self._bytes, now - self._opened_at)
        self._forget_transaction()
        self._hooks.commit()
        self.phase = Phase.READY
        self._release_held()

    def _take_added(self, answer: Answer) -> None:
        refused = {where: code for where, code in answer.refused.items() if code == _TOPIC_AUTHORIZATION_FAILED}
        for where in self._adding:
            if where in refused:
                del self._to_add[where]
                self._hooks.refuse(where, f"the target refuses it in a transaction: {error_name(refused[where])}")
            elif where not in answer.refused:
                del self._to_add[where]
                self._added.add(where)
                self._absent.discard(where)
        absent = {where for where, code in answer.refused.items() if code in _ABSENT}
        if absent:
            self._absent |= absent
            self._add_at = time.monotonic() + _ADD_AGAIN_SECONDS
        if self._added and self.phase is Phase.READY:
            self._open()
        self._release_held()

    def _take_identity(self, answer: Answer) -> None:
        if answer.error in _FENCED:
            self.phase = Phase.FENCED
            self._coordinator.ask(Describe(self._transactional_id))
            return
        if answer.error != NO_ERROR or answer.identity is None:
            raise self._refusal(answer.error, "taking a new producer epoch")
        self.identity = answer.identity
        self._get_ready(bool(self._coordinator.second_protocol))

    def _take_description(self, answer: Answer) -> None:
        """A coordinator that gave up waiting for us has the epoch after ours (or the next) and an aborted transaction.

        It may not let us go on by ourselves (KAFKA-9803), and whoever takes the id over may be about to: a new attempt
        of the task looks into the ledger, where a newer instance shows.
        """
        ours, theirs = self.identity, answer.identity
        follows = theirs is not None and theirs.producer_id == ours.producer_id and theirs.epoch - ours.epoch in (1, 2)
        if answer.error == NO_ERROR and not (follows and answer.state in _ABORTED_STATES):
            raise FencedError(f"task {self._task} was fenced: a newer instance has taken over")
        raise SparkMirrorError(f"task {self._task}'s transaction took too long and was aborted; the task starts anew")

    def _refusal(self, code: int, doing: str) -> SparkMirrorError:
        return refusal(code, self._options.target_alias, f"{doing} of {self._transactional_id}")

    def _forget_transaction(self) -> None:
        self._unsettled.clear()
        self._touched.clear()
        self._to_add.clear()
        self._added.clear()
        self._bytes = 0

    # Doubt.

    def fenced(self, where: Outbox) -> None:
        """By another instance, or by the coordinator because the transaction took too long: it will tell which."""
        self._recover(f"{where.target} knows a newer epoch of the producer")

    def sequence_lost(self, where: Outbox, reason: str) -> None:
        self._recover(f"{where.target}: {reason}")

    def refused_in_doubt(self, where: Outbox) -> None:
        self._recover(f"{where.target} refused a batch that it may have")

    def positions_refused(self, where: Outbox) -> None:
        """Committed without them, its data would come again after a crash."""
        self._recover(f"{where.target}: {where.reason}", awaits_answers=True)

    def _recover(self, reason: str, *, awaits_answers: bool = False) -> None:
        """With the first protocol a transaction that is aborted by InitProducerId fences its holder (KAFKA-9803), and
        only EndTxn does not: that may be sent when nothing of the transaction can arrive after it.
        """
        if self.phase in (Phase.ABORTING, Phase.RECOVERING, Phase.FENCED):
            return
        log.warning(
            "task %d: %s; its transaction is aborted and sent again.", self._task, reason, extra={"event": "aborted"}
        )
        self.phase = Phase.RECOVERING
        self._must_roll_back = True
        may_end = awaits_answers and not self._second
        self._roll_back_by = time.monotonic() + _ANSWERS_SECONDS_MAX if may_end else 0.0

    @property
    def _is_answered(self) -> bool:
        """Whether all that was sent in the transaction has been answered."""
        return all(outbox.quiet and not outbox.is_in_doubt for outbox in self._unsettled)

    def _start_over(self) -> None:
        ends = self._roll_back_by > 0 and self._is_answered
        self._must_roll_back = False
        self._forget_transaction()
        self._pace.begin_anew()
        self._hooks.roll_back()
        if ends:
            self.phase = Phase.ABORTING
            self._coordinator.ask(EndTransaction(self._transactional_id, self.identity, self._second, commits=False))
        else:
            self._initialize()

    def _initialize(self) -> None:
        self.phase = Phase.RECOVERING
        self._coordinator.ask(Initialize(self._transactional_id, self._options.timeout_ms, self.identity))

    def close(self) -> None:
        self._coordinator.close()
