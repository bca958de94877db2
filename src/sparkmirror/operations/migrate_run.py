"""The steps of a migration: copy, follow until the writers have moved, compare, move the groups.

`operations.steps` applies them; `cli.migrate` passes in the functions that require Spark. Groups move as in a failover.
"""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.model import TopicPartition
from sparkmirror.operations.cluster_pair import mirrored_offsets, mirrored_partitions
from sparkmirror.operations.failover import plan_behind
from sparkmirror.operations.failover_run import (
    Fence,
    name_lacking,
    note_ends,
    noted_ends,
    plan_lacking,
)
from sparkmirror.operations.steps import Note, Teller


class Proved(Protocol):
    """The result of a comparison, as `verify.report.FlowReport` has it."""

    @property
    def verdict(self) -> str: ...

    @property
    def headline(self) -> str: ...

    @property
    def first_difference(self) -> str: ...

    @property
    def behind(self) -> int: ...

    @property
    def chosen(self) -> int: ...


class Copy:
    """A step that mirrors all records that the source has when it begins."""

    name = "copy"

    def __init__(self, flow: FlowConfig, source: Admin, copy: Callable[[], object]) -> None:
        """`copy` runs the mirror once, from its positions on."""
        self._flow = flow
        self._source = source
        self._copy = copy

    def prepare(self) -> Note:
        """The ends to reach. Raises OffsetsUnknown while the end of a partition is not known."""
        return note_ends(self._flow, self._source)

    def apply(self, note: Note) -> str:
        """Copies. Raises the mirror's errors, and SparkMirrorError when it was stopped before the end."""
        self._copy()
        ends = noted_ends(note, self._source)
        if lacking := plan_lacking(ends, mirrored_offsets(self._flow, self._source)):
            raise SparkMirrorError(
                f"{self._flow.name}: the copy was stopped: {name_lacking(lacking)}.",
                "Run it again: it goes on there. After a topic was deleted on the source, --forget and begin again.",
            )
        return f"all that {len(ends)} partitions held when this step began is copied"

    def undo(self, note: Note) -> str:
        return f"what was copied of {len(note['ends'])} partitions stays on {self._flow.name.target}"


@dataclass(frozen=True, slots=True)
class CutOver:
    """The condition to stop following: all records are mirrored, and no record was written for `quiet_seconds`. With
    `with_fence` the step `fence` keeps writers out first. The step notes both values, and they count when the step
    is resumed or undone."""

    quiet_seconds: float
    fence: Fence
    with_fence: bool = False


class Follow:
    """A step that mirrors until no producer writes to the source any more and all its records are mirrored."""

    name = "follow"

    def __init__(
        self,
        flow: FlowConfig,
        source: Admin,
        cut_over: CutOver,
        mirror_until: Callable[[Callable[[], bool]], bool],
        tell: Teller,
    ) -> None:
        """`mirror_until` mirrors until the function that it is given returns True; it returns False when it was
        stopped before."""
        self._flow = flow
        self._source = source
        self._cut_over = cut_over
        self._mirror_until = mirror_until
        self._tell = tell

    def prepare(self) -> Note:
        return {"fence": dict(self._cut_over.fence.prepare()) if self._cut_over.with_fence else None}

    def apply(self, note: Note) -> str:
        """Mirrors. Raises SparkMirrorError when it was stopped before the end, or asks for a fence that the step began
        without."""
        if self._cut_over.with_fence and note["fence"] is None:
            raise SparkMirrorError(
                f"{self._flow.name}: the step {Follow.name} was begun without --fence, so it would keep nobody out.",
                "Run it again without --fence, and stop what writes to the source; or --undo, and begin with --fence.",
            )
        watch = _Watch(self._flow, self._source, self._cut_over, note, self._tell)
        if not self._mirror_until(watch.is_over):
            raise SparkMirrorError(f"{self._flow.name}: stopped while following.", "Run it again: it goes on there.")
        return "all is mirrored, and nobody writes to the source any more"

    def undo(self, note: Note) -> str:
        if note["fence"] is None:
            return "there is nothing to take back"
        return self._cut_over.fence.undo(note["fence"])


