"""One instance of a mirror as processes: a planner, and for each task a reader and a writer. Spark is played here.

Spark's part is small: it gives plans to tasks, carries rows from reader to writer in order, and repeats a task that
failed. Its failures are events of the scheduler: a process killed or frozen, rows late, an attempt that starts while
the one before it still drains.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
from tests.simulation.driver_jobs import DriverJobs
from tests.simulation.network import Network
from tests.simulation.scheduler import Process, SimKilled, Thread, World
from tests.simulation.truth import NEVER

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.config.flow.settings import HeartbeatSettings
from sparkmirror.control.assignment import TaskPlan
from sparkmirror.control.commands import Stop
from sparkmirror.errors import FencedError, SparkMirrorError
from sparkmirror.kafka.settings import client_settings
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.fetch.connection import FetchLimits
from sparkmirror.pipeline.fetch.reader import TaskReader
from sparkmirror.pipeline.fetch.reader_options import ReaderOptions
from sparkmirror.pipeline.produce.writer import WritingTask, sender_options
from sparkmirror.pipeline.relay.schema import to_arrow
from sparkmirror.planning.planner import Planner
from sparkmirror.policy.loss import ENDS_THE_MIRROR, FAIL

METADATA_SECONDS = 20.0
"""How old what the source's brokers say of leaders may become."""
_ROWS_MAX = 6
_PAUSES_SHARE = 0.03
_ATTEMPTS_MAX = 8
_TICK_SECONDS = 0.5
_ENDING_SECONDS = 2.0
"""So long the tasks of a mirror that ends at a loss may go on at most."""
_KIND, _TOPIC = 0, 1
KILLED, STOPPED = "killed", "stopped"


class TaskFailed(Exception):
    """A task has failed too often: the query ends, and the mirror begins it again."""


class Stopped(Exception):
    """A person has stopped the mirror, and its tasks have ended their epoch."""


