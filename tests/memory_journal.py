"""A journal of steps that outlives no process; steps on made-up clusters keep it."""

from dataclasses import dataclass, field

from sparkmirror.operations.steps import Journal


@dataclass
class MemoryJournal:
    """A `JournalStore`."""

    journal: Journal = field(default_factory=Journal)

    def claim(self) -> Journal:
        return self.journal

    def load(self) -> Journal:
        return self.journal

    def save(self, journal: Journal) -> None:
        self.journal = journal

    def forget(self) -> None:
        self.journal = Journal()
