"""Is the simulator worth its time? Breaks the product's protocol, one line each, and measures how soon that is found.

`python -m tests.simulation.mutations --page docs/simulation.md` writes the table. Each mutation is a module's text with
a piece exchanged while it is imported, in a process of its own; seeds are fresh, the weights of faults as ever.
"""

import argparse
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType

_SOURCE = Path(__file__).parents[2] / "src" / "sparkmirror"
_BEGIN, _END = "<!-- mutations -->", "<!-- end of mutations -->"


@dataclass(frozen=True, slots=True)
class Mutation:
    """`before`, which `file` has once, becomes `after`."""

    name: str
    file: str
    before: str
    after: str


_PRODUCE, _FETCH = "pipeline/produce", "pipeline/fetch"
MUTATIONS = (
    Mutation("a position before its acknowledgement", f"{_PRODUCE}/progress.py",
             "place = buffer.reach if self._in_transactions else buffer.place", "place = buffer.reach"),
    Mutation("a transaction ends before its answers are in", f"{_PRODUCE}/transaction.py",
             "if unsettled or not self._progress.settled or self._coordinator.busy:", "if self._coordinator.busy:"),
    Mutation("a commit though a position of its data is missing", f"{_PRODUCE}/transaction.py",
             "if self._progress.is_untrue(self._touched):", "if False:"),
    Mutation("a time-out taken for success", f"{_PRODUCE}/answers.py",
             "_DONE = frozenset({0, 46})", "_DONE = frozenset({0, 46, 7, 20})"),
    Mutation("what is in doubt is not sent again as it was", f"{_PRODUCE}/isolation.py",
             "if buffer.is_in_doubt and self._may_keep(buffer)", "if False and self._may_keep(buffer)"),
    Mutation("a roll-back does not bring the reader back", f"{_PRODUCE}/isolation.py",
             "        if lost and not self._order(buffer, paused=is_failed):", "        if False:"),
    Mutation("a roll-back leaves failed ledger partitions alone", f"{_PRODUCE}/sender.py",
             "for buffer in self._progress.buffers.values():\n            self._isolation.settle(buffer)",
             "for buffer in ():\n            self._isolation.settle(buffer)"),
    Mutation("an answer to a question before a seek is taken", f"{_FETCH}/connection.py",
             "return self.session.offset_of((fetched.topic_key, fetched.partition)) == offset", "return True"),
    Mutation("a seek forgets what turned the log since", f"{_FETCH}/responses.py",
             "if turns >= fetch_state.lineage.turns:", "if True:"),
    Mutation("a position beyond a gap that is not stored", f"{_PRODUCE}/progress.py",
             "return where in self._open_gaps and (", "return False and ("),
    Mutation("a start without the epochs of what was read", "planning/starts.py",
             "return Assigned(partition, position.offset, position.epochs, topic_id, end)",
             "return Assigned(partition, position.offset, (), topic_id, end)"),
    Mutation("a start that does not look at the topic's id", "planning/starts.py",
             "if NO_TOPIC_ID not in (position.topic_id, topic_id) and position.topic_id != topic_id:", "if False:"),
    Mutation("a reader that does not look at the topic's id", f"{_FETCH}/reader.py",
             "elif found != fetch_state.topic_id:", "elif False:"),
    Mutation("an epoch that reads the ledger past open transactions", "planning/planner.py",
             "self._ownership.tell_began()\n        positions = ledger.read_through(target)",
             "self._ownership.tell_began()\n        positions = ledger.read_to_end()"),
    Mutation("a repeated task that takes its plan's positions", "planning/starts.py",
             "    if position is None:\n        return item\n", "    return item\n"),
    Mutation("a dropped fence", "planning/renewal.py",
             "taken = take_over(flow, target, ledger, [plan.task])[plan.task]",
             "from sparkmirror.planning.fencing import Taken; from sparkmirror.kafka.fencing import ProducerIdentity; "
             "taken = Taken(plan.task, ProducerIdentity(plan.producer_id, plan.producer_epoch), plan.spare)"),
    Mutation("a gap that is reported and not stored", f"{_PRODUCE}/progress.py",
             "            if due and can_take:\n", "            if due and can_take and len(self._stored) > 99:\n"),
)  # fmt: skip


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, mutation: Mutation) -> None:
        super().__init__(fullname, path)
        self._mutation = mutation

    def get_code(self, fullname: str) -> CodeType:
        text = Path(self.path).read_text()
        assert text.count(self._mutation.before) == 1, f"{self.path} has not once: {self._mutation.before}"
        return compile(text.replace(self._mutation.before, self._mutation.after), self.path, "exec")


class _Finder(MetaPathFinder):
    def __init__(self, mutation: Mutation) -> None:
        self._mutation = mutation
        self._name = "sparkmirror." + mutation.file.removesuffix(".py").replace("/", ".")

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        file = str(_SOURCE / self._mutation.file)
        return spec_from_file_location(fullname, file, loader=_Loader(fullname, file, self._mutation))


def mutate(name: str) -> None:
    """Before the product is imported."""
    sys.meta_path.insert(0, _Finder(next(one for one in MUTATIONS if one.name == name)))


def _search(mutation: Mutation, minutes: float) -> str:
    command = [
        sys.executable,
        "-m",
        "tests.simulation",
        "--mutation",
        mutation.name,
        "--minutes",
        str(minutes),
        "--no-shrink",
    ]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    totals = re.search(r"(\d+) histories, .* in ([\d.]+) min", told.stdout)
    assert totals is not None, told.stdout + told.stderr
    found = re.search(r"seed (\d+): \[[\d.]+ s\] (.*)", told.stdout) or re.search(r"seed (\d+): (.*)", told.stdout)
    if found is None:
        return f"| {mutation.name} | not in {totals[1]} histories, {float(totals[2]) * 60:.0f} s | | |"
    what = re.sub(r"\s+", " ", found[2].split(";")[0])[:90].replace("|", "/")
    return f"| {mutation.name} | {float(totals[2]) * 60:.0f} s, {totals[1]} histories | {found[1]} | {what} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="for each mutation")
    parser.add_argument("--page", type=Path, required=True)
    parser.add_argument("--only", default="", help="mutations whose name has this")
    options = parser.parse_args()
    rows = ["| The protocol broken | Found after | Seed | What was seen |", "|---|---|---|---|"]
    for mutation in MUTATIONS:
        if options.only in mutation.name:
            rows.append(_search(mutation, options.minutes))
            print(rows[-1], flush=True)
    text = options.page.read_text()
    head, tail = text.split(_BEGIN)[0], text.split(_END)[1]
    options.page.write_text(head + _BEGIN + "\n\n" + "\n".join(rows) + "\n\n" + _END + tail)


if __name__ == "__main__":
    main()
