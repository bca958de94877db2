"""Writes the driver's status records: its flow, with a beat every three seconds, and its control-plane jobs.

Each flow has a thread, so that a target that does not answer delays no other flow. Made by `runtime.run`;
`runtime.jobs` reports to it too.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from sparkmirror import __version__
from sparkmirror.clock import to_the_second
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import SparkMirrorError, describe_unexpected
from sparkmirror.kafka.publish import Publisher, Record
from sparkmirror.telemetry.history import HistoryRecord
from sparkmirror.telemetry.records import (
    PROCESS_BEAT_SECONDS,
    FlowRecord,
    FlowState,
    JobRecord,
    StatusRecord,
    encode_record,
    key_of,
)

log = logging.getLogger(__name__)

_WRITE_SECONDS_MAX = 5.0
_LAST_SECONDS_MAX = 2.0


class FlowReporter:
    """Writes records to the flow's status topic: at once if a state changed, else with the next beat.

    A record that cannot be written is written with a later beat; the failure is logged once.
    """

    def __init__(self, flow: FlowConfig, run: str, digest: str) -> None:
        self._flow = flow
        self._topic = flow.ledger_topics.status
        self._record = FlowRecord(
            run, FlowState.STARTING, version=__version__, host=socket.gethostname(), pid=os.getpid(),
            started_at_ms=time.time_ns() // 1_000_000, digest=digest,
        )  # fmt: skip
        self._key = key_of(flow.name.source, self._record)
        self._outdated: set[bytes] = set()
        self._jobs: dict[str, JobRecord] = {}
        self._history: HistoryRecord | None = None
        self._news = threading.Condition()
        self._is_due = True
        self._is_over = False
        self._told = ""
        self._publisher: Publisher | None = None
        self._stored: dict[bytes, bytes | None] = {}
        self._thread = threading.Thread(target=self._run, name=f"{flow.name} status", daemon=True)

    def why_unwritten(self) -> str:
        """Why the flow's status cannot be written to the target; empty while it can."""
        return self._told

    def start(self) -> None:
        """Starts the thread; the flow's internal topics must exist."""
        self._thread.start()

    def tell(self, state: FlowState, reason: str = "", retry_at_ms: int | None = None) -> None:
        """Reports the flow's state; a second RUNNING counts as a restart."""
        with self._news:
            again = state is FlowState.RUNNING and self._record.state is FlowState.RESTARTING
            restarts = self._record.restarts + again
            self._record = replace(self._record, state=state, reason=reason, retry_at_ms=retry_at_ms, restarts=restarts)
            self._wake()

    def tell_copied(self) -> None:
        """Reports that the bounded run has mirrored all that was there of the flow."""
        with self._news:
            self._record = replace(self._record, is_copied=True)
            self._wake()

    def belong(self, run: str) -> None:
        """Sets the run that the process takes part in, alone or with others."""
        with self._news:
            self._record = replace(self._record, run=run)

    def count(self, records: int, size: int, outdated: set[bytes]) -> None:
        """Takes the sums of the run, for readers that come after compaction. `outdated` are the keys of processes of
        earlier runs, whose records can be deleted; this clears it."""
        with self._news:
            self._record = replace(self._record, records=records, bytes=size)
            self._outdated |= outdated
            outdated.clear()

    def tell_job(self, job: JobRecord) -> None:
        with self._news:
            before = self._jobs.get(job.name)
            self._jobs[job.name] = replace(job, run=self._record.run)
            if before is None or before.state is not job.state:
                self._wake()

    def tell_history(self, history: HistoryRecord) -> None:
        """Sets the flow's history; it is written with the next record, if it has changed."""
        with self._news:
            self._history = history

    def finish(self, state: FlowState, reason: str = "") -> None:
        """Reports the last state; `join` waits until it is written."""
        with self._news:
            self._is_over = True
            self._record = replace(self._record, state=state, reason=reason, retry_at_ms=None)
            self._wake()

    def join(self, seconds_max: float) -> None:
        if self._thread.is_alive():
            self._thread.join(seconds_max)

    def _wake(self) -> None:
        self._is_due = True
        self._news.notify()

    def _run(self) -> None:
        over = False
        while not over:
            with self._news:
                if not self._is_due and not self._is_over:
                    self._news.wait(to_the_second(PROCESS_BEAT_SECONDS))
                self._is_due = False
                over, records = self._is_over, self._records()
            self._write([one for one in records if self._is_news(one)], over=over)
        if self._publisher is not None:
            self._publisher.close()

    def _write(self, records: list[Record], *, over: bool) -> None:
        try:
            if self._publisher is None:
                seconds_max = _LAST_SECONDS_MAX if over else _WRITE_SECONDS_MAX
                self._publisher = Publisher(self._flow.target, "status", seconds_max)
            self._publisher.write(self._topic, records)
        except SparkMirrorError as problem:
            self._give_up(str(problem))
            return
        except Exception as problem:  # a thread that ended here would leave a process that seems to have been killed
            self._give_up(describe_unexpected(problem))
            return
        self._stored.update((key, value) for key, value in records if value is not None)
        with self._news:
            self._outdated -= {key for key, value in records if value is None}
        self._told = ""

    def _give_up(self, sentence: str) -> None:
        if self._publisher is not None:
            self._publisher.close()
            self._publisher = None
        if self._told != sentence:
            self._told = sentence
            log.warning("%s: its status could not be written: %s", self._flow.name, sentence)

    def _is_news(self, record: Record) -> bool:
        key, value = record
        return key == self._key or value is None or self._stored.get(key) != value

    def _records(self) -> list[Record]:
        """The records to write, always with the flow's own; None deletes a record."""
        records: list[StatusRecord] = [self._record, *self._jobs.values()]
        if self._history is not None:
            records.append(self._history)
        gone: list[Record] = [(key, None) for key in self._outdated if key != self._key]
        return [*(encode_record(self._flow.name.source, record) for record in records), *gone]


@contextmanager
def reporting(reporters: Sequence[FlowReporter]) -> Iterator[None]:
    """Starts the reporters, and lets them write the final state at the end."""
    for reporter in reporters:
        reporter.start()
    state, reason = FlowState.STOPPED, ""
    try:
        yield
    except SparkMirrorError as problem:
        state, reason = FlowState.FAILED, str(problem.args[0])
        raise
    except BaseException as problem:
        state, reason = FlowState.FAILED, f"{type(problem).__name__}: {problem}"
        raise
    finally:
        for reporter in reporters:
            reporter.finish(state, reason)
        give_up_at = time.monotonic() + _LAST_SECONDS_MAX
        for reporter in reporters:
            reporter.join(max(give_up_at - time.monotonic(), 0.0))
