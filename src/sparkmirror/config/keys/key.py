"""The entries of the table of keys: `Key` for one that takes effect, `Unused` for one without effect, with the reason.

The tables are `config/keys/table.py`, `config/keys/client_keys.py` and `config/keys/unused.py`. A name may hold
placeholders, `config.providers.<name>.class`: such an entry stands for a family of keys. The last placeholder takes
dots too.
"""

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Generic, TypeVar

from sparkmirror.config.types import Type

T = TypeVar("T")

_PLACEHOLDER = re.compile(r"<[a-z]+>")


class Scope(Enum):
    """The places where a key may be written. S and T stand for the aliases of a flow's source and target, X for any
    alias."""

    FILE = "KEY"
    FLOW = "KEY or S->T.KEY"
    FLOW_ONLY = "S->T.KEY"
    CLIENT = "X.KEY or KEY"
    WORKER = "T.KEY"
    STORAGE = "KEY or T.KEY"
    CONSUMER = "S.consumer.KEY or S->T.consumer.KEY"
    PRODUCER = "T.producer.KEY or S->T.producer.override.KEY"
    ADMIN = "X.admin.KEY"

    def spellings(self, key: str) -> tuple[str, ...]:
        """The spellings of `key`, with S, T and X for the aliases."""
        return tuple(place.replace("KEY", key) for place in self.value.split(" or "))

    def places(self, key: str) -> str:
        """The spellings of `key`, for a person."""
        return " or ".join(f"`{spelling}`" for spelling in self.spellings(key))


@dataclass(frozen=True, slots=True)
class Key(Generic[T]):
    """One key. `mirrormaker` says how MirrorMaker 2 differs, "" where it agrees."""

    name: str
    scope: Scope
    type: Type[T]
    default: T
    doc: str
    mirrormaker: str = ""

    def parts(self, name: str) -> tuple[str, ...] | None:
        """The parts of `name` in place of the placeholders, () without any; None when it is another key."""
        return name_parts(self.name, name)


@dataclass(frozen=True, slots=True)
class Unused:
    """A key of MirrorMaker, Connect or Kafka's clients that has no effect here; `reason` completes "…: because"."""

    name: str
    scope: Scope
    reason: str


def name_parts(pattern: str, name: str) -> tuple[str, ...] | None:
    """The same for any name with placeholders, as `Key.parts`."""
    match = name_matcher(pattern).fullmatch(name)
    return match.groups() if match else None


def is_family(name: str) -> bool:
    """Whether `name` holds a placeholder."""
    return "<" in name


@lru_cache(maxsize=1024)
def name_matcher(pattern: str) -> re.Pattern[str]:
    """An expression for whole names; one group for each placeholder."""
    literals = _PLACEHOLDER.split(pattern)
    groups = ["([^.]+)"] * (len(literals) - 2) + ["(.+)"] * (len(literals) > 1)
    parts = [re.escape(literal) + group for literal, group in zip(literals, [*groups, ""], strict=True)]
    return re.compile("".join(parts))
