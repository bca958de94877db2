"""The states of a partition buffer, and the one table of the transitions between them; pure.

A buffer is in one `State`, which says what becomes of the rows that come, and in one `Sending`, which says what may go
out next. Both change by events alone, which `pipeline.produce.buffer` and `pipeline.produce.in_flight` give; an event
that the table does not have for a state is a defect of this program.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeVar


class State(Enum):
    """What becomes of the rows that come."""

    FLOWING = "they are taken in order"
    REWINDING = "they are dropped until the reader sends `position` again"
    DRAINING = "as REWINDING, and the reader is paused until the kept batches are acknowledged"
    FAILING = "they are dropped, the reader is paused, and answers to sent batches are due"
    FAILED = "as FAILING, but all answers are in: it is tried again at `retry_at`"
    HOLDING = "as FAILING, for a cause that no retry removes"
    HELD = "as HOLDING, but all answers are in: it is not tried again in this run"


class Sending(Enum):
    """What may go out next."""

    FRESH = "batches that were never sent"
    AWAITING_ANSWERS = "nothing until the answers to all sent batches are in"
    AWAITING_LIMITS = "nothing until the limits of the target's topic are known"
    AGAIN = "the sent batches that are not acknowledged, as they were, in their order"


class Event(Enum):
    """What changes a `State` (up to REWOUND) or a `Sending` (from NOT_TAKEN on)."""

    TAKEN_ON = "the task takes the partition on; nothing waits or is under way"
    TAKEN_UP = "the reader has sent `position` again"
    OUT_OF_ORDER = "a row does not continue the partition: the reader is ordered back"
    EVICTED = "the reader needs the memory of a partition that does not move"
    DRAINED = "the kept batches are acknowledged"
    REFUSED = "the target does not take what is to be sent"
    HOLD = "records are lost, and the configuration holds such partitions"
    SETTLED = "no answer is due any more"
    GOES_ON = "the retry is due; the records are this process's own"
    REREAD = "the retry is due; the reader sends the records again"
    KEPT_FIRST = "the retry is due; the kept batches go out before the reader sends again"
    ROLLED_BACK = "the transaction is aborted; what it had is read again"
    REWOUND = "what is not acknowledged is dropped"

    NOT_TAKEN = "a batch was refused for now, or its outcome is unknown"
    LIMITS_ASKED = "the oldest batch may be beyond a limit of the target's topic"
    LIMITS_KNOWN = "the limits are known"
    ANSWERED = "all answers are in, and some batches are not acknowledged"
    ALL_TAKEN = "all answers are in, and all batches are acknowledged"
    SENT_AGAIN = "the last batch that was to go out again is sent"
    KEPT = "the sent batches are kept, to go out again as they were"
    CLEARED = "no batch is under way any more"


class ImpossibleTransition(RuntimeError):
    """A defect of this program: an event that cannot happen in the state."""


_S, _N, _E = State, Sending, Event
_ROWS: Final = (
    (_E.TAKEN_ON, tuple(State), _S.FLOWING),
    (_E.TAKEN_UP, (_S.REWINDING, _S.DRAINING), _S.FLOWING),
    (_E.OUT_OF_ORDER, (_S.FLOWING,), _S.REWINDING),
    (_E.EVICTED, (_S.FLOWING,), _S.DRAINING),
    (_E.DRAINED, (_S.DRAINING,), _S.REWINDING),
    (_E.REFUSED, (_S.FLOWING, _S.REWINDING, _S.DRAINING), _S.FAILING),
    (_E.HOLD, (_S.FLOWING, _S.REWINDING, _S.DRAINING, _S.FAILING, _S.HOLDING), _S.HOLDING),
    (_E.HOLD, (_S.FAILED, _S.HELD), _S.HELD),
    (_E.SETTLED, (_S.FAILING,), _S.FAILED),
    (_E.SETTLED, (_S.HOLDING,), _S.HELD),
    (_E.GOES_ON, (_S.FAILED,), _S.FLOWING),
    (_E.REREAD, (_S.FAILED,), _S.REWINDING),
    (_E.KEPT_FIRST, (_S.FAILED,), _S.DRAINING),
    (_E.ROLLED_BACK, (_S.FLOWING, _S.REWINDING, _S.DRAINING), _S.REWINDING),
    *((_E.ROLLED_BACK, (state,), state) for state in (_S.FAILING, _S.FAILED, _S.HOLDING, _S.HELD)),
    (_E.REWOUND, (_S.DRAINING,), _S.REWINDING),
    *((_E.REWOUND, (state,), state) for state in State if state is not _S.DRAINING),
    (_E.NOT_TAKEN, (_N.FRESH, _N.AWAITING_ANSWERS, _N.AGAIN), _N.AWAITING_ANSWERS),
    (_E.NOT_TAKEN, (_N.AWAITING_LIMITS,), _N.AWAITING_LIMITS),
    (_E.LIMITS_ASKED, (_N.FRESH, _N.AWAITING_ANSWERS, _N.AGAIN), _N.AWAITING_LIMITS),
    (_E.LIMITS_KNOWN, (_N.AWAITING_LIMITS,), _N.AWAITING_ANSWERS),
    (_E.ANSWERED, (_N.AWAITING_ANSWERS,), _N.AGAIN),
    (_E.ALL_TAKEN, (_N.AWAITING_ANSWERS,), _N.FRESH),
    (_E.SENT_AGAIN, (_N.AGAIN,), _N.FRESH),
    (_E.KEPT, tuple(Sending), _N.AGAIN),
    (_E.CLEARED, tuple(Sending), _N.FRESH),
)
TRANSITIONS: Final[Mapping[tuple[State | Sending, Event], State | Sending]] = {
    (before, event): after for event, befores, after in _ROWS for before in befores
}
"""What becomes of each state by each event that can happen in it."""

AnyState = TypeVar("AnyState", State, Sending)


def follow(before: AnyState, event: Event, where: object) -> AnyState:
    """The state after the event. Raises ImpossibleTransition; `where` is for its message."""
    after = TRANSITIONS.get((before, event))
    if after is None:
        raise ImpossibleTransition(f"{where}: {event.name} cannot happen in state {before.name}")
    assert isinstance(after, type(before)), "a row of the table leads to a state of the same kind"
    return after
