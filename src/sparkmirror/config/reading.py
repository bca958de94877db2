"""Reads typed values out of a layer of entries, and collects all problems of a file, so that they are shown at once."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from sparkmirror.config.formats.properties import ConfigWarning, Entry
from sparkmirror.config.keys.key import Key, Scope
from sparkmirror.config.precedence import FlowLayers
from sparkmirror.config.secrets import is_secret, shown
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
    _warnings: list[ConfigWarning] = field(default_factory=list)

    def error(self, message: str, hint: str = "", entry: Entry | None = None) -> None:
        """Notes what makes the file unusable; without `entry` it concerns the file as a whole."""
        key, line = (entry.key, entry.line) if entry else ("", 0)
        problem = ConfigError(message, hint, key=key, line=line, file=(entry.file if entry else "") or self.file)
        if str(problem) not in map(str, self.errors):
            self.errors.append(problem)

    def warn(self, message: str, entry: Entry, hint: str = "") -> None:
        """Notes what a person should know of; the file is used."""
        self._warnings.append(ConfigWarning(message, hint, entry.file or self.file, entry.line, entry.key))

    def warnings(self) -> tuple[ConfigWarning, ...]:
        """The warnings by line, each once."""
        return tuple(dict.fromkeys(sorted(self._warnings, key=lambda warning: (warning.line, str(warning)))))

    def raise_if_any(self) -> None:
        """Raises one ConfigError that lists every error by line."""
        problems = sorted(self.errors, key=lambda problem: problem.line)
        if len(problems) == 1:
            raise problems[0]
        if problems:
            listed = "\n".join(f"- {problem}" for problem in problems)
            raise ConfigError(f"{self.file} has {len(problems)} problems:\n{listed}")


T = TypeVar("T")

_KEY = "key"


def setting(key: Key[T]) -> T:
    """A field of a dataclass that `Reader.settings` fills by `key`; the field has the key's type and default."""
    return field(default=key.default, repr=not is_secret(key.name), metadata={_KEY: key})


class Reader:
    """Values of one layer by `Key`; a value that cannot be parsed becomes a problem and reads as the default."""

    def __init__(self, layer: Mapping[str, Entry], problems: Problems) -> None:
        self._layer = layer
        self._layer_of: Callable[[Scope], Mapping[str, Entry]] = lambda _: layer
        self._problems = problems

    def entry(self, key: Key[T]) -> Entry | None:
        """The line that sets the key."""
        return self._layer_of(key.scope).get(key.name)

    def has(self, key: Key[T]) -> bool:
        """Whether the layer has the key."""
        return self.entry(key) is not None

    def read(self, key: Key[T]) -> T:
        """The value of a key without placeholders."""
        entry = self.entry(key)
        return key.default if entry is None else self._parse(key, entry)

    def settings(self, kind: type) -> dict[str, Any]:
        """The values of all fields of the dataclass `kind` that are declared as a `setting`, by field."""
        return {one.name: self.read(one.metadata[_KEY]) for one in fields(kind) if _KEY in one.metadata}

    def read_all(self, key: Key[T]) -> dict[tuple[str, ...], T]:
        """The values of a key with placeholders, by what stands for them; in the order of the file."""
        named = ((key.parts(name), entry) for name, entry in self._layer_of(key.scope).items())
        return {parts: self._parse(key, entry) for parts, entry in named if parts is not None}

    def check(self, key: Key[T]) -> None:
        """Notes problems with the key, or with all of its family."""
        self.read_all(key)

    def _parse(self, key: Key[T], entry: Entry) -> T:
        try:
            return key.type.parse(entry.value)
        except ValueError as error:
            self._problems.error(_complaint(key, entry, error), entry=entry)
            return key.default

    def load(self, key: Key[str], make: Callable[[str], T]) -> T | None:
        """The result of `make` for a value that names a class; None without one, or where it cannot be made."""
        spec = self.read(key)
        if not spec:
            return None
        try:
            return make(spec)
        except ValueError as error:
            entry = self._layer_of(key.scope)[key.name]
            self._problems.error(_complaint(key, entry, error), entry=entry)
            return None

    def values(self) -> dict[str, str]:
        """The layer as a plain mapping; it may hold secrets."""
        return {name: entry.value for name, entry in self._layer.items()}


class FlowReader(Reader):
    """Values of one flow: the scope of a key tells the layer where it counts."""

    def __init__(self, layers: FlowLayers, problems: Problems) -> None:
        super().__init__(layers.connector, problems)
        self._layer_of = lambda scope: layers.of(scope)[0]


def _complaint(key: Key[T], entry: Entry, error: ValueError) -> str:
    """The complaint about a value. With a config provider it omits the parser's message, which may quote the value."""
    if entry.written:
        return f"`{entry.key} = {entry.written}` leads to a value that is no {key.type.label}"
    return f"`{entry.key} = {shown(entry.key, entry.value)}` {error}"
