"""The phases of a task's transactions, and their settings."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from sparkmirror.model import Connector

_SILENCE_SECONDS_MAX: Final = 15.0
"""Longer than an election takes: nine seconds after a broker was last heard of, by default."""


class Phase(Enum):
    STARTING = "the coordinator, and so the protocol, is not known yet"
    READY = "no transaction is open"
    OPEN = "data goes out"
    CLOSING = "what was sent is waited for, positions go out"
    ENDING = "EndTxn is under way"
    ABORTING = "all went back to what is committed; EndTxn, which aborts, is under way"
    RECOVERING = "all went back to what is committed; InitProducerId is under way"
    ADDING = "READY, and what an aborted transaction may have left is added to an empty one"
    CLEARING = "ADDING, and EndTxn, which aborts, is under way"
    LOOKING = "CLOSING, and the coordinator is asked what it waits for"
    WAITING = "RECOVERING, and the coordinator is asked what became of the transaction"
    DECIDING = "ENDING, and the coordinator is asked whether it has obeyed"
    FENCED = "the coordinator knows a newer epoch; it is asked whose"


NOTHING_OPEN: Final = (Phase.STARTING, Phase.ABORTING, Phase.RECOVERING, Phase.WAITING, Phase.FENCED)
"""Phases in which all went back to what is committed, or nothing was sent yet."""


@dataclass(frozen=True, slots=True)
class TransactionOptions:
    """`interval_seconds` between two commits while data flows, `status_seconds` between two status records.

    `target_alias` is for messages.
    """

    target_alias: str
    connector: Connector
    timeout_ms: int
    interval_seconds: float
    status_seconds: float

    @property
    def silence_seconds_max(self) -> float:
        """How long the target may acknowledge nothing of a closing transaction, and the coordinator not answer."""
        return min(_SILENCE_SECONDS_MAX, self.timeout_ms / 2000)
