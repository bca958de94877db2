"""Reads Java `.properties` files, keeping the line of every key. Called by `config/flow/flows.py`.

The rules are Java's (`java.util.Properties.load`): ISO-8859-1 with `\\uXXXX`, `#` and `!` comments, `=`, `:` or a blank
after the key, continuation by a trailing backslash, a backslash before an ordinary character is dropped, blanks at the
end of a value stay, the last of several equal keys wins. One is not: bytes that are UTF-8 are read as UTF-8.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import javaproperties

from sparkmirror.config.secrets import is_secret
from sparkmirror.errors import ConfigError
from sparkmirror.shown import hide_user_info


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
    """A warning about a file that is used; `line` 0 and `key` "" where it concerns no line of it."""

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


def parse_properties(data: bytes | str, file: str = "<properties>") -> Properties:
    """`data` as a properties file; `file` is its name in messages. Raises ConfigError at a broken `\\u` escape.

    Java reads bytes as Latin-1. Bytes that are UTF-8 are read as people mean them, and a remark says what Java reads.
    """
    text, is_utf_8 = (data, False) if isinstance(data, str) else _decoded(data)
    line, entries = 1, []
    remarks: list[tuple[str, Entry]] = []
    try:
        for element in javaproperties.parse(text.removeprefix(_BYTE_ORDER_MARK)):
            if isinstance(element, javaproperties.KeyValue):
                entry = Entry(element.key, element.value, line)
                entries.append(entry)
                remarks += ((remark, entry) for remark in _odd_writing(entry, element.source, is_utf_8=is_utf_8))
            line += _line_ends(element.source)
    except javaproperties.InvalidUEscapeError:  # which has the text: it may be of a secret
        hint = "write a backslash twice to keep it"
        raise ConfigError("a `\\u` without four hexadecimal digits", hint, line=line, file=file) from None
    if text.startswith(_BYTE_ORDER_MARK) and entries:
        remarks.insert(
            0, ("the file begins with a byte order mark, which Java takes for a part of this key", entries[0])
        )
    return replace(_last_wins(file, entries), remarks=tuple(remarks))


_BYTE_ORDER_MARK = "\ufeff"
_LOST_BACKSLASH = re.compile(r"(?<!\\)(?:\\\\)*\\(?P<letter>[^\\tnrfu\s:=#!])")


def _decoded(data: bytes) -> tuple[str, bool]:
    """The text, and whether it is one that Java reads otherwise."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1"), False
    return text, not text.isascii()


def _odd_writing(entry: Entry, source: str, *, is_utf_8: bool) -> Iterator[str]:
    """A note on a line that a person may have meant otherwise; it shows nothing of a secret."""
    is_shown = not is_secret(entry.key)
    if is_utf_8 and not source.isascii():
        value = hide_user_info(entry.value)
        read = f"`{entry.key} = {value}`".encode().decode("latin-1") if is_shown else "other characters"
        yield f"`{entry.key}` is read as UTF-8; Java reads {read}, unless letters beyond ASCII are written as `\\uXXXX`"
    if lost := _LOST_BACKSLASH.search(source):
        what = f"`\\{lost['letter']}`" if is_shown else "one that stands alone"
        yield f"`{entry.key}` loses a backslash, as Java drops {what}: write a backslash twice to keep it"


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
