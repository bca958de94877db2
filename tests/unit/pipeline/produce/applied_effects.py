"""A queue of effects for parts under test: each effect is carried out where it is put in."""

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from sparkmirror.pipeline.produce.effects import Effect


class Applies(Protocol):
    def apply(self, effect: Effect) -> None: ...


class AtOnce(deque[Effect]):
    def __init__(self, applies: Applies) -> None:
        super().__init__()
        self._applies = applies

    def append(self, effect: Effect) -> None:
        self._applies.apply(effect)

    def extend(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            self._applies.apply(effect)
