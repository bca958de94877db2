"""Where a flow that keeps offsets goes on in a partition, by what is known of both logs; pure.

Called by `planning.offset_starts`. The target's log end is the position, if what lies before it is the flow's own, and
stands where the source has it. The ledger says so up to its position. What lies above is read on both clusters
(`planning.log_proof`): who wrote a batch does not tell that it stands at its own offsets.
"""

from dataclasses import dataclass
from typing import Final

from sparkmirror.model import Topic
from sparkmirror.policy.fillers import SEQUENCES, Hole

PROVED_MAX: Final = 5_000_000
"""Of more offsets, which the ledger does not know, the batches are not read."""
_WHOLE_MAX: Final = 200_000
_SAMPLES: Final = 32
_SAMPLE_OFFSETS: Final = 2_000
_LAST_OFFSETS: Final = 100_000
"""Of a log that is adopted: up to so many offsets are all compared, else samples, and so many at its end."""


@dataclass(frozen=True, slots=True)
class LogFacts:
    """A partition: `stored` by the ledger, None without; the source's log, mirrored from `first` on, to `source_end`;
    the target's log from `begins` to `ends`, and the last sequence number that it knows of the flow's producer; the
    source's log begins at `source_begins`. The flow `adopts` what something else has written with the same offsets.
    `stored_sequence` is that of the next record by the ledger, None if unknown; `chosen` is the start that the ledger
    has beside a position, 0 without one."""

    stored: int | None
    first: int
    source_end: int
    begins: int
    ends: int
    last_sequence: int | None = None
    source_begins: int = 0
    adopts: bool = False
    stored_sequence: int | None = None
    chosen: int = 0

    def sequence_after(self, written: int | None = None) -> int:
        """The sequence number with which the flow goes on; `written` follows its last batch that was read above the
        stored position. A log that does not know the producer takes any, so all processes must come to the same one,
        since the first to append makes it known: what the ledger has tells, and without that the offset."""
        if self.last_sequence is not None:
            return (self.last_sequence + 1) % SEQUENCES
        by_ledger = self.stored_sequence if written is None else written
        return self.ends % SEQUENCES if by_ledger is None else by_ledger

    @property
    def is_all_ours(self) -> bool:
        """Whether as many records of the flow's producer were appended as the log has offsets."""
        return not self.ends or self.last_sequence == (self.ends - 1) % SEQUENCES


@dataclass(frozen=True, slots=True)
class GoOn:
    """Mirror from the target's log end on. Offsets before `hides` are to be deleted before, if they are fillers: what
    else lies there the source may have no longer. If they are not, those before `or_hides` are looked at."""

    hides: int | None = None
    or_hides: int | None = None


@dataclass(frozen=True, slots=True)
class Prove:
    """Go on if both logs have the same in these offsets, by the flow."""

    offsets: Hole
    then: GoOn


@dataclass(frozen=True, slots=True)
class Adopt:
    """Go on if both logs have the same in these offsets; it does not matter who wrote them."""

    samples: tuple[Hole, ...]
    then: GoOn


@dataclass(frozen=True, slots=True)
class Refuse:
    """A clause for people. What is `foreign` may be adopted."""

    reason: str
    is_foreign: bool = False


@dataclass(frozen=True, slots=True)
class Fill:
    """Append empty records first. A log that has others already is to be dealt with `otherwise`; None for an empty
    one."""

    hole: Hole
    otherwise: GoOn | Prove | Adopt | Refuse | None = None


Verdict = GoOn | Fill | Prove | Adopt | Refuse


def why_misfit(here: Topic | None, there: Topic | None, *, grows: bool) -> str:
    """Why a topic of the source cannot keep its offsets in one of the target, "" where it may. It `grows` there with
    its source, unless others make it."""
    if here is None or there is None:
        return ""
    counts = here.partitions, there.partitions
    differ = counts[0] < counts[1] if grows else counts[0] != counts[1]
    return "it has {} partitions on the source and {} on the target".format(*counts) if differ else ""


def judge(facts: LogFacts) -> Verdict:
    """What is to be done before the partition is mirrored."""
    if facts.ends > facts.source_end and facts.ends > facts.first:
        return Refuse(f"the target's log ends at offset {facts.ends}, and its source's at {facts.source_end}")
    if facts.stored is not None:
        return _judge_known(facts, facts.stored)
    if not facts.is_all_ours:
        if facts.adopts:
            return _judge_foreign(facts)
        verdict = _judge_mixed(facts)
        return Fill(Hole(facts.ends, facts.first), verdict) if _may_be_begun(facts) else verdict
    if facts.ends < facts.first:
        return Fill(Hole(facts.ends, facts.first), _without_filling(facts))
    return _prove(facts, facts.first, _hides(facts))


def _may_be_begun(facts: LogFacts) -> bool:
    """Whether it may be a start that was filled in part, by a producer that the log has forgotten since."""
    return facts.last_sequence is None and facts.begins < facts.ends < facts.first


def _judge_mixed(facts: LogFacts) -> GoOn | Prove | Adopt | Refuse:
    """The ledger knows no position, and the log has more than records of the flow's producer: all of it is read."""
    if facts.ends < facts.first or facts.ends - facts.begins > PROVED_MAX:
        return Refuse(_foreign(facts), is_foreign=True)
    whole, then = Hole(facts.begins, facts.ends), GoOn(_hides(facts))
    return Prove(whole, then) if whole.first < whole.stop else _judge_empty(facts, then)


