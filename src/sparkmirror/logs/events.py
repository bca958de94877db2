"""Log events, each a sentence about a flow, topic and partition, and the filter that counts repeated ones; pure.

An event takes its flow and partition from the arguments of the log call that are a `model.FlowName` or a
`model.TopicPartition`. Its name is given by `extra={"event": "gap"}`, or is that of the module that logs it; `extra`
may give the `flow` too.

The same failure is logged once, then as "again, 57 times in 10 min". When a failure does not come again during its
pause, the filter forgets it, and logs it at once the next time. Called by `logs.handlers`.
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
"""Events about lost records: each is logged, since two of them with other offsets are two losses."""


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One log event. `level` is that of Python's logging, `topic` the source's topic ("" for none), `partition` None
    where the event concerns none. Events with the same `repeat_key` are repeats of one another, although numbers in
    their messages differ. `figures` are additional values that only the JSON form has.
    """

    at_ms: int
    level: int
    event: str
    message: str
    flow: str = ""
    topic: str = ""
    partition: int | None = None
    repeat_key: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, record: logging.LogRecord, flow: str = "") -> Self:
        """The event of a log call. `flow` is used where the call names no flow."""
        arguments = record.args if isinstance(record.args, tuple) else ()
        names = [one for one in arguments if isinstance(one, FlowName)]
        places = [one for one in arguments if isinstance(one, TopicPartition)]
        event = getattr(record, "event", record.module)
        repeat_key = [str(one) for one in arguments if event in _EACH_IS_NEWS or not isinstance(one, int | float)]
        return cls(
            round(record.created * 1000),
            record.levelno,
            event,
            hide_user_info(record.getMessage()),
            str(names[0]) if names else getattr(record, "flow", flow),
            places[0].topic if places else "",
            places[0].partition if places else None,
            "\0".join((str(record.msg), *repeat_key)),
            getattr(record, "figures", {}),
        )

    def as_text(self) -> str:
        """`12:00:31 WARNING A->B orders-3: …`; the flow is put before a message that does not begin with it."""
        moment = time.strftime("%H:%M:%S", time.localtime(self.at_ms / 1000))
        about = "" if not self.flow or self.message.startswith(self.flow) else f"{self.flow} "
        # Further lines are indented, so that text from outside cannot look like the beginning of an event.
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
        """The event as one line of JSON, for another process."""
        return json.dumps(
            [self.at_ms, self.level, self.event, self.message, self.flow, self.topic, self.partition, self.repeat_key]
        )

    @classmethod
    def unpacked(cls, text: str) -> Self:
        """The event that `packed` made into this text. Raises ValueError or TypeError for other text."""
        return cls(*json.loads(text))


FIRST_PAUSE_SECONDS = 60.0
PAUSE_SECONDS = 600.0
_KNOWN_MAX = 10_000


@dataclass(slots=True)
class _Counted:
    last: LogEvent
    at: float
    pause_seconds: float
    times: int = 0


class Repeats:
    """Counts repeats of warnings and errors; events below WARNING are never counted. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._counted: dict[tuple[str, str, str, int | None], _Counted] = {}

    def take(self, sentence: LogEvent, now: float) -> list[LogEvent]:
        """The events to write now: repeats that are due, and this event unless it is a repeat."""
        due = self.due(now)
        if sentence.level < logging.WARNING:
            return [*due, sentence]
        key = (sentence.repeat_key or sentence.message, sentence.flow, sentence.topic, sentence.partition)
        known = self._counted.get(key)
        if known is not None:
            known.times += 1
            known.last = sentence
            return due
        if len(self._counted) < _KNOWN_MAX:
            self._counted[key] = _Counted(sentence, now, FIRST_PAUSE_SECONDS)
        return [*due, sentence]

    def due(self, now: float) -> list[LogEvent]:
        """The repeats whose pause is over. A first pause lasts one minute, each later one ten."""
        said: list[LogEvent] = []
        for key, known in list(self._counted.items()):
            if now - known.at < known.pause_seconds:
                continue
            if not known.times:
                del self._counted[key]
                continue
            said.append(_again(known, now))
            known.at, known.pause_seconds, known.times = now, PAUSE_SECONDS, 0
        return said

    def remaining(self, now: float) -> Iterator[LogEvent]:
        """All repeats that were counted and not yet written, at the end."""
        return (_again(known, now) for known in self._counted.values() if known.times)


def _again(known: _Counted, now: float) -> LogEvent:
    times = "once" if known.times == 1 else f"{known.times} times"
    message = f"{known.last.message} (again, {times} in {show_age(now - known.at)})"
    return replace(known.last, message=message, figures={**known.last.figures, "times": known.times})
