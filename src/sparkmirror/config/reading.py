"""Reads typed values out of a layer of entries, noting every value that is not usable. Called while a file is read."""

from collections.abc import Mapping
from typing import TypeVar

from sparkmirror.config.keys import Key
from sparkmirror.config.problems import Problems
from sparkmirror.config.properties import Entry
from sparkmirror.config.secrets import shown

T = TypeVar("T")


class Reader:
    """Values of one layer by `Key`; a value that cannot be parsed becomes a problem and reads as the default."""

    def __init__(self, layer: Mapping[str, Entry], problems: Problems) -> None:
        self._layer = layer
        self._problems = problems

    def read(self, key: Key[T]) -> T:
        entry = self._layer.get(key.name)
        if entry is None:
            return key.default
        try:
            return key.type.parse(entry.value)
        except ValueError as error:
            self._problems.error(f"`{entry.key} = {shown(entry.key, entry.value)}` {error}", entry=entry)
            return key.default
