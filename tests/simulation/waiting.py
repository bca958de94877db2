"""What a simulated broker has appended, and has not answered yet: its replicas do not have it."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.simulation.wire import Produced


@dataclass(slots=True, eq=False)
class Waiting:
    """A batch, or a marker, that waits for its replicas."""

    produced: Produced
    end: int
    request: "WaitingRequest"


@dataclass(slots=True, eq=False)
class WaitingRequest:
    """`left` of what it brought wait; then it is answered."""

    answer: Callable[[], None]
    left: int = 0
