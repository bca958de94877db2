"""Fills what lies before the beginning of partitions, a part in each look, and tells the planner how far. Owned by
`planning.offset_starts`."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.kafka.start_filler import fill_start
from sparkmirror.model import TopicPartition
from sparkmirror.policy.fillers import Hole

log = logging.getLogger(__name__)

_FILL_SECONDS: Final = 20.0
"""How long one look fills: partitions that are ready do not wait longer."""


class StartFill(NamedTuple):
    """The offsets of `remote`'s log up to `stop`, where the partition begins, are filled up to `reached`. The log
    begins at `first`; `source_end` is the end of the source's."""

    where: TopicPartition
    remote: TopicPartition
    first: int
    reached: int
    stop: int
    source_end: int


class FillNotes(NamedTuple):
    """`left` is called with a partition that the next look has to go on filling, `reached` after each part that was
    filled, and with those that have to wait for others."""

    left: Callable[[TopicPartition], None]
    reached: Callable[[Sequence[StartFill]], None]


NO_NOTES: Final = FillNotes(lambda _: None, lambda _: None)


class StartFills:
    """Those of one look. `is_patient` fills them all, else as many as there is time for."""

    def __init__(self, flow: FlowConfig, notes: FillNotes, *, is_patient: bool) -> None:
        self._flow = flow
        self._notes = notes
        self._is_patient = is_patient
        self._ends_at = time.monotonic() + _FILL_SECONDS
        self._waiting: list[StartFill] = []

    def fill(self, start: StartFill, producer_id: int) -> bool:
        """Whether all of it is filled now. Raises ClusterError, EndMoved where a batch came to stand elsewhere."""
        seconds = _FILL_SECONDS if self._is_patient else self._ends_at - time.monotonic()
        if seconds <= 0:
            self._notes.left(start.where)
            self._waiting.append(start)
            return False
        name, remote, left = self._flow.name, start.remote, start.stop - start.reached
        log.info(
            "%s: %s begins at offset %d: empty records take up the %d offsets before.",
            name, remote, start.stop, left, extra={"event": "fill"},
        )  # fmt: skip
        reached = self._fill_for(seconds, start, producer_id)
        while self._is_patient and reached < start.stop:
            log.info("%s: %s has %d offsets to be filled yet.", name, remote, start.stop - reached)
            reached = self._fill_for(seconds, start._replace(reached=reached), producer_id)
        if reached < start.stop:
            self._notes.left(start.where)
        return reached == start.stop

    def _fill_for(self, seconds: float, start: StartFill, producer_id: int) -> int:
        def note(reached: int) -> None:
            self._notes.reached([start._replace(reached=reached)])

        note(start.reached)
        hole = Hole(start.reached, start.stop)
        return fill_start(self._flow.target, producer_id, start.remote, hole, seconds, note)

    def tell_waiting(self) -> None:
        """Of those that had to wait for others in this look."""
        if self._waiting:
            self._notes.reached(self._waiting)
            self._waiting = []