def _judge_foreign(facts: LogFacts) -> GoOn | Prove | Adopt | Refuse:
    """What something else has written has no start of the flow's: it is gone on with at its end."""
    first = max(facts.begins, facts.source_begins)
    if first < facts.ends:
        return Adopt(spread_samples(Hole(first, facts.ends)), GoOn())
    if facts.begins == facts.ends >= facts.source_begins:
        return _judge_empty(facts, GoOn())
    return Refuse(
        f"the target's log ends at offset {facts.ends}, and its source's begins at {facts.source_begins}: they have no "
        "offset in common that could be compared"
    )


def spread_samples(offsets: Hole) -> tuple[Hole, ...]:
    """What of these offsets is compared, in their order: all of a few, else the first ones, those at the end, and
    others in equal distances between."""
    last = offsets.stop - _LAST_OFFSETS
    if offsets.stop - offsets.first <= _WHOLE_MAX:
        return (offsets,)
    starts = (offsets.first + (last - offsets.first) * at // _SAMPLES for at in range(_SAMPLES))
    return (*(Hole(start, min(start + _SAMPLE_OFFSETS, last)) for start in starts), Hole(last, offsets.stop))


def _hides(facts: LogFacts) -> int | None:
    return facts.first if facts.begins < facts.first else None


def why_unknown(facts: LogFacts, common: int) -> str:
    """Why nobody knows whether the target had what its source has before the target's log begins, "" where that is
    known: that log's start may be that of another log of the source, unless they have records in `common`."""
    first = max(facts.first, facts.source_begins)
    if facts.stored is not None or common or first >= facts.begins:
        return ""
    state = "is empty at" if facts.begins == facts.ends else "has nothing in common with its source's and begins at"
    return (
        f"no position is stored, the target's log {state} offset {facts.begins}, and its source has records from "
        f"offset {first} on: nobody knows whether they were mirrored"
    )


def _judge_empty(facts: LogFacts, then: GoOn) -> GoOn | Refuse:
    reason = why_unknown(facts, 0)
    return Refuse(reason) if reason else then


def _prove(facts: LogFacts, first: int, hides: int | None) -> GoOn | Prove | Adopt | Refuse:
    """Sequence numbers that equal the offsets of a long log vouch for what is not read of it. A log that was adopted
    once, and mirrored since, has such ones too."""
    if facts.begins == facts.ends:
        return _judge_empty(facts, GoOn(hides))
    first = max(first, facts.begins, facts.source_begins)
    if first >= facts.ends:
        return GoOn(hides)
    if facts.adopts:
        return Adopt(spread_samples(Hole(first, facts.ends)), GoOn(hides))
    return Prove(Hole(max(first, facts.ends - PROVED_MAX), facts.ends), GoOn(hides))


def _without_filling(facts: LogFacts) -> GoOn | Prove | Adopt | Refuse | None:
    """For a log that ends before `first`, and has records that were mirrored: its position was lost."""
    if facts.begins >= facts.ends:
        return None
    if facts.ends < facts.source_begins:
        return Refuse(
            f"no position is stored, the target's log ends at offset {facts.ends}, and its source's begins at "
            f"{facts.source_begins}: the source may not have its records any more"
        )
    return _prove(facts, 0, None)


def _judge_known(facts: LogFacts, stored: int) -> Verdict:
    if facts.ends < stored:
        return Refuse(f"the target's log ends at offset {facts.ends}, and had {stored} offsets before: it was cut")
    then = GoOn(*_brought_back(facts))
    if facts.ends == stored:
        return Refuse(_written_again(facts)) if _is_written_again(facts) else then
    return Prove(Hole(max(stored, facts.begins), facts.ends), then)


def proved_to(facts: LogFacts, own: int | None) -> int:
    """Where a proved log is gone on with: its end. Where the source has nothing left of what lies above the stored
    position, a filler behind the flow's `own` last batch may stand where a record was, as a marker that came twice
    does: it is gone on with behind that batch, so that the gap which follows begins there. What the target has deleted
    since was mirrored."""
    if facts.stored is None or facts.source_begins < facts.ends:
        return facts.ends
    return max(facts.stored, own or 0, facts.begins)


def _is_written_again(facts: LogFacts) -> bool:
    """A log that was cut may have grown to the position again, by batches that were under way, or beyond, by fillers,
    which have no numbers: its last number is one of before then. A later one leaves room for as many records above the
    position as it has counted: retention may have taken those."""
    if facts.stored is None or facts.stored_sequence is None or facts.last_sequence is None:
        return False
    return (facts.sequence_after() - facts.stored_sequence) % SEQUENCES > facts.ends - facts.stored


def why_cut(facts: LogFacts, written: int | None) -> str:
    """Why what was proved above the stored position stands behind another record than before, "" where it does not.
    `written` follows the flow's last batch there, of which `log_proof.require_own` has compared the number."""
    if written is not None or not _is_written_again(facts):
        return ""
    return (
        f"the target's log has only fillers above offset {facts.stored}, behind another record than before, "
        "by its sequence number: it was cut, and written again"
    )


def _written_again(facts: LogFacts) -> str:
    return (
        f"the target's log ends at offset {facts.ends}, as before, but behind another record, by its sequence number: "
        "it was cut, and written again"
    )


def _brought_back(facts: LogFacts) -> list[int]:
    """A broker that is killed within a minute may have forgotten that its log was deleted up to here: to the start that
    was chosen, or, where none was or the log began before it, to where its source began."""
    places = {facts.chosen, facts.source_begins} if not facts.begins else ()
    return sorted((place for place in places if 0 < place <= facts.ends), reverse=True)


def _foreign(facts: LogFacts) -> str:
    return f"the target's log has {facts.ends - facts.begins} offsets that this flow has not written"
