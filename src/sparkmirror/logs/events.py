"""Log events, each a sentence about a flow, topic and partition, and the filter that counts repeated ones; pure.

The nouns among a log call's arguments tell what it is about (`model.FlowName`, `model.TopicPartition`); its event is
named by `extra={"event": "gap"}`, or by the module that logs it; `flow` may be given so too.

The same failure is reported once, then as "again, 57 times in 10 min". A failure that has not come again when its pause
is over is forgotten, and is news when it comes. Fed by `logs.handlers`.
"""

import json
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from sparkmirror.clock import show_age, show_moment
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.shown import hide_user_info, show_lines, show_text

_EACH_IS_NEWS = frozenset({"gap", "target-lost"})
"""Losses: one of other offsets is another one."""


@dataclass(frozen=True, slots=True)
class LogEvent:
    """`level` is Python's; `topic` is the source's, `partition` None where it is about none.

    Two of the same `likeness` say the same, although figures in them differ. `figures` are for programs only.
    """

    at_ms: int
    level: int
    event: str
    message: str
    flow: str = ""
    topic: str = ""
    partition: int | None = None
    likeness: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, record: logging.LogRecord, flow: str = "") -> Self:
        """Makes an event of a log call; `flow` is the flow for which the process works, where the call does not say."""
        arguments = record.args if isinstance(record.args, tuple) else ()
        names = [one for one in arguments if isinstance(one, FlowName)]
        places = [one for one in arguments if isinstance(one, TopicPartition)]
        event = getattr(record, "event", record.module)
        likeness = [str(one) for one in arguments if event in _EACH_IS_NEWS or not isinstance(one, int | float)]
        return cls(
            round(record.created * 1000),
            record.levelno,
            event,
            hide_user_info(record.getMessage()),
            str(names[0]) if names else getattr(record, "flow", flow),
            places[0].topic if places else "",
            places[0].partition if places else None,
            "\0".join((str(record.msg), *likeness)),
            getattr(record, "figures", {}),
        )

    def as_text(self) -> str:
        """`12:00:31 WARNING A->B orders-3: …`: what the sentence does not say itself goes before it."""
        moment = time.strftime("%H:%M:%S", time.localtime(self.at_ms / 1000))
        about = "" if not self.flow or self.message.startswith(self.flow) else f"{self.flow} "
        # A further line is indented: none that others wrote begins like one of ours.
        message = "\n  ".join(line.lstrip() for line in show_lines(self.message).split("\n"))
        return f"{moment} {logging.getLevelName(self.level)} {show_text(about)}{message}"

    def fields(self) -> dict[str, Any]:
        """The members of its JSON object: `time`, `level`, `flow`, `topic`, `partition`, `event`, `message`, and the
        figures."""
        return {
            "time": show_moment(self.at_ms),
            "level": logging.getLevelName(self.level),
            "flow": self.flow or None,
            "topic": self.topic or None,
            "partition": self.partition,
            "event": self.event,
            "message": self.message,
            **self.figures,
        }

    def packed(self) -> str:
        """The event for another process, in one line whatever the message holds."""
        return json.dumps(
            [self.at_ms, self.level, self.event, self.message, self.flow, self.topic, self.partition, self.likeness]
        )

    @classmethod
    def unpacked(cls, text: str) -> Self:
        """The event of `packed`. Raises ValueError and TypeError for anything else."""
        return cls(*json.loads(text))


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
        """The sentences to write now that this has happened: repeats that are due, and the sentence itself if it is
        news."""
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
        """The repeats whose pause is over: a minute at first, then ten."""
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
