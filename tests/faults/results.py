"""What the fault matrix found: rows, kept in a JSON file over several runs, and the page that shows them."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

_DELIVERIES = ("at least once", "exactly once", "exactly once, by transforms", "identical offsets")
_INTRODUCTION = """\
# Faults, and what came of them

`make faults` with `FAULTS_PAGE=docs/faults.md` writes this page. Each row is a fault that was injected into a running
flow while a producer wrote 1,000 numbered records a second to two partitions. An independent consumer (librdkafka,
read_committed) then checked each record: none is missing and each follows its predecessor. It counted the repeated
records, and checked that the offset map translates no source offset to a place after its record. A cell says how many
times the fault was injected, and with which random seeds, which chose brokers, workers and places in the protocol.

- **caught up**: the longest time in seconds from the end of the fault until all records had arrived that were produced
  by one second after it; that second does not count.
- **silence**: the longest time during the fault in which no record arrived, while the consumer could read.
- **repeated**: the most records that one injection repeated. At least once may repeat records that were sent after the
  last stored position (positions are stored once a second), exactly once none. A process that slept while another took
  over may also repeat, when it wakes, the records that it had under way: at most those written since the fault began.
- **map behind**: the largest distance by which a source offset translates to a place before its record.

"Exactly once, by transforms": a transform sends every second record to another topic, so that each range of the source
goes to two target partitions. Both topics were checked.

"Identical offsets": the flow has `preserve.offsets.enabled`. A second producer aborts a transaction in each partition
of the source three times a second, so that its log has offsets without a record. Each record must lie on the target at
its offset of the source, once; "map behind" does not apply.

Kill points are places of the protocol at which a worker ends itself by SIGKILL (`sparkmirror.testing.kill_points`).
Those after compiled turns lie where records were announced or written of which no book is kept yet; while another is
armed, turns are Python's.

`make pairs` writes the sections "While it lasts". A second event happened while the fault was in force, or within two
seconds after a fault without duration. In the pairs with a second process that shares the flow, that process had to
take over the tasks of the first, which was suspended and woke afterwards. In the pairs where the source topic was
deleted and made again, all records of the new topic must have arrived, and the gap ledger must say at which offset the
mirror left the old topic: the records that arrived from it end there. In all other pairs no gap may be reported.
"""


@dataclass(frozen=True, slots=True)
class Result:
    """One strike. `problem` is empty when all was right, or says what was not, or why it could not be tried."""

    fault: str
    delivery: str
    brokers: int
    seed: int
    caught_up_seconds: float = 0.0
    repeats: int = 0
    map_behind: int = 0
    silence_seconds: float = -1.0
    """-1 where it was not measured."""
    problem: str = ""
    was_possible: bool = True
    second: str = ""
    """The event that happened while the fault lasted; empty for the fault alone."""

    @property
    def cell(self) -> tuple[str, str, int, int, str]:
        """What was struck, and with which dice."""
        return self.fault, self.delivery, self.brokers, self.seed, self.second

    def that_measured(self, caught_up: float, repeats: int, map_behind: int, silence: float) -> "Result":
        """Times in seconds."""
        return replace(
            self,
            caught_up_seconds=round(caught_up, 1),
            repeats=repeats,
            map_behind=map_behind,
            silence_seconds=round(silence, 1),
        )

    def that_failed(self, problem: str) -> "Result":
        return replace(self, problem=problem)

    def that_was_impossible(self, reason: str) -> "Result":
        return replace(self, problem=reason, was_possible=False)


class Results:
    """Those of other runs stay, unless the same cell was struck with the same seed again."""

    def __init__(self, page: Path) -> None:
        self._page = page
        self._file = page.with_suffix(".json")

    def add(self, result: Result) -> None:
        """Into the file as it is now: another run may have added to it meanwhile."""
        rows, found = self._read()
        rows = [row for row in rows if row.cell != result.cell]
        rows.append(result)
        rows.sort(key=lambda row: (row.second, row.delivery, row.brokers, row.fault, row.seed))
        stored = {"found": found, "results": [asdict(row) for row in rows]}
        self._file.write_text(json.dumps(stored, indent=1) + "\n")
        self._page.write_text(render(rows, found))

    def is_well(self, wanted: Result) -> bool:
        """Whether the same cell was struck before, and nothing was wrong."""
        return any(row.cell == wanted.cell and not row.problem for row in self._read()[0])

    def _read(self) -> tuple[list[Result], dict[str, str]]:
        return read_results(self._file) if self._file.exists() else ([], {})


def read_results(file: Path) -> tuple[list[Result], dict[str, str]]:
    """The rows, and what was found and mended, by fault."""
    stored = json.loads(file.read_text())
    return [Result(**row) for row in stored["results"]], stored["found"]


def render(rows: list[Result], remarks: dict[str, str]) -> str:
    """The page. `remarks` tells what was found and mended, by fault."""
    lines = [_INTRODUCTION]
    for second in sorted({row.second for row in rows}):
        if second:
            lines += [f"## While it lasts: {second}", ""]
        lines += _modes([row for row in rows if row.second == second], "###" if second else "##")
    if remarks:
        lines += ["## Found and mended", "", *(f"- **{where}**: {what}" for where, what in remarks.items()), ""]
    return "\n".join(lines)


def _modes(rows: list[Result], level: str) -> list[str]:
    lines = []
    for delivery in _DELIVERIES:
        for brokers in sorted({row.brokers for row in rows if row.delivery == delivery}):
            of_mode = [row for row in rows if (row.delivery, row.brokers) == (delivery, brokers)]
            lines += [f"{level} {delivery.capitalize()}, {brokers} broker{'s' if brokers > 1 else ''} on each side", ""]
            lines += [
                "| fault | runs | seeds | silence | caught up | repeated | map behind | failures |",
                "|---|---|---|---|---|---|---|---|",
            ]
            lines += [
                _row([row for row in of_mode if row.fault == fault]) for fault in sorted({row.fault for row in of_mode})
            ]
            lines.append("")
    return lines


def _row(rows: list[Result]) -> str:
    done = [row for row in rows if row.was_possible]
    seeds = ", ".join(str(row.seed) for row in sorted(rows, key=lambda row: row.seed))
    if not done:
        return f"| {rows[0].fault} | 0 | {seeds} | | | | | not tried: {rows[0].problem} |"
    failed = [row for row in done if row.problem]
    told = "none" if not failed else "; ".join(f"seed {row.seed}: {row.problem}" for row in failed)
    caught_up = max(row.caught_up_seconds for row in done)
    silence = max(row.silence_seconds for row in done)
    repeats, behind = max(row.repeats for row in done), max(row.map_behind for row in done)
    measured = f"{_seconds(silence)} | {caught_up:.1f} s | {repeats:,} | {behind:,}"
    return f"| {rows[0].fault} | {len(done)} | {seeds} | {measured} | {told} |"


def _seconds(measured: float) -> str:
    return "–" if measured < 0 else f"{measured:.1f} s"
