"""Notes of batches that came to stand at offsets which are not theirs, on their way to the ledger. Pure; owned by
`pipeline.produce.progress`."""

from functools import partial

from sparkmirror.clock import Clock
from sparkmirror.ledger import misplaced
from sparkmirror.ledger.misplaced import Misplaced
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.ledger_entries import Entry


class MisplacedNotes:
    """They go to the positions topic, each once."""

    def __init__(self, source_alias: str, run: str, clock: Clock) -> None:
        self._source_alias = source_alias
        self._run = run
        self._clock = clock
        self._due: dict[bytes, bytes] = {}

    @property
    def are_due(self) -> bool:
        return bool(self._due)

    def add(self, where: TopicPartition, found: Misplaced, reason: str) -> None:
        key = misplaced.encode_key(self._source_alias, where, found)
        self._due[key] = misplaced.encode_value(reason, self._clock.time_ns() // 1_000_000, self._run)

    def take(self) -> list[Entry]:
        """Those that are to be stored now; what the ledger does not take is due again."""
        due, self._due = self._due, {}
        return [Entry(key, value, partial(self._return, key, value)) for key, value in due.items()]

    def _return(self, key: bytes, value: bytes) -> None:
        self._due[key] = value
