"""The target topics' limits, looked up when a topic refuses a batch, or when batches are rebuilt for it.

A topic's limits may change at any time, and reading them needs DESCRIBE_CONFIGS, so the target's answer to a batch
decides: after a refusal `pipeline.produce.answer_taker` asks here, and sends again within the limits.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from sparkmirror.kafka.background import Background, Outcome
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.lookup import look_up_topic_configs

MAX_MESSAGE_BYTES: Final = 1_048_588
"""Kafka's default of `max.message.bytes`."""
TIMESTAMP_AFTER_MAX_MS: Final = 3_600_000
"""Kafka's default of `message.timestamp.after.max.ms`."""
MAX_MESSAGE_BYTES_KEY: Final = "max.message.bytes"
TIMESTAMP_AFTER_KEY: Final = "message.timestamp.after.max.ms"
_UNTOLD: Final[Mapping[str, str]] = {}


@dataclass(slots=True)
class TopicLimits:
    """Limits of one target topic, shared by all its buffers; None until looked up, Kafka's defaults if unknown."""

    max_message_bytes: int | None = None
    timestamp_after_max_ms: int | None = None

    @property
    def merged_bytes(self) -> int:
        """The size up to which batches are merged."""
        return MAX_MESSAGE_BYTES if self.max_message_bytes is None else self.max_message_bytes

    @property
    def timestamp_room_ms(self) -> int:
        """How far in the future a record's timestamp may be, in ms."""
        return TIMESTAMP_AFTER_MAX_MS if self.timestamp_after_max_ms is None else self.timestamp_after_max_ms


_UNKNOWN: Final = TopicLimits()


class TargetLimits:
    """The limits of all topics that one task writes to."""

    def __init__(self, settings: ClientSettings, background: Background) -> None:
        self._settings = settings
        self._background = background
        self._limits: dict[str, TopicLimits] = {}

    def of(self, topic: str) -> TopicLimits:
        return self._limits.setdefault(topic, TopicLimits())

    def known(self, topic: str) -> TopicLimits:
        """As far as they are known; may be called by another thread."""
        return self._limits.get(topic, _UNKNOWN)

    def ask(self, topic: str) -> None:
        """Look up a topic's limits in the background; `take` gets the answer."""
        work = partial(look_up_topic_configs, self._settings, topic, (MAX_MESSAGE_BYTES_KEY, TIMESTAMP_AFTER_KEY))
        self._background.submit(("limits", topic), work)

    def take(self, outcome: Outcome) -> tuple[str, bool] | None:
        """The topic of a finished look-up, and whether its limits changed; None for other work."""
        match outcome.key:
            case ("limits", str(topic)):
                known = self.of(topic)
                before = replace(known)
                configs = outcome.result if outcome.error is None else _UNTOLD
                known.max_message_bytes = int(configs.get(MAX_MESSAGE_BYTES_KEY, MAX_MESSAGE_BYTES))
                known.timestamp_after_max_ms = int(configs.get(TIMESTAMP_AFTER_KEY, TIMESTAMP_AFTER_MAX_MS))
                return topic, known != before
        return None
