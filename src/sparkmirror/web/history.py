"""The lag of partitions in the last minutes, for the page's small curves; pure. `web.watchers` fills it, `web.api`
reads it.

A lag that stays 0 takes no memory, so ten thousand idle partitions cost nothing. A lag that is not known is None, never
0.
"""

import threading
from array import array
from collections.abc import Hashable, Mapping
from typing import Final

SAMPLES_MAX: Final = 60
SAMPLE_SECONDS: Final = 5.0
"""Sixty samples are five minutes."""
_UNKNOWN: Final = -1


class History:
    """Whole numbers by key, one a sample; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._samples = 0
        self._curves: dict[Hashable, array[int]] = {}

    def sample(self, values: Mapping[Hashable, int | None]) -> None:
        """Takes one sample of all keys. A key that is left out has the value 0, a key with None is not known."""
        with self._lock:
            self._samples = min(self._samples + 1, SAMPLES_MAX)
            for key, value in values.items():
                if value != 0 and key not in self._curves:
                    self._curves[key] = array("q", bytes(8 * (self._samples - 1)))
            for key, curve in list(self._curves.items()):
                value = values.get(key, 0)
                curve.append(_UNKNOWN if value is None else value)
                del curve[:-SAMPLES_MAX]
                if not any(curve):
                    del self._curves[key]

    def curve(self, key: Hashable) -> list[int | None]:
        """The values of a key, the oldest first; empty where all are 0."""
        with self._lock:
            return [None if value == _UNKNOWN else value for value in self._curves.get(key, ())]
