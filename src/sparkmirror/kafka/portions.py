"""Long lists in portions, as one request after the other may hold them. Used by `kafka`'s control-plane modules."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

_Item = TypeVar("_Item")


def portions(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    """`size` items at a time, the last time what is left."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
