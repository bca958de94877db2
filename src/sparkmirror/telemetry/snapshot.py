"""One flow at one moment, from which `telemetry.metrics` reads all values; pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sparkmirror.ledger.gaps import Gap
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.telemetry.board import FlowStatus, StatusBoard
from sparkmirror.telemetry.facts import gather
from sparkmirror.telemetry.records import CanaryState, FlowState, Spread
from sparkmirror.telemetry.verdict import Verdict, judge


@dataclass(frozen=True, slots=True)
class FlowSnapshot:
    """One flow at `now_ms` (ms since 1970), from its board. `is_read` is False while its target does not answer.

    `remote_topic` returns the name of a source topic on the target. `checkpoints` are the checkpoint latencies of this
    process, by group and partition. `gaps` is the whole gap ledger.
    """

    flow: FlowName
    board: StatusBoard
    now_ms: int
    remote_topic: Callable[[str], str]
    is_read: bool = True
    checkpoints: Mapping[tuple[str, TopicPartition], Spread] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()
    status: FlowStatus = field(init=False)
    verdict: Verdict = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", self.board.status())
        problem = "" if self.is_read else "its topics cannot be read"
        facts = gather(self.flow, self.board, self.now_ms, gaps=self.gaps, target_problem=problem)
        object.__setattr__(self, "verdict", judge(facts))

    @property
    def state(self) -> FlowState | None:
        return self.board.state_at(self.now_ms)

    @property
    def canary(self) -> CanaryState:
        return self.board.canary or CanaryState("")

    @property
    def is_probed(self) -> bool:
        """Whether the run has a canary; what one of an earlier run has left says nothing of now."""
        return bool(self.canary.run) and "canary" in self.board.jobs
