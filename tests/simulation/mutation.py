"""One line of the product's protocol, and what becomes of it."""

from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "sparkmirror"


@dataclass(frozen=True, slots=True)
class Mutation:
    """`before`, which `file` has once, becomes `after`. What breaks only flows that keep offsets is `kept`: its
    searches play no other histories. `left_out` are those that show in histories of brokers that leave markers out, as
    by `--left-out`, `left_in_ledger` as by `--left-in-ledger`. `also` is a second line that guards the same, and what
    becomes of it: of the same file, unless `also_file` names another one."""

    name: str
    file: str
    before: str
    after: str
    kept: bool = False
    left_out: bool = False
    left_in_ledger: bool = False
    also: tuple[str, str] = ("", "")
    also_file: str = ""

    def stands(self) -> bool:
        texts = {file: (SOURCE / file).read_text() for file in self.files}
        return all(texts[file].count(before) == 1 for file in texts for before, _ in self.changes(file))

    @property
    def files(self) -> frozenset[str]:
        return frozenset({self.file, self.also_file or self.file})

    def changes(self, file: str) -> list[tuple[str, str]]:
        first = [(self.before, self.after)] if file == self.file else []
        return [*first, self.also] if self.also[0] and file == (self.also_file or self.file) else first
