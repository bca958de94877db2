"""Applies steps on two clusters. They may be interrupted anywhere, and are then resumed, or undone in reverse.

Each step notes the facts for undoing it before it changes anything. Pure apart from the steps and the journal that are
passed in; used by `operations.failover_run` and `operations.failback`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from sparkmirror.errors import SparkMirrorError

Note = Mapping[str, Any]
"""The facts that a step noted before it changed anything, as JSON."""


Keep = Callable[[Note], None]
"""Stores what a step has found while it is applied, before it changes anything by it. Raises ClusterError."""


class Step(Protocol):
    """One step of a procedure. `apply` and `undo` may be called again after they were interrupted, with the same
    note, or with the last one that it kept."""

    name: str

    def prepare(self) -> Note:
        """Observes and returns the note; changes nothing."""

    def apply(self, note: Note) -> str:
        """Applies the step; returns a sentence about what was done."""

    def undo(self, note: Note) -> str:
        """Undoes what `apply` did, or a part of it; returns a sentence."""


@dataclass(frozen=True, slots=True)
class Taken:
    """One step as the journal has it. `sentence` is empty until it is done; `undoing` says that undoing it was begun,
    so that nobody knows how much of it still holds."""

    note: Note
    sentence: str = ""
    undoing: bool = False


@dataclass(frozen=True, slots=True)
class Journal:
    """All steps that were begun, in order; `finished` once they can no longer be undone."""

    steps: Mapping[str, Taken] = field(default_factory=dict)
    finished: bool = False

    def with_step(self, name: str, taken: Taken) -> "Journal":
        return Journal({**self.steps, name: taken}, self.finished)

    def without_step(self, name: str) -> "Journal":
        return Journal({one: taken for one, taken in self.steps.items() if one != name}, self.finished)

    def as_json(self) -> dict[str, Any]:
        steps = {
            name: {"note": taken.note, "sentence": taken.sentence, "undoing": taken.undoing}
            for name, taken in self.steps.items()
        }
        return {"version": 1, "steps": steps, "finished": self.finished}


class JournalStore(Protocol):
    """Keeps a journal beyond the life of this process."""

    def claim(self) -> Journal:
        """Takes the journal over from another process that takes steps, which saves nothing any more; returns it."""

    def load(self) -> Journal:
        """The stored journal; an empty one if none is stored."""

    def save(self, journal: Journal) -> None:
        """Stores the journal; returns when it is stored durably."""


class Teller(Protocol):
    """Receives each sentence as soon as the step has done what it says."""

    def __call__(self, step: str, sentence: str) -> None: ...


def take_steps(steps: Sequence[Step], store: JournalStore, tell: Teller) -> None:
    """Continues where the journal ends; a step whose undoing was interrupted is undone first, and then begun again.
    Raises the errors of a step; the next call continues there. Raises SparkMirrorError if the procedure was finished
    before."""
    journal = store.claim()
    _refuse_finished(journal)
    wanted = {step.name for step in steps}
    half_undone = [name for name, taken in journal.steps.items() if taken.undoing and name in wanted]
    journal = _undo(half_undone, steps, journal, store, tell)
    for step in steps:
        taken = journal.steps.get(step.name)
        if taken is not None and taken.sentence:
            tell(step.name, f"{taken.sentence} (before)")
            continue
        if taken is None:
            taken = Taken(step.prepare())
            journal = journal.with_step(step.name, taken)
            store.save(journal)
        sentence = step.apply(taken.note)
        journal = store.load()  # the step may have kept a greater note
        journal = journal.with_step(step.name, replace(_still_taken(journal, step.name), sentence=sentence))
        store.save(journal)
        tell(step.name, sentence)


def keeper(name: str, store: JournalStore, part: str = "") -> Keep:
    """Keeps a note of the step that is being applied, or the `part` of it that is another step's."""

    def keep(note: Note) -> None:
        journal = store.load()
        known = _still_taken(journal, name).note
        whole = {**known, part: note} if part else note
        store.save(journal.with_step(name, Taken(whole)))

    return keep


def _still_taken(journal: Journal, name: str) -> Taken:
    """Raises SparkMirrorError where another person has undone or forgotten the step that this process applies."""
    taken = journal.steps.get(name)
    if taken is None or taken.undoing or journal.finished:
        raise SparkMirrorError(
            f"While the step `{name}` was applied, somebody else has undone, finished or forgotten the steps.",
            "What of it holds is not known: when nobody else is at it, run it again, or --undo it.",
        )
    return taken


def undo_steps(steps: Sequence[Step], store: JournalStore, tell: Teller) -> None:
    """Undoes all steps of the journal, the last one first. Raises SparkMirrorError if the procedure was finished."""
    journal = store.claim()
    _refuse_finished(journal)
    if not journal.steps:
        tell("undo", "no step was taken, there is nothing to take back")
    _undo(list(journal.steps), steps, journal, store, tell)


def _undo(names: Sequence[str], steps: Sequence[Step], journal: Journal, store: JournalStore, tell: Teller) -> Journal:
    """What is left of the journal. That a step is being undone is stored before anything changes."""
    by_name = {step.name: step for step in steps}
    for name in reversed(names):
        if name not in by_name:
            raise SparkMirrorError(f"The step `{name}` cannot be taken back now.", "Its cluster must answer for that.")
        taken = journal.steps[name]
        if not taken.undoing:
            journal = journal.with_step(name, replace(taken, undoing=True))
            store.save(journal)
        sentence = by_name[name].undo(taken.note)
        journal = journal.without_step(name)
        store.save(journal)
        tell(name, sentence)
    return journal


def give_up_step(name: str, store: JournalStore, tell: Teller) -> None:
    """Removes a step from the journal that was begun, is not done, and has changed nothing."""
    journal = store.claim()
    if (taken := journal.steps.get(name)) is not None and not taken.sentence:
        store.save(journal.without_step(name))
        tell(name, "given up")


def finish_steps(store: JournalStore) -> None:
    """Ends the procedure: nothing can be undone afterwards. Raises SparkMirrorError if a step is begun and not done,
    or half undone, or if there is none."""
    journal = store.claim()
    _refuse_finished(journal)
    if half_undone := [name for name, taken in journal.steps.items() if taken.undoing]:
        raise SparkMirrorError(
            f"There is nothing to finish: `{half_undone[0]}` is being undone, and that is not done.",
            "Repeat --undo, or run it to its end first.",
        )
    undone = [f"`{name}`" for name, taken in journal.steps.items() if not taken.sentence]
    if undone or not journal.steps:
        which = f", {', '.join(undone)} is begun" if undone else ""
        raise SparkMirrorError(
            f"There is nothing to finish: not all steps are done{which}.",
            "Run it to its end first. If its cluster is gone, --forget what is noted: nothing is undone then.",
        )
    store.save(Journal(journal.steps, finished=True))


def _refuse_finished(journal: Journal) -> None:
    if journal.finished:
        raise SparkMirrorError(
            "This was finished before, so there is nothing to resume or to undo.",
            "To begin another one, forget it: --forget.",
        )
