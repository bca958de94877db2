"""Reads typed values out of a layer of entries, noting every value that is not usable. Called while a file is read."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from sparkmirror.config.formats.properties import Entry
from sparkmirror.config.keys.key import Key
from sparkmirror.config.problems import Problems
from sparkmirror.config.secrets import shown

T = TypeVar("T")


class Reader:
    """Values of one layer by `Key`; a value that cannot be parsed becomes a problem and reads as the default."""

    def __init__(self, layer: Mapping[str, Entry], problems: Problems) -> None:
        self._layer = layer
        self._problems = problems

    def has(self, key: Key[T]) -> bool:
        """Whether the layer says anything of the key."""
        return key.name in self._layer

    def read(self, key: Key[T]) -> T:
        """The value of a key without placeholders."""
        entry = self._layer.get(key.name)
        return key.default if entry is None else self._parse(key, entry)

    def read_all(self, key: Key[T]) -> dict[tuple[str, ...], T]:
        """The values of a key with placeholders, by what stands for them; in the order of the file."""
        named = ((key.parts(name), entry) for name, entry in self._layer.items())
        return {parts: self._parse(key, entry) for parts, entry in named if parts is not None}

    def check(self, key: Key[T]) -> None:
        """Notes what is wrong with the key, or with all of its family."""
        self.read_all(key)

    def _parse(self, key: Key[T], entry: Entry) -> T:
        try:
            return key.type.parse(entry.value)
        except ValueError as error:
            self._problems.error(_complaint(key, entry, error), entry=entry)
            return key.default

    def load(self, key: Key[str], make: Callable[[str], T]) -> T | None:
        """What `make` makes of a value that names a class; None without one, or where it cannot be made."""
        spec = self.read(key)
        if not spec:
            return None
        try:
            return make(spec)
        except ValueError as error:
            entry = self._layer[key.name]
            self._problems.error(_complaint(key, entry, error), entry=entry)
            return None

    def values(self) -> dict[str, str]:
        """The layer as a plain mapping; it may hold secrets."""
        return {name: entry.value for name, entry in self._layer.items()}


def _complaint(key: Key[T], entry: Entry, error: ValueError) -> str:
    """What a parser says may quote the value, which a config provider's reference is there to hide."""
    if entry.written:
        return f"`{entry.key} = {entry.written}` leads to a value that is no {key.type.label}"
    return f"`{entry.key} = {shown(entry.key, entry.value)}` {error}"
