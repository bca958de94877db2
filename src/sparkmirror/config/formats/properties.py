"""Reads Java `.properties` files, keeping the line of every key. Called by `config/flow/flows.py`.

The rules are Java's (`java.util.Properties.load`): ISO-8859-1 with `\\uXXXX`, `#` and `!` comments, `=`, `:` or a blank
after the key, continuation by a trailing backslash, a backslash before an ordinary character is dropped, blanks at the
end of a value stay, the last of several equal keys wins.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import javaproperties

from sparkmirror.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Entry:
    """One key as written. `line` counts from 1 and is where the entry begins.

    `written` is the text of a value that a config provider has filled in: that text may be shown, the value may not.
    `file` is where it stands, where that is one of several files.
    """

    key: str
    value: str = field(repr=False)
    line: int
    written: str = ""
    file: str = ""


@dataclass(frozen=True, slots=True)
class ConfigWarning:
    """What a person should know of a file that is used; `line` 0 and `key` "" where it concerns no line of it."""

    message: str
    hint: str = ""
    file: str = ""
    line: int = 0
    key: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.line else f"{self.file}: " if self.file else ""
        return f"{where}{self.message}{f'; {self.hint}' if self.hint else ''}"


@dataclass(frozen=True, slots=True)
class Properties:
    """A file's entries by key, those that a later line replaced, and what is to be said of what became no entry.

    `warnings` are those of the files that this one is a translation of, where it is one: they count instead of its own.
    `files` are all of them, where it was read from several.
    """

    file: str
    entries: Mapping[str, Entry]
    replaced: tuple[Entry, ...] = ()
    remarks: tuple[tuple[str, Entry], ...] = ()
    warnings: tuple[ConfigWarning, ...] | None = None
    files: tuple[str, ...] = ()

    def get(self, key: str) -> Entry | None:
        return self.entries.get(key)

    def below(self, prefix: str) -> dict[str, Entry]:
        """The entries that start with `prefix`, by the rest of their key."""
        return {
            key.removeprefix(prefix): entry
            for key, entry in self.entries.items()
            if key.startswith(prefix) and key != prefix
        }


def read_properties(path: str | Path) -> Properties:
    """The file at `path`. Raises ConfigError when it cannot be read."""
    return parse_properties(read_bytes(path), str(path))


def read_bytes(path: str | Path) -> bytes:
    """The bytes of a configuration file. Raises ConfigError when it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"the configuration file `{path}` cannot be read: {reason}") from None


def parse_properties(data: bytes, file: str = "<properties>") -> Properties:
    """`data` as a properties file; `file` is its name in messages. Raises ConfigError at a broken `\\u` escape."""
    line, entries = 1, []
    try:
        for element in javaproperties.parse(data):
            if isinstance(element, javaproperties.KeyValue):
                entries.append(Entry(element.key, element.value, line))
            line += _line_ends(element.source)
    except javaproperties.InvalidUEscapeError as error:
        hint = "write a backslash twice to keep it"
        raise ConfigError(f"`{error.escape}` is not a `\\uXXXX` escape", hint, line=line, file=file) from None
    return _last_wins(file, entries)


def write_properties(properties: Properties) -> str:
    """The text of a file with the same meaning, for Spark's workers: config providers have done their work."""
    lines = {key: entry.value for key, entry in properties.entries.items() if not key.startswith("config.providers")}
    return str(javaproperties.dumps(lines, timestamp=None))


def _line_ends(source: str) -> int:
    return source.count("\n") + source.replace("\r\n", "").count("\r")


def _last_wins(file: str, entries: Iterable[Entry]) -> Properties:
    kept: dict[str, Entry] = {}
    replaced = []
    for entry in entries:
        if entry.key in kept:
            replaced.append(kept[entry.key])
        kept[entry.key] = entry
    return Properties(file, kept, tuple(replaced))
