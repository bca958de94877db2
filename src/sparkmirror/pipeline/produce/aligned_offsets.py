"""The delivery guarantee of a flow that keeps offsets: each record once, at its own offset, without transactions.

The idempotent producer's check makes Produce a compare-and-append: all tasks and processes of the flow write with one
producer id and epoch, and a log takes a batch only if its sequence number continues the last one (KIP-98). So what the
target has need not be stored, and of several writers one at most succeeds. Positions are stored as at least once, for
what reads them.

Transaction markers fill the holes; a hole is filled when all before it is acknowledged, in the background. Owned by
`pipeline.produce.produce_task`.
"""

from dataclasses import dataclass
from functools import partial
from typing import Final

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.control.assignment import Append
from sparkmirror.errors import FencedError, SparkMirrorError
from sparkmirror.kafka.background import Background, Outcome
from sparkmirror.kafka.offset_fillers import EndMoved, FillerClients, HoleFiller, Overtaken
from sparkmirror.kafka.settings import client_settings
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.pipeline.produce.aligned_buffer import AlignedBuffer
from sparkmirror.pipeline.produce.aligned_gate import REBUILD, hold_misplaced
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.effects import Advance, BackOff, Effects, Fail, Hold, Offer, Placed, Settle
from sparkmirror.pipeline.produce.guarantee import AtLeastOnce
from sparkmirror.pipeline.produce.ledger_flush import LedgerFlush
from sparkmirror.pipeline.produce.next_batch import NextBatches
from sparkmirror.pipeline.produce.progress import Progress
from sparkmirror.pipeline.produce.queued_records import Batch
from sparkmirror.pipeline.produce.read_back import READ_BACK, ReadBack, Sent
from sparkmirror.pipeline.produce.task_metrics import TaskMetrics
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.policy.fillers import Hole
from sparkmirror.telemetry.filling import FillGauge

_FILL: Final = "fill"
_POOL: Final = "fillers"
"""A fill may wait a minute for a broker: leaders are looked up and dialled by other threads."""
_GAP_SECONDS: Final = 0.25
_FILL_SECONDS: Final = 1.0
"""How long one piece of background work fills: so long may the end of a task wait for it."""
_ATTEMPTS: Final = 5
"""A task that begins again takes some seconds from all of its partitions, and Spark ends the query after eight."""


@dataclass(frozen=True, slots=True)
class AlignmentOptions:
    """The target, the `policy.fillers` that fill holes, and how transactional ids for them begin."""

    target: Cluster
    filler: str
    id_prefix: str


class Fillers:
    """The fillers of a task's partitions. `clients` are closed with them."""

    def __init__(self, clients: FillerClients, id_prefix: str) -> None:
        self._clients = clients
        self._id_prefix = id_prefix
        self._known: dict[TopicPartition, tuple[Append, HoleFiller]] = {}

    def of(self, buffer: AlignedBuffer) -> HoleFiller:
        """A partition that the task takes on again gets another one, which ends what other processes began since."""
        known = self._known.get(buffer.source)
        if known is not None and known[0] is buffer.append:
            return known[1]
        self.drop(buffer.source)
        name, append = f"{self._id_prefix}{buffer.target}", buffer.append
        filler = HoleFiller(self._clients, name, buffer.target, append.producer_id, append.topic_id)
        self._known[buffer.source] = buffer.append, filler
        return filler

    def drop(self, source: TopicPartition) -> None:
        if (known := self._known.pop(source, None)) is not None:
            known[1].close()

    def close(self) -> None:
        self._clients.close()
        for source in list(self._known):
            self.drop(source)


