"""The target topics' limits, looked up when a topic refuses a batch, or when batches are rebuilt for it.

A topic's limits may change at any time, and reading them needs DESCRIBE_CONFIGS, so the target's answer to a batch
decides: after a refusal `pipeline.produce.answer_taker` asks here, and sends again within the limits. Where the size
limit cannot be looked up, a refused batch is halved until the topic takes it, as Java's producer does
(`ProducerBatch.split`).
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


@dataclass(slots=True)
class TopicLimits:
    """Limits of one target topic, shared by all its buffers; None until looked up, Kafka's defaults if unknown.

    `refused_bytes` is the size of the smallest batch that was too large while the limit could not be looked up. Where
    that is more than Kafka's default, the limit is taken for the default.
    """

    max_message_bytes: int | None = None
    timestamp_after_max_ms: int | None = None
    refused_bytes: int | None = None

    @property
    def is_size_known(self) -> bool:
        return self.max_message_bytes is not None and self.refused_bytes is None

    @property
    def merged_bytes(self) -> int:
        """The size up to which batches are merged."""
        return MAX_MESSAGE_BYTES if self.max_message_bytes is None else self.max_message_bytes

    def is_halved(self, size_bytes: int) -> bool:
        """Whether a refused batch of this size is to be halved, since nothing else is known of the limit."""
        return self.max_message_bytes is None and self.refused_bytes is not None and size_bytes >= self.refused_bytes

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
        self._refused: dict[str, int] = {}

    def of(self, topic: str) -> TopicLimits:
        return self._limits.setdefault(topic, TopicLimits())

    def known(self, topic: str) -> TopicLimits:
        """As far as they are known; may be called by another thread."""
        return self._limits.get(topic, _UNKNOWN)

    def ask(self, topic: str, too_large_bytes: int | None = None) -> None:
        """Look up a topic's limits in the background; `take` gets the answer. `too_large_bytes` is the size of the
        batch that asks, if that was too large."""
        if too_large_bytes is not None:
            self._refused[topic] = min(too_large_bytes, self._refused.get(topic, too_large_bytes))
        work = partial(look_up_topic_configs, self._settings, topic, (MAX_MESSAGE_BYTES_KEY, TIMESTAMP_AFTER_KEY))
        self._background.submit(("limits", topic), work)

    def take(self, outcome: Outcome) -> tuple[str, bool] | None:
        """The topic of a finished look-up, and whether its limits changed; None for other work."""
        match outcome.key:
            case ("limits", str(topic)):
                known, refused_bytes = self.of(topic), self._refused.pop(topic, None)
                before = replace(known)
                if outcome.error is None:
                    _note_known(known, outcome.result)
                elif refused_bytes is not None:
                    _note_refused(known, min(refused_bytes, known.refused_bytes or refused_bytes))
                return topic, known != before
        return None


def _note_known(limits: TopicLimits, configs: Mapping[str, str]) -> None:
    """A broker that does not know a setting keeps to Kafka's default of it."""
    limits.max_message_bytes = int(configs.get(MAX_MESSAGE_BYTES_KEY, MAX_MESSAGE_BYTES))
    limits.timestamp_after_max_ms = int(configs.get(TIMESTAMP_AFTER_KEY, TIMESTAMP_AFTER_MAX_MS))
    limits.refused_bytes = None


def _note_refused(limits: TopicLimits, size_bytes: int) -> None:
    """The default spares batches that are much larger a round for each halving."""
    limits.refused_bytes = size_bytes
    limits.max_message_bytes = MAX_MESSAGE_BYTES if size_bytes > MAX_MESSAGE_BYTES else None
