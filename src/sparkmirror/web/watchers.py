"""Reads each flow and each target's heartbeats, and puts them into the page's state.

`runtime.page` runs the watchers repeatedly as jobs; they read the targets' topics, as any other process could.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from sparkmirror.config.flow.flows import FlowConfig, MirrorConfig
from sparkmirror.ledger.gaps import Gap
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.operations.snapshots import look_topology
from sparkmirror.telemetry.facts import Facts, gather
from sparkmirror.telemetry.follower import FlowFollower
from sparkmirror.telemetry.history import HistoryRecord, Sample
from sparkmirror.telemetry.pace import Pace
from sparkmirror.telemetry.verdict import Verdict, judge, sum_up
from sparkmirror.web import flow_snapshot
from sparkmirror.web.failures import FailureLog
from sparkmirror.web.history import SAMPLE_SECONDS, SAMPLES_MAX, History
from sparkmirror.web.page_state import PageState

_BEATS_MAX = 600


class Headline:
    """The verdict on all flows together, a part of the page's state. Each watcher gives the verdict on its flow, on
    its own thread. Of those `flows` whose watcher has not looked yet, nothing is known."""

    def __init__(self, page_state: PageState, flows: Iterable[FlowName]) -> None:
        self._page_state = page_state
        self._lock = threading.Lock()
        self._verdicts = {str(flow): judge(Facts(flow=flow, now_ms=0, is_starting=True)) for flow in flows}

    def tell(self, verdict: Verdict) -> None:
        with self._lock:
            self._verdicts[verdict.flow] = verdict
            level, sentence = sum_up(self._verdicts.values())
            self._page_state.put("verdict", {"level": level.value, "sentence": sentence})


class FlowWatcher:
    """Watches the latest run of one flow, whichever process runs it. `run` returns this process's run; until that
    run reports, the flow counts as starting."""

    def __init__(
        self,
        flow: FlowConfig,
        run: Callable[[], str],
        page_state: PageState,
        headline: Headline,
        file: str = "FILE",
        unwritten: Callable[[], str] = str,
    ) -> None:
        """`file` is the mirror's file, for commands; `unwritten` returns why the flow's status cannot be written to
        the target."""
        self._file = file
        self._unwritten = unwritten
        self.curves = History()
        self._flow = flow
        self._run = run
        self._page_state = page_state
        self._headline = headline
        self.follower = FlowFollower(flow, "page")
        self._gaps: Mapping[bytes | None, Gap] = {}
        self._recent: deque[Sample] = deque(maxlen=SAMPLES_MAX)
        self._history: HistoryRecord | None = None
        self._pace = Pace()
        self._brakes = flow_snapshot.Brakes()
        self._partitions = flow_snapshot.PartitionTable(page_state, f"partitions/{flow.name}")
        self._sampled_at = 0.0

    def __call__(self) -> None:
        """Reads new records and shows them; while the target does not answer, the page says so."""
        is_new = False
        try:
            is_new = self.follower.poll()
        finally:
            self._take(is_new=is_new)

    def _take(self, *, is_new: bool) -> None:
        if self.follower.gaps is not self._gaps:
            self._gaps = self.follower.gaps
            rows = {key: flow_snapshot.gap_row(gap) for key, gap in self._gaps.items()}
            self._page_state.update_rows(f"gaps/{self._flow.name}", rows)
        self._show(self.follower.problem or self._unwritten(), is_new=is_new)

    def _show(self, target_problem: str, *, is_new: bool) -> None:
        name, board = self._flow.name, self.follower.board
        status = board.status()
        now, now_ms = time.monotonic(), time.time_ns() // 1_000_000
        self._pace.measure(now, status.records, status.bytes)
        self._brakes.measure(now, status)
        facts = gather(
            name, board, now_ms, gaps=self._gaps.values(), target_problem=target_problem,
            is_starting=board.run != self._run(), file=self._file,
        )  # fmt: skip
        verdict = judge(facts)
        self._headline.tell(verdict)
        part = flow_snapshot.flow_part(facts, verdict, board, self._pace, self._brakes)
        self._page_state.put(f"flow/{name}", part)
        self._page_state.put(f"works/{name}", flow_snapshot.works_part(facts))
        if now - self._sampled_at >= SAMPLE_SECONDS:
            self._sampled_at = now
            self._sample(now_ms, part["records_per_second"], verdict.lag_records)
        if board.history is not self._history:
            self._history = board.history
            self._page_state.put(f"history/{name}", flow_snapshot.history_part(board.history))
        if is_new:
            self._partitions.show(board, facts.held)

    def _sample(self, now_ms: int, rate: float | None, lag: int | None) -> None:
        """Adds one point to each curve of the last minutes; a value that is not known is a gap in the curve."""
        self._recent.append(Sample(now_ms, None if rate is None else round(rate), lag))
        self._page_state.put(f"recent/{self._flow.name}", [list(one) for one in self._recent])
        lags = flow_snapshot.lags_of(self.follower.board.partitions.values())
        self.curves.sample({where: None if rate is None else known for where, known in lags.items()})

    def curves_of(self, numbers: list[int]) -> dict[int, list[int | None]]:
        """The lag of partitions in the last minutes, by their rows' numbers."""
        keys = self._page_state.keys_of(f"partitions/{self._flow.name}", numbers)
        return {number: self.curves.curve(key) for number, key in keys.items() if isinstance(key, TopicPartition)}


class FeedsWatcher:
    """Watches the last heartbeats on one target, which show the pairs of clusters."""

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
