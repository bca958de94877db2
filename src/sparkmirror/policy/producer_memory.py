"""How long the log of a partition knows an idempotent producer, and what follows for flows that keep offsets; pure.

A log forgets a producer by the time of its last record, and then takes any sequence number: a second batch stands where
the first one belongs, if that was refused. Source: KIP-854, `ProducerStateManager.removeExpiredProducers`.
"""

from typing import Final

MEMORY_KEY: Final = "producer.id.expiration.ms"
DAY_MS: Final = 24 * 3_600_000
"""The default of brokers, and what is taken for true where they do not tell."""
_SHARE: Final = 4
_LEAST_MS: Final = 60_000
"""Of less, a log may forget a producer between two batches that follow each other."""


def young_ms(memory_ms: int) -> int | None:
    """Behind records of that age, in ms, several batches may be under way; None where one at a time always is."""
    return memory_ms // _SHARE if memory_ms // _SHARE >= _LEAST_MS else None
