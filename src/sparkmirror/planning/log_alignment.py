"""Where a flow that keeps offsets goes on in a partition, by what is known of both logs; pure.

Called by `planning.offset_starts`. The target's log end is the position, if what lies before it is the flow's own. That
follows from the ledger up to its position, from the last sequence number where records alone, or fillers, lie before
the end, and else from reading who wrote the batches.
"""

from dataclasses import dataclass
from typing import Final

from sparkmirror.policy.fillers import Hole

SEQUENCES: Final = 1 << 31
PROVED_MAX: Final = 5_000_000
"""Of more offsets, which the ledger does not know, the batches are not read."""


@dataclass(frozen=True, slots=True)
class LogFacts:
    """A partition: `stored` by the ledger, None without; the source's log, mirrored from `first` on, to `source_end`;
    the target's log from `begins` to `ends`, and the last sequence number that it knows of the flow's producer."""

    stored: int | None
    first: int
    source_end: int
    begins: int
    ends: int
    last_sequence: int | None = None

    @property
    def next_sequence(self) -> int:
        """Where the log does not know the producer it takes any: the offset is as good as another."""
        last = self.ends - 1 if self.last_sequence is None else self.last_sequence
        return (last + 1) % SEQUENCES

    @property
    def is_all_ours(self) -> bool:
        """Whether as many records of the flow's producer were appended as the log has offsets."""
        return not self.ends or self.last_sequence == (self.ends - 1) % SEQUENCES


@dataclass(frozen=True, slots=True)
class GoOn:
    """Mirror from the target's log end on. Offsets before `hides` are fillers, to be deleted before."""

    hides: int | None = None


@dataclass(frozen=True, slots=True)
class Fill:
    """Append empty records first."""

    hole: Hole


@dataclass(frozen=True, slots=True)
class Prove:
    """Go on if the flow wrote all batches of these offsets."""

    offsets: Hole
    then: GoOn


@dataclass(frozen=True, slots=True)
class Refuse:
    """A clause for people."""

    reason: str


Verdict = GoOn | Fill | Prove | Refuse


def judge(facts: LogFacts) -> Verdict:
    """What is to be done before the partition is mirrored."""
    if facts.ends > facts.source_end and facts.ends > facts.first:
        return Refuse(f"the target's log ends at offset {facts.ends}, and its source's at {facts.source_end}")
    if facts.stored is not None and facts.ends:
        return _judge_known(facts, facts.stored)
    if facts.ends < facts.first:
        return Fill(Hole(facts.ends, facts.first)) if facts.is_all_ours else Refuse(_foreign(facts))
    then = GoOn(facts.first if facts.begins < facts.first else None)
    if facts.is_all_ours:
        return then
    unknown = Hole(max(facts.begins, facts.first), facts.ends)
    if unknown.stop - unknown.first > PROVED_MAX:
        return Refuse(_foreign(facts))
    return Prove(unknown, then)


def _judge_known(facts: LogFacts, stored: int) -> Verdict:
    if facts.ends < stored:
        return Refuse(f"the target's log ends at offset {facts.ends}, and had {stored} offsets before: it was cut")
    if facts.ends == stored:
        return GoOn()
    return Prove(Hole(max(stored, facts.begins), facts.ends), GoOn())


def _foreign(facts: LogFacts) -> str:
    return f"the target's log has {facts.ends - facts.begins} offsets that this flow has not written"