class Channel:
    """Rows on their way through Spark's JVM: in order, a few batches at most, each after a while."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rows: deque[tuple[float, pa.RecordBatch]] = deque()
        self._waiting: list[Thread] = []
        self._arrives_at = 0.0
        self.slow_until = 0.0
        self._held_until = 0.0
        self.is_over = False
        self.is_torn = False

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for thread in waiting:
            thread.wake()

    def hold(self, seconds: float) -> None:
        """What is put from here on waits so long, or until it is released."""
        self._held_until = self._world.now + seconds

    def release(self) -> None:
        now, self._held_until = self._world.now, 0.0
        self._rows = deque((min(at, now), batch) for at, batch in self._rows)
        self._arrives_at = min(self._arrives_at, now)
        self._wake()

    def put(self, batch: pa.RecordBatch) -> None:
        if self.is_torn:  # the JVM has closed the task's sockets
            raise EOFError("Spark has ended the task")
        world, thread = self._world, self._world.thread()
        delay = 0.0005 + 0.003 * world.random.random()
        if world.random.random() < _PAUSES_SHARE:  # the JVM collects its garbage
            delay += 0.2 * world.random.random()
        self._arrives_at = max(self._arrives_at, world.now + delay, self.slow_until, self._held_until)
        self._rows.append((self._arrives_at, batch))
        self._wake()
        while len(self._rows) > _ROWS_MAX and not self.is_over:
            self._waiting.append(thread)
            thread.park(world.now + 1.0)

    def end(self, *, is_torn: bool = False) -> None:
        self.is_over, self.is_torn = True, is_torn
        self._wake()

    def rows(self) -> Iterator[pa.RecordBatch]:
        world, thread = self._world, self._world.thread()
        while True:
            if self.is_torn:
                raise EOFError("Spark has ended the task")
            if self._rows and self._rows[0][0] <= world.now:
                batch = self._rows.popleft()[1]
                self._wake()
                yield batch
            elif self._rows:
                if self._held_until > world.now:
                    self._waiting.append(thread)
                thread.park(self._rows[0][0])
            elif self.is_over:
                return
            else:
                self._waiting.append(thread)
                thread.park(world.now + 1.0)


class Attempt:
    """One attempt of one task: two processes and the rows between them."""

    def __init__(self, mirror: "Mirror", plan: TaskPlan, number: int, standing: object = None) -> None:
        self.mirror = mirror
        self.plan = plan
        self.number = number
        world = mirror.world
        name = f"{mirror.name} task {plan.task} attempt {number}"
        self.reader = Process(world, f"{name} reader")
        self.writer = Process(world, f"{name} writer")
        self.reader.peer, self.writer.peer = self.writer, self.reader  # type: ignore[attr-defined]
        self.writer.standing = standing
        self.channel = Channel(world)
        self.sender: Any = None
        self.task_reader: TaskReader | None = None
        self.is_fenced = False
        self.is_replaced = False
        self.problem = ""
        self._left = 2
        self.reader.at_end.append(self._reader_killed)
        self.writer.at_end.append(self._writer_killed)
        for process in (self.reader, self.writer):
            process.at_end.append(lambda process=process: mirror.net.leave(process))
        self.reader.spawn(self._read, "reader")
        self.writer.spawn(self._write, "writer")

    @property
    def is_over(self) -> bool:
        """Whether Spark goes on: the reader has ended, and the writer too, unless the reader's end tore it."""
        return not self._left or bool(self.problem and not self.reads)

    @property
    def reads(self) -> bool:
        return self.reader.is_alive and any(not thread.is_over for thread in self.reader.threads[:1])

    def _fail(self, problem: str) -> None:
        self.problem = self.problem or problem
        self.mirror.wake()

    def _reader_killed(self) -> None:
        self._fail("its reader was killed")
        self.channel.end(is_torn=True)

    def _writer_killed(self) -> None:
        self._fail("its writer was killed")
        self.channel.end(is_torn=True)

    def _read(self) -> None:
        mirror, plan = self.mirror, self.plan
        reader: TaskReader | None = None
        try:
            if self.number:
                planner = Planner(mirror.flow, mirror.run, once=False, process=mirror.process)
                self.writer.standing = mirror.look_at_ledger()
                try:
                    plan = planner.renew(replace(plan, attempt=self.number))
                finally:
                    planner.close()
            reader = self.task_reader = TaskReader(plan, mirror.reader_options())
            for batch in reader.batches():
                self.channel.put(to_arrow(batch))
            self.channel.end()
        except SimKilled:
            raise
        except (SparkMirrorError, EOFError) as problem:
            self.is_replaced = isinstance(problem, FencedError)
            self._fail(f"reader: {problem}")
            self.channel.end(is_torn=True)
        except Exception as bug:
            mirror.world.bugs.append(bug)
            self._fail(f"reader: {bug!r}")
            self.channel.end(is_torn=True)
        finally:
            if reader is not None:
                reader.close()
            self._end()

    def _write(self) -> None:
        task = WritingTask(sender_options(self.mirror.flow))
        rows = self.channel.rows()
        try:
            for batch in rows:
                task.take(_routed(batch, self.mirror.flow))
                self.sender = task._sender
            task.finish()
        except SimKilled:
            _close_peer(task)
            raise
        except FencedError as problem:
            self.is_fenced = not self.channel.is_torn and self.reader.is_alive
            self._fail(f"fenced: {problem}")
            task.fail()
            self._drain(rows)
        except (SparkMirrorError, EOFError) as problem:
            self._fail(f"writer: {problem}")
            task.fail()
            self._drain(rows)
        except Exception as bug:
            self.mirror.world.bugs.append(bug)
            self._fail(f"writer: {bug!r}")
            task.fail()
            self._drain(rows)
        finally:
            _close_peer(task)
            self._end()

    def _drain(self, rows: Iterator[pa.RecordBatch]) -> None:
        try:
            for _ in rows:
                pass
        except EOFError:
            pass

    def _end(self) -> None:
        self._left -= 1
        self.mirror.wake()


