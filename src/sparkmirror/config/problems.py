"""Collects what is wrong with a file, so that a person sees all of it at once. Used while a file is read."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from sparkmirror.config.formats.properties import Entry
from sparkmirror.errors import ConfigError


def other_lines(first: Entry, others: Iterable[Entry]) -> str:
    """` (nor line 7, 9)` behind the first of several lines that one sentence is about; "" when there are no others."""
    places = dict.fromkeys((entry.file, entry.line) for entry in others)
    lines = [
        str(line) if file == first.file else f"{line} of {file}"
        for file, line in places
        if (file, line) != (first.file, first.line)
    ]
    return f" (nor line {', '.join(lines)})" if lines else ""


@dataclass(slots=True)
class Problems:
    """Errors and warnings of one file, each with its line."""

    file: str
    errors: list[ConfigError] = field(default_factory=list)
    _warnings: list[tuple[int, str]] = field(default_factory=list)

    def error(self, message: str, hint: str = "", entry: Entry | None = None) -> None:
        """Notes what makes the file unusable; without `entry` it concerns the file as a whole."""
        key, line = (entry.key, entry.line) if entry else ("", 0)
        problem = ConfigError(message, hint, key=key, line=line, file=(entry.file if entry else "") or self.file)
        if str(problem) not in map(str, self.errors):
            self.errors.append(problem)

    def warn(self, message: str, entry: Entry) -> None:
        """Notes what a person should know of; the file is used."""
        self._warnings.append((entry.line, f"{entry.file or self.file}:{entry.line}: {message}"))

    def warnings(self) -> tuple[str, ...]:
        """The warnings by line, each once."""
        return tuple(dict.fromkeys(text for _, text in sorted(self._warnings)))

    def raise_if_any(self) -> None:
        """Raises one ConfigError that lists every error by line."""
        problems = sorted(self.errors, key=lambda problem: problem.line)
        if len(problems) == 1:
            raise problems[0]
        if problems:
            listed = "\n".join(f"- {problem}" for problem in problems)
            raise ConfigError(f"{self.file} has {len(problems)} problems:\n{listed}")
