"""Looks at what the page shows and puts it into its picture: one watcher for each flow, one for each target's
heartbeats. Run again and again by jobs of `runtime.page`; reads what is on the targets, as any other process could.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress

from sparkmirror.config.flow.flows import FlowConfig, MirrorConfig
from sparkmirror.errors import ProtocolError, SparkMirrorError
from sparkmirror.kafka.clients import TopicFollower, open_admin
from sparkmirror.kafka.tail import TailRecord
from sparkmirror.ledger.gaps import Gap
from sparkmirror.ledger.mirror_records import Checkpoint
from sparkmirror.model import TopicPartition
from sparkmirror.operations.snapshots import look_topology
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.bus import BusReader
from sparkmirror.telemetry.facts import gather
from sparkmirror.telemetry.gap_follower import GapFollower
from sparkmirror.telemetry.verdict import Verdict, judge, sum_up
from sparkmirror.web import flow_snapshot
from sparkmirror.web.failures import FailureLog
from sparkmirror.web.history import SAMPLE_SECONDS, History
from sparkmirror.web.page_state import PageState, Row

_LISTS_SECONDS = 3.0
_BEATS_MAX = 600
RATE, LAG = "rate", "lag"
"""What a flow's own curves are called; those of partitions are called by them."""


class Headline:
    """The verdict on all flows together, a part of the picture; each watcher gives its own, on its thread."""

    def __init__(self, page_state: PageState) -> None:
        self._page_state = page_state
        self._lock = threading.Lock()
        self._verdicts: dict[str, Verdict] = {}

    def tell(self, verdict: Verdict) -> None:
        with self._lock:
            self._verdicts[verdict.flow] = verdict
            level, sentence = sum_up(self._verdicts.values())
            self._page_state.put("verdict", {"level": level.value, "sentence": sentence})


class FlowWatcher:
    """One flow. A round opens what is not open, and lets go of all after a failure.

    The latest run is shown, whose ever it is. `run` tells this process's: until that reports, the flow is starting.
    """

    def __init__(
        self,
        flow: FlowConfig,
        run: Callable[[], str],
        page_state: PageState,
        headline: Headline,
        file: str = "FILE",
        unwritten: Callable[[], str] = str,
    ) -> None:
        """`file` is the mirror's, for commands; `unwritten` says why the target does not take what the flow tells."""
        self._file = file
        self._unwritten = unwritten
        self.curves = History()
        self._flow = flow
        self._run = run
        self._page_state = page_state
        self._headline = headline
        self._open = ExitStack()
        self._bus: BusReader | None = None
        self._gaps: GapFollower | None = None
        self._known_gaps: tuple[Gap, ...] = ()
        self._checkpoints: TopicFollower | None = None
        self._board = StatusBoard(flow.name.source)
        self._pace = flow_snapshot.Pace()
        self._sampled_at = self._listed_at = 0.0

    def __call__(self) -> None:
        """While the target does not answer, the picture says so."""
        try:
            is_new = self._follow()
        except SparkMirrorError as problem:
            self.close()
            self._show(str(problem.args[0]), is_new=False)
            return
        self._show(self._unwritten(), is_new=is_new)

    def _follow(self) -> bool:
        """Take in what has come; whether the board has changed. Raises ClusterError."""
        is_first = self._bus is None
        bus = self._bus or self._connect()
        count = bus.poll()
        self._board = bus.board
        if time.monotonic() - self._listed_at >= _LISTS_SECONDS:
            self._listed_at = time.monotonic()
            self._read_lists()
        return is_first or count > 0

    def close(self) -> None:
        self._open.close()
        self._bus = self._gaps = self._checkpoints = None

    def _connect(self) -> BusReader:
        flow = self._flow
        admin = self._open.enter_context(open_admin(flow.target, "page"))
        self._gaps = GapFollower(flow, admin, "page")
        checkpoints = flow.policy.checkpoints_topic(flow.name.source)
        self._checkpoints = TopicFollower(flow.target, admin, checkpoints, "page")
        for follower in (self._gaps, self._checkpoints):
            self._open.callback(follower.close)
        self._bus = self._open.enter_context(BusReader(flow, "", "page", admin))
        self._bus.read_to_end()
        return self._bus

    def _read_lists(self) -> None:
        name = self._flow.name
        assert self._gaps is not None and self._checkpoints is not None
        self._known_gaps = tuple(self._gaps.read())
        self._page_state.update_rows(
            f"gaps/{name}", {key: flow_snapshot.gap_row(gap) for key, gap in self._gaps.gaps.items()}
        )
        self._page_state.update_rows(f"groups/{name}", self._group_rows(self._checkpoints.read()))

    def _group_rows(self, records: Sequence[TailRecord]) -> dict[object, Row]:
        rows: dict[object, Row] = {}
        for record in records:
            with suppress(ProtocolError):  # Others may have written there.
                one = Checkpoint.parse(record.key, record.value)
                upstream = self._flow.policy.upstream_topic(one.partition.topic) or one.partition.topic
                rows[one.group, one.partition] = flow_snapshot.group_row(one, record.timestamp_ms, upstream)
        return rows

    def _show(self, target_problem: str, *, is_new: bool) -> None:
        name, board, status = self._flow.name, self._board, self._board.status()
        now = time.monotonic()
        self._pace.measure(now, status.records, status.bytes)
        if now - self._sampled_at >= SAMPLE_SECONDS:
            self._sampled_at = now
            figures: dict[object, int] = {RATE: round(self._pace.records_per_second), LAG: status.lag_records}
            self.curves.sample(figures | dict(flow_snapshot.lags_of(board.partitions.values())))
        rates, lags = self.curves.curve(RATE), self.curves.curve(LAG)
        now_ms = time.time_ns() // 1_000_000
        facts = gather(
            name, board, now_ms, gaps=self._known_gaps, target_problem=target_problem,
            is_starting=board.run != self._run(), file=self._file,
        )  # fmt: skip
        verdict = judge(facts)
        self._headline.tell(verdict)
        part = flow_snapshot.flow_part(facts, verdict, board, self._pace, rates, lags)
        self._page_state.put(f"flow/{name}", part)
        self._page_state.put(f"events/{name}", flow_snapshot.events_part(board.history))
        if is_new:
            rows = flow_snapshot.partition_rows(board.partitions.values(), facts.held)
            self._page_state.replace_rows(f"partitions/{name}", rows)

    def curves_of(self, numbers: list[int]) -> dict[int, list[int]]:
        """The lag of partitions in the last minutes, by their rows' numbers."""
        keys = self._page_state.keys_of(f"partitions/{self._flow.name}", numbers)
        return {number: self.curves.curve(key) for number, key in keys.items() if isinstance(key, TopicPartition)}


class FeedsWatcher:
    """Who feeds whom, by the last heartbeats on one target."""

    def __init__(self, config: MirrorConfig, alias: str, page_state: PageState) -> None:
        self._config = config
        self._alias = alias
        self._page_state = page_state

    def __call__(self) -> None:
        """Raises ClusterError."""
        topology = look_topology(self._config, self._alias, _BEATS_MAX)
        self._page_state.put(f"feeds/{self._alias}", flow_snapshot.feeds_part(topology))


class FailuresWatcher:
    """The latest lines of the log."""

    def __init__(self, log: FailureLog, page_state: PageState) -> None:
        self._log = log
        self._page_state = page_state

    def __call__(self) -> None:
        self._page_state.put("failures", self._log.latest())
