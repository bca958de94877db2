"""Is the simulator worth its time? Breaks the product's protocol, one line each, and measures how soon that is found.

`python -m tests.simulation.mutations --page docs/simulation.md` writes the table, search by search, and goes on where
it was ended; a mutation that one search has not found is left alone until `--again`. Each is a module's text with a
piece exchanged while it is imported, in a process of its own; seeds are fresh, the weights of faults as ever, and no
history is a variation of one that failed once: some of those were kept because they show a mutation. What breaks only
flows that keep offsets is searched for in histories of such flows, and what shows where brokers leave markers out in
those of `--left-out`.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType

from tests.simulation.mutation import SOURCE, Mutation
from tests.simulation.mutations_of_delivery import DELIVERY
from tests.simulation.mutations_of_jobs import JOBS
from tests.simulation.mutations_of_leaders import LEADERS
from tests.simulation.mutations_of_offsets import OFFSETS

_BEGIN, _END = "<!-- mutations -->", "<!-- end of mutations -->"
MUTATIONS = (*DELIVERY, *LEADERS, *JOBS, *OFFSETS)


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, changes: Sequence[tuple[str, str]]) -> None:
        super().__init__(fullname, path)
        self._changes = changes

    def get_code(self, fullname: str) -> CodeType:
        text = Path(self.path).read_text()
        for before, after in self._changes:
            assert text.count(before) == 1, f"{self.path} has not once: {before}"
            text = text.replace(before, after)
        return compile(text, self.path, "exec")


class _Finder(MetaPathFinder):
    def __init__(self, mutation: Mutation) -> None:
        self._mutation = mutation
        self._files = {"sparkmirror." + file.removesuffix(".py").replace("/", "."): file for file in mutation.files}

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if fullname not in self._files:
            return None
        file = str(SOURCE / self._files[fullname])
        loader = _Loader(fullname, file, self._mutation.changes(self._files[fullname]))
        return spec_from_file_location(fullname, file, loader=loader)


def mutate(name: str) -> None:
    """Before the product is imported."""
    sys.meta_path.insert(0, _Finder(next(one for one in MUTATIONS if one.name == name)))


@dataclass(frozen=True, slots=True)
class Search:
    """What one search came to; `seed` is empty where nothing was found."""

    seconds: float
    histories: int
    seed: str
    seen: str


def _search(mutation: Mutation, minutes: float) -> Search:
    """Until a history fails that holds all promises when the protocol is whole."""
    seconds, histories = 0.0, 0
    while seconds < minutes * 60:
        one = _search_once(mutation, minutes - seconds / 60)
        seconds, histories = seconds + one.seconds, histories + one.histories
        if one.seed and _play("--seed", one.seed, *_kind(mutation)).returncode:
            print(f"seed {one.seed} fails without a mutation, too", flush=True)
        elif one.seed:
            return Search(seconds, histories, one.seed, one.seen)
    return Search(seconds, histories, "", "")


def _search_once(mutation: Mutation, minutes: float) -> Search:
    done = _play("--mutation", mutation.name, "--minutes", str(minutes), "--cpu", "--drawn", *_kind(mutation))
    totals = re.search(r"(\d+) histories, .* in ([\d.]+) s", done.stdout)
    assert totals is not None, done.stdout + done.stderr
    found = re.search(r"seed (\d+): (?:\[[\d.]+ s\] )?(.*)", done.stdout)
    seen = re.sub(r"\s+", " ", found[2].split(";")[0])[:90].replace("|", "/") if found else ""
    return Search(float(totals[2]), int(totals[1]), found[1] if found else "", seen)


def _kind(mutation: Mutation) -> Sequence[str]:
    """The histories that it is put to."""
    left = ["--left-out"] * mutation.left_out + ["--left-in-ledger"] * mutation.left_in_ledger
    return ["--kept"] * mutation.kept + left


def _play(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation", *arguments, "--no-shrink"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="at most, for each search")
    parser.add_argument("--searches", type=int, default=3, help="for each mutation, each with seeds of its own")
    parser.add_argument("--page", type=Path, required=True)
    parser.add_argument("--only", default="", help="a regular expression for names; the other rows stay")
    parser.add_argument("--again", action="store_true", help="forget what the page says of these mutations")
    options = parser.parse_args()
    if lost := [one.name for one in MUTATIONS if not one.stands()]:
        parser.exit(1, f"The code has changed where these break it: {', '.join(lost)}.\n")
    chosen = [one for one in MUTATIONS if re.search(options.only, one.name)]
    if options.again:
        _keep(options.page, {one.name: [] for one in chosen})
    for count in range(options.searches):
        for mutation in chosen:
            searches = _read(options.page).get(mutation.name, [])
            if len(searches) == count and all(one.seed for one in searches):
                searches = [*searches, _search(mutation, options.minutes)]
                print(_row(mutation.name, searches), flush=True)
                _keep(options.page, {mutation.name: searches})


def _row(name: str, searches: Sequence[Search]) -> str:
    found = [one for one in searches if one.seed]
    times = ", ".join(f"{'' if one.seed else 'not in '}{one.seconds:.0f} s" for one in searches)
    histories = ", ".join(str(one.histories) for one in searches)
    seeds = ", ".join(one.seed for one in found)
    return f"| {name} | {times} | {histories} | {seeds} | {found[0].seen if found else ''} |"


def _searches(times: str, histories: str, seeds: str, seen: str) -> Iterator[Search]:
    """What a row says."""
    left = iter(seeds.split(", "))
    for seconds, count in zip(times.split(", "), histories.split(", "), strict=True):
        is_found = not seconds.startswith("not in ")
        spent = float(seconds.removeprefix("not in ").removesuffix(" s"))
        yield Search(spent, int(count), next(left) if is_found else "", seen if is_found else "")


def _read(page: Path) -> dict[str, list[Search]]:
    """The page is all that a run leaves behind, so one that was killed goes on with the search that it lost."""
    table = page.read_text().split(_BEGIN)[1].split(_END)[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[1:]]
    return {name: list(_searches(*rest)) for name, *rest in cells}


def _keep(page: Path, changed: Mapping[str, Sequence[Search]]) -> None:
    """Puts what was found in its place on the page."""
    rows = {**_read(page), **changed}
    table = ["| The protocol broken | Found after | Histories | Seeds | What was seen first |", "|---|---|---|---|---|"]
    table += [_row(one.name, rows[one.name]) for one in MUTATIONS if rows.get(one.name)]
    head, rest = page.read_text().split(_BEGIN)
    text = head + _BEGIN + "\n\n" + "\n".join(table) + "\n\n" + _END + rest.split(_END)[1]
    beside = page.with_suffix(".new")
    beside.write_text(text)
    beside.replace(page)


if __name__ == "__main__":
    main()