def _close_peer(task: WritingTask) -> None:
    if task._peer is not None:
        task._peer.close()
        task._peer = None


def _routed(batch: pa.RecordBatch, flow: FlowConfig) -> pa.RecordBatch:
    """The column that the flow's plan adds in Spark."""
    kinds, topics = batch.column(_KIND).to_pylist(), batch.column(_TOPIC).to_pylist()
    names = [flow.remote_topic(topic) if kind == "run" else None for kind, topic in zip(kinds, topics, strict=True)]
    return pa.RecordBatch.from_arrays(
        [*batch.columns, pa.array(names, pa.string())], names=[*batch.schema.names, "target_topic"]
    )


class Mirror:
    """One `sparkmirror run`."""

    def __init__(
        self, world: World, net: Network, flow: FlowConfig, name: str, *, has_jobs: bool = False,
        heartbeats: Sequence[HeartbeatSettings] = (),
    ) -> None:  # fmt: skip
        self.world = world
        self.net = net
        self.flow = flow
        self.name = name
        self.jobs = DriverJobs(world, flow, heartbeats) if has_jobs else None
        self.run = f"run-{name}"
        self.process = ""
        self.queries = 0
        self.attempts: dict[int, Attempt] = {}
        self.past: list[Attempt] = []
        self.is_over = self.is_to_stop = False
        self.reason = ""
        self.began_at, self.ended_at = world.now, NEVER
        self.look_at_ledger: Callable[[], object] = lambda: None
        """Called whenever a plan is about to be made."""
        self.epochs = 0
        self.planner: Planner | None = None
        self.driver = Process(world, f"{name} driver")
        self._thread = self.driver.spawn(self._drive, "driver")
        if self.ends_at_losses:
            self.driver.spawn(self._watch_losses, "losses")

    @property
    def ends_at_losses(self) -> bool:
        return self.flow.on_data_loss.action == FAIL

    @property
    def failed(self) -> dict[TopicPartition, str]:
        """By the source's partition: the reason, as tasks say it."""
        senders = [one.sender for one in self.attempts.values() if one.sender is not None]
        return {where: why for sender in senders for where, why in sender.task_metrics.failed.items()}

    @property
    def processes(self) -> list[Process]:
        """All that live, the driver first."""
        attempts = [*self.attempts.values(), *self.past]
        found = [self.driver, *(one for attempt in attempts for one in (attempt.reader, attempt.writer))]
        return [process for process in found if process.is_alive]

    def kill(self) -> None:
        self.end(self.reason or KILLED)
        for process in self.processes:
            process.kill()

    def end(self, reason: str) -> None:
        self.is_over, self.reason = True, reason
        self.ended_at = min(self.ended_at, self.world.now)

    def stop(self) -> None:
        """It ends when its tasks have ended their epoch, which `stop_command` asks of them."""
        self.is_to_stop = True
        self.reason = STOPPED
        self.wake()

    def stop_command(self) -> Stop:
        return Stop(self.run, self.process)

    def wake(self) -> None:
        if self.driver.is_alive:
            self._thread.wake()

    def reader_options(self) -> ReaderOptions:
        flow, consumer = self.flow, self.flow.consumer
        limits = FetchLimits(
            bytes_max=flow.fetch_bytes_max, partition_bytes_max=consumer.max_partition_fetch_bytes,
            bytes_min=consumer.fetch_min_bytes, wait_ms=consumer.fetch_max_wait_ms,
            read_committed=consumer.isolation_level == "read_committed",
        )  # fmt: skip
        commands = flow.ledger_topics.commands
        return ReaderOptions(
            replace(client_settings(consumer.reach(flow.source), "reader"), metadata_age_seconds_max=METADATA_SECONDS),
            limits, flow.lease_ring_bytes,
            flow.should_replicate, (client_settings(flow.target, "reader-commands"), commands),
        )  # fmt: skip

    def _start_jobs(self) -> None:
        """Before the query begins; then jobs come and go with the lead."""
        if self.jobs is None:
            return
        if self.is_led:
            self.jobs.prepare()
        self.driver.spawn(self._tick, "jobs")

    def _watch_losses(self) -> None:
        """As `runtime.run` ends the mirror when a task says that it must; the tasks go on for a moment."""
        while not self.is_over:
            if said := next((one for one in self.failed.values() if ENDS_THE_MIRROR in one), ""):
                self.world.sleep(_ENDING_SECONDS * self.world.random.random())
                self._end(said)
                self.world.after(0.0, self.kill)
                return
            self.world.sleep(_TICK_SECONDS)

    def _end(self, reason: str) -> None:
        self.end(reason)
        self.world.tell(f"{self.name} ends: {reason}")

    @property
    def is_led(self) -> bool:
        """Whether the flow's jobs run in this process."""
        return True

    def _tick(self) -> None:
        assert self.jobs is not None
        while not self.is_over:
            self.jobs.poll(is_led=self.is_led)
            self.world.sleep(_TICK_SECONDS)
        self.jobs.end()

    def _drive(self) -> None:
        self._start_jobs()
        pause = 1.0
        while True:
            self.planner = planner = Planner(self.flow, self.run, once=False)
            try:
                while True:
                    self._note_epoch()
                    planner.end_epoch()
                    self._stay()
                    self._run_epoch(planner)
                    pause = 1.0
            except Stopped:
                self.end(STOPPED)
                with suppress(SparkMirrorError):
                    planner.close()
                return
            except FencedError as problem:
                self.end(str(problem))
                self._end_tasks()
                return
            except (SparkMirrorError, TaskFailed) as problem:
                self.world.tell(f"{self.name}: the query begins again: {problem}")
                self._end_tasks()
                with suppress(SparkMirrorError):
                    planner.close()
                self.world.sleep(pause)
                pause = min(pause * 2, 8.0)

    def _end_tasks(self) -> None:
        """As Spark ends a query: its Python workers are killed."""
        for attempt in self.attempts.values():
            attempt.reader.kill()
            attempt.writer.kill()
        self.attempts = {}

    def _run_epoch(self, planner: Planner) -> None:
        self.epochs += 1
        standing = self.look_at_ledger()
        plans = planner.begin_epoch(self.epochs)
        self.world.tell(f"{self.name}: epoch {self.epochs} begins, generation {plans[0].generation if plans else '-'}")
        self.attempts = {plan.task: Attempt(self, plan, 0, standing) for plan in plans}
        if not plans:
            self.world.sleep(1.0)
        while self.attempts:
            self._stay()
            for task, attempt in list(self.attempts.items()):
                if attempt.is_over:
                    self._take_end(task, attempt)
            if self.attempts:
                self._thread.park(self.world.now + 1.0)

    def _note_epoch(self) -> None:
        """One has ended, or the first is about to begin."""
        self.net.clusters[self.flow.target.alias].note("epoch")

    def _stay(self) -> None:
        """Raises what ends the query."""
        if self.is_to_stop and not self.attempts:
            raise Stopped

    def _take_end(self, task: int, attempt: Attempt) -> None:
        if attempt.is_fenced:
            raise FencedError(attempt.problem)
        if not attempt.problem:
            del self.attempts[task]
            return
        self.world.tell(f"{attempt.reader.name} failed: {attempt.problem}")
        attempt.reader.kill()
        self.past.append(attempt)
        if attempt.number + 1 >= _ATTEMPTS_MAX and attempt.is_replaced:
            raise FencedError(attempt.problem)  # Spark tells the last attempt's error
        if attempt.number + 1 >= _ATTEMPTS_MAX:
            raise TaskFailed(f"task {task} has failed {_ATTEMPTS_MAX} times")
        self.attempts[task] = Attempt(self, attempt.plan, attempt.number + 1)
