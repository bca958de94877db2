"""The last minutes of a few figures, for the page's small curves; pure. Filled by `web.watchers`, read by `web.api`.

What stands at nothing is not kept, so ten thousand idle partitions cost nothing.
"""

import threading
from array import array
from collections.abc import Hashable, Mapping
from typing import Final

SAMPLES_MAX: Final = 60
SAMPLE_SECONDS: Final = 5.0
"""Sixty samples are five minutes."""


class History:
    """Whole numbers by key, one a sample; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._samples = 0
        self._curves: dict[Hashable, array[int]] = {}

    def sample(self, values: Mapping[Hashable, int]) -> None:
        """One sample of all keys; those left out stand at nothing."""
        with self._lock:
            self._samples = min(self._samples + 1, SAMPLES_MAX)
            for key, value in values.items():
                if value and key not in self._curves:
                    self._curves[key] = array("q", bytes(8 * (self._samples - 1)))
            for key, curve in list(self._curves.items()):
                curve.append(values.get(key, 0))
                del curve[:-SAMPLES_MAX]
                if not any(curve):
                    del self._curves[key]

    def curve(self, key: Hashable) -> list[int]:
        """The oldest first; empty where all of it is nothing."""
        with self._lock:
            return list(self._curves.get(key, ()))
