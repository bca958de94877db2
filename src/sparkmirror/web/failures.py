"""Keeps the last warnings and errors of this process for the page, with repeats counted; no I/O."""

import logging
import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any, Final

from sparkmirror.model import plain
from sparkmirror.shown import hide_user_info, show_lines

_KEPT_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Failure:
    """One message that was logged `times` times from `first_ms` to `last_ms` (ms since 1970)."""

    level: str
    text: str
    first_ms: int
    last_ms: int
    times: int = 1

    def as_json(self) -> dict[str, Any]:
        return plain(self)


class FailureLog(logging.Handler):
    """A handler of the program's logger. Its messages contain no secrets, like all log messages (invariant 10)."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._guard = threading.Lock()
        self._failures: OrderedDict[tuple[str, str], Failure] = OrderedDict()

    def emit(self, record: logging.LogRecord) -> None:
        at_ms = int(record.created * 1000)
        failure = Failure(record.levelname, hide_user_info(show_lines(record.getMessage())), at_ms, at_ms)
        with self._guard:
            key = (failure.level, failure.text)
            if (known := self._failures.pop(key, None)) is not None:
                failure = replace(known, last_ms=at_ms, times=known.times + 1)
            self._failures[key] = failure
            if len(self._failures) > _KEPT_MAX:
                self._failures.popitem(last=False)

    def latest(self) -> list[dict[str, Any]]:
        """The messages as JSON, the latest first."""
        with self._guard:
            return [failure.as_json() for failure in reversed(self._failures.values())]