class _Watch:
    """Decides when following is over; called repeatedly while the mirror runs."""

    def __init__(self, flow: FlowConfig, source: Admin, cut_over: CutOver, note: Note, tell: Teller) -> None:
        self._flow = flow
        self._source = source
        self._cut_over = cut_over
        self._fence_note: Note | None = note["fence"]
        self._tell = tell
        self._ends: Mapping[TopicPartition, int] | None = None
        self._quiet_since = time.monotonic()
        self._caught_up: frozenset[str] | None = None

    def is_over(self) -> bool:
        """Whether the condition is met; the last look is at what any broker knows. Raises OffsetsUnknown while the end
        of a partition is not known, and what a fence raises: it is tried again at the next look."""
        partitions = mirrored_partitions(self._flow, self._source)
        ends = self._source.newest_ends(partitions).all()
        if ends != self._ends:
            self._ends, self._quiet_since = ends, time.monotonic()
        starts = self._source.earliest_offsets(partitions).all()
        if plan_behind(mirrored_offsets(self._flow, self._source), starts, ends, {}):
            return False
        topics = frozenset(where.topic for where in partitions)
        if self._caught_up is None or (self._fence_note is not None and not topics <= self._caught_up):
            self._catch_up()
            self._caught_up = topics
        is_quiet = self._ends is not None and time.monotonic() - self._quiet_since >= self._cut_over.quiet_seconds
        return is_quiet and not self._are_more(partitions)

    def _are_more(self, partitions: Collection[TopicPartition]) -> bool:
        """Whether other brokers know more partitions than the one that was asked, which most of them know."""
        more = {*mirrored_partitions(self._flow, self._source, by_any=True)}.difference(partitions)
        found = self._source.newest_ends(more) if more else None
        return found is not None and bool(found.known or found.unknown)

    def _catch_up(self) -> None:
        if self._fence_note is None:
            source, quiet = self._flow.name.source, f"{self._cut_over.quiet_seconds:g} s"
            self._tell(Follow.name, f"caught up: stop what writes to {source}; this ends when nobody has for {quiet}")
            return
        self._fence_note = self._cut_over.fence.grow(self._fence_note)
        self._tell(Follow.name, self._cut_over.fence.deny(self._fence_note))
        self._ends = None  # a record may have come after this look, and before the fence


class Prove:
    """A step that compares both clusters record for record, and finds that nothing is left to mirror."""

    name = "verify"

    def __init__(self, flow: FlowConfig, verify: Callable[[], Proved]) -> None:
        self._flow = flow
        self._verify = verify

    def prepare(self) -> Note:
        return {}

    def apply(self, note: Note) -> str:  # noqa: ARG002
        """Compares. Raises SparkMirrorError where the target differs from the source, or lacks records of it."""
        found = self._verify()
        if not found.chosen:
            hint = f"See `sparkmirror topics --flow '{self._flow.name}'`: are `topics` and the rights right?"
            raise SparkMirrorError(f"{self._flow.name}: no mirrored topic is there to be compared.", hint)
        if found.verdict != "equal":
            where = f"; {found.first_difference}" if found.first_difference else ""
            raise SparkMirrorError(
                f"{found.headline}{where}",
                f"See `sparkmirror verify --flow '{self._flow.name}'`; mend it, and run this again.",
            )
        if found.behind:
            flow = self._flow.name
            raise SparkMirrorError(
                f"{flow}: {flow.source} has {found.behind:,} offsets that are not mirrored: somebody has written since "
                "the mirror stopped.",
                "Stop all producers; then --forget, and run this again: only what is missing is copied.",
            )
        return found.headline

    def undo(self, note: Note) -> str:  # noqa: ARG002
        return "there is nothing to take back"