class AlignedOffsets(AtLeastOnce):
    """Fills the holes that `AlignedBuffer`s meet, and reads back what their answers leave open."""

    rest_seconds = 0.25

    def __init__(
        self,
        plan: PlanRow,
        progress: Progress,
        ledger_flush: LedgerFlush,
        options: AlignmentOptions,
        background: Background,
        effects: Effects,
        task_metrics: TaskMetrics,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(plan, progress, ledger_flush)
        self._options = options
        self._background = background
        self._effects = effects
        self._fillers = Fillers(FillerClients(options.target), options.id_prefix)
        self._read_back = ReadBack(client_settings(options.target, "read-back"), background, clock)
        self._clock = clock
        self._attempt = plan.attempt
        self._filling: dict[TopicPartition, tuple[AlignedBuffer, Hole]] = {}
        self._task_metrics = task_metrics
        self._gauges: dict[TopicPartition, FillGauge] = {}

    def fill(self, buffer: AlignedBuffer, hole: Hole) -> None:
        """Begin to fill the hole, once all before it is acknowledged: an answer offers the buffer again."""
        if not buffer.settled or hole.first != buffer.acknowledged:
            return
        if self._progress.gaps.awaits(buffer):
            self._effects.append(BackOff(buffer, self._clock.monotonic() + _GAP_SECONDS))
            return
        buffer.rest()
        if buffer.source in self._filling:
            return
        self._filling[buffer.source] = (buffer, hole)
        gauge = self._gauges.get(buffer.source)
        if gauge is None or (gauge.reached, gauge.stop) != hole:
            self._gauges[buffer.source] = FillGauge(
                hole.first, hole.stop, self._clock.monotonic(), hole.first, is_start=False
            )
        work = partial(self._fillers.of(buffer).fill, hole, self._options.filler, _FILL_SECONDS)
        self._background.submit((_FILL, buffer.source), work, _POOL)

    def take(self, outcome: Outcome) -> None:
        match outcome.key:
            case (str(kind), TopicPartition() as source) if kind == _FILL:
                self._take_filled(source, outcome)
            case (str(kind), TopicPartition() as source) if kind == READ_BACK:
                self._take_read_back(self._read_back.take(source), outcome)

    def sequence_lost(self, where: PartitionBuffer, reason: str) -> None:
        """The task begins again, and looks where the partition's log ends; not without limit: who writes there under
        the same producer id may do so for long, and the other partitions are to go on."""
        if self._attempt < _ATTEMPTS or not where.keeps_offsets:
            super().sequence_lost(where, reason)
        again = "the task has begun again too often in this epoch, and the next one tries it"
        self._effects.append(Hold(where, f"{where.target}: {reason}; {again}: another process may write as this flow"))

    def read_back(self, buffer: AlignedBuffer, batch: Batch, came_at_ms: int) -> None:
        """The answer to the batch, which came then, does not tell whether it is what stands at its offsets."""
        self._read_back.add(buffer, batch, came_at_ms)

    def _take_read_back(self, batches: list[Sent], outcome: Outcome) -> None:
        if outcome.error is not None and not isinstance(outcome.error, SparkMirrorError):
            raise outcome.error
        found = outcome.result if isinstance(outcome.result, dict) else None
        for sent in batches:
            buffer = sent.buffer
            if found is None:
                buffer.give_up(sent.batch)
                why = f"what stands at offset {sent.first} was not read back: {outcome.error or 'the reading ended'}"
                self._effects.append(Fail(buffer, f"{buffer.target}: {why}"))
            elif (other := found.get(sent.first)) is not None:
                buffer.give_up(sent.batch)
                clause = f"the target has something else at offset {other} of {buffer.target} than its source"
                self._effects.extend(hold_misplaced(buffer, other, clause))
            else:
                self._effects.extend((Placed(buffer, sent.batch, sent.first, sent.came_at_ms), Offer(buffer)))
            self._effects.append(Settle(buffer))  # it may have failed meanwhile, and waited for this

    def _take_filled(self, source: TopicPartition, outcome: Outcome) -> None:
        buffer, hole = self._filling.pop(source)
        buffer.wake()
        if outcome.error is None:
            self._report(source, outcome.result)
            buffer.take_filled(hole, outcome.result)
            self._effects.extend((Advance(buffer, []), Offer(buffer)))
            return
        self._fillers.drop(source)
        self._report(source, hole.stop)
        if isinstance(outcome.error, EndMoved):
            self._hold(buffer, outcome.error)
        elif isinstance(outcome.error, FencedError):
            self.sequence_lost(buffer, "another process fills the holes of its offsets")
        elif isinstance(outcome.error, Overtaken):
            self.sequence_lost(buffer, str(outcome.error))
        elif isinstance(outcome.error, SparkMirrorError):
            self._effects.append(Fail(buffer, f"offsets {hole.first} to {hole.stop - 1}: {outcome.error}"))
        else:
            raise outcome.error

    def _hold(self, buffer: AlignedBuffer, moved: EndMoved) -> None:
        clause = f"{buffer.target}: {moved}: {_WHY}"
        if moved.offset is None:
            self._effects.append(Hold(buffer, f"{clause}; {REBUILD}"))
        else:
            self._effects.extend(hold_misplaced(buffer, moved.offset, clause))

    def _report(self, source: TopicPartition, reached: int) -> None:
        """A hole that one piece of work fills is not reported."""
        gauge = self._gauges[source]
        if reached >= gauge.stop:
            del self._gauges[source]
            self._task_metrics.fills(source, None)
        else:
            self._task_metrics.fills(source, gauge.note(self._clock.monotonic(), reached))

    def close(self) -> None:
        self._fillers.close()
        self._read_back.close()


_WHY: Final = "somebody else has written to the topic, or its log was cut"


class AlignedBatches(NextBatches):
    """The next batches of a flow that keeps offsets."""

    def take(self, buffer: PartitionBuffer) -> Batch | None:
        """As `NextBatches.take`; where a hole is in the way it is filled. Raises SparkMirrorError where the target's
        topic was made again: the task begins again, at the new log's beginning."""
        if isinstance(buffer, AlignedBuffer) and not buffer.goes_on_in(self._brokers.topic_id(buffer.append.topic)):
            self._guarantee.sequence_lost(buffer, "its topic was deleted and made again")
            return None
        batch = super().take(buffer)
        if batch is None and isinstance(buffer, AlignedBuffer) and buffer.hole is not None and not buffer.is_failed:
            assert isinstance(self._guarantee, AlignedOffsets), "`pipeline.produce.assembly` puts them together"
            self._guarantee.fill(buffer, buffer.hole)
        return batch
