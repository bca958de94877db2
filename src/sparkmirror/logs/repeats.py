"""Which sentences to say, and which to count: the same failure is told once, then as "again, 57 times in 10 min"; pure.

Fed by `logs.handlers`. A failure that has not come again when its pause is over is forgotten, and is news when it does.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sparkmirror.clock import show_age
from sparkmirror.logs.events import LogEvent

FIRST_PAUSE_SECONDS = 60.0
PAUSE_SECONDS = 600.0
_KNOWN_MAX = 10_000


@dataclass(slots=True)
class _Told:
    last: LogEvent
    at: float
    pause_seconds: float
    times: int = 0


class Repeats:
    """Warnings and errors are counted, whatever is only information is always said. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str, str, int | None], _Told] = {}

    def take(self, sentence: LogEvent, now: float) -> list[LogEvent]:
        """What to say now that this has happened: what is due, and the sentence itself if it is news."""
        due = self.due(now)
        if sentence.level < logging.WARNING:
            return [*due, sentence]
        key = (sentence.likeness or sentence.message, sentence.flow, sentence.topic, sentence.partition)
        known = self._told.get(key)
        if known is not None:
            known.times += 1
            known.last = sentence
            return due
        if len(self._told) < _KNOWN_MAX:
            self._told[key] = _Told(sentence, now, FIRST_PAUSE_SECONDS)
        return [*due, sentence]

    def due(self, now: float) -> list[LogEvent]:
        """What has come again, of which the pause is over: a minute at first, then ten."""
        said: list[LogEvent] = []
        for key, known in list(self._told.items()):
            if now - known.at < known.pause_seconds:
                continue
            if not known.times:
                del self._told[key]
                continue
            said.append(_again(known, now))
            known.at, known.pause_seconds, known.times = now, PAUSE_SECONDS, 0
        return said

    def remaining(self, now: float) -> Iterator[LogEvent]:
        """All that was counted and not yet said, at the end."""
        return (_again(known, now) for known in self._told.values() if known.times)


def _again(known: _Told, now: float) -> LogEvent:
    times = "once" if known.times == 1 else f"{known.times} times"
    message = f"{known.last.message} (again, {times} in {show_age(now - known.at)})"
    return replace(known.last, message=message, figures={**known.last.figures, "times": known.times})
