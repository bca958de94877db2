"""What the target's topics take: asked for when a topic refuses something, or when batches are rebuilt for it.

A topic's limits may change at any time and need a right (DESCRIBE_CONFIGS) to be read, so the target's own answer
decides, and this is what is done next: `pipeline.produce.sender` asks here, and sends again within what it learns.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from sparkmirror.kafka.background import Background, Outcome
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.lookup import look_up_topic_configs

MAX_MESSAGE_BYTES: Final = 1_048_588
"""Kafka's default of `max.message.bytes`: what most topics take."""
TIMESTAMP_AFTER_MAX_MS: Final = 3_600_000
"""Kafka's default of `message.timestamp.after.max.ms`."""
MAX_MESSAGE_BYTES_KEY: Final = "max.message.bytes"
TIMESTAMP_AFTER_KEY: Final = "message.timestamp.after.max.ms"
_UNTOLD: Final[Mapping[str, str]] = {}


@dataclass(slots=True)
class TopicLimits:
    """Limits of one target topic, shared by all its outboxes; None until asked for, Kafka's defaults if unknown."""

    max_message_bytes: int | None = None
    timestamp_after_max_ms: int | None = None

    @property
    def merged_bytes(self) -> int:
        """How large a batch may be made."""
        return MAX_MESSAGE_BYTES if self.max_message_bytes is None else self.max_message_bytes

    @property
    def timestamp_room_ms(self) -> int:
        """How far in the future a record may lie."""
        return TIMESTAMP_AFTER_MAX_MS if self.timestamp_after_max_ms is None else self.timestamp_after_max_ms


class TargetLimits:
    """The limits of all topics that one task writes to."""

    def __init__(self, settings: ClientSettings, background: Background) -> None:
        self._settings = settings
        self._background = background
        self._limits: dict[str, TopicLimits] = {}

    def of(self, topic: str) -> TopicLimits:
        return self._limits.setdefault(topic, TopicLimits())

    def ask(self, topic: str) -> None:
        """Look them up beside the loop; the answer comes to `take`."""
        work = partial(look_up_topic_configs, self._settings, topic, (MAX_MESSAGE_BYTES_KEY, TIMESTAMP_AFTER_KEY))
        self._background.submit(("limits", topic), work)

    def take(self, outcome: Outcome) -> tuple[str, bool] | None:
        """The topic that was asked for, and whether its limits are others than thought; None for other work."""
        match outcome.key:
            case ("limits", str(topic)):
                known = self.of(topic)
                before = replace(known)
                configs = outcome.result if outcome.error is None else _UNTOLD
                known.max_message_bytes = int(configs.get(MAX_MESSAGE_BYTES_KEY, MAX_MESSAGE_BYTES))
                known.timestamp_after_max_ms = int(configs.get(TIMESTAMP_AFTER_KEY, TIMESTAMP_AFTER_MAX_MS))
                return topic, known != before
        return None
