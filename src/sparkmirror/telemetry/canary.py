"""What a flow's canary has seen: a record on the status topic, under `["canary", source]`; pure.

Written by `sync.canary_job`, read by `metrics`.
"""

from dataclasses import dataclass, field

from sparkmirror.stored_json import Count, Moment, Name
from sparkmirror.telemetry.histogram import Histogram


@dataclass(frozen=True, slots=True)
class CanaryState:
    """Probes of one run. Latency is by the clock of the process that sends and reads them, skews are in seconds: how
    far a cluster's clock is ahead of it. `oldest_sent_ms` is of the oldest probe that has not arrived.
    """

    run: Name
    sent: Count = 0
    arrived: Count = 0
    lost: Count = 0
    oldest_sent_ms: Moment | None = None
    latency: Histogram = field(default_factory=Histogram)
    source_skew_seconds: float | None = None
    target_skew_seconds: float | None = None
    at_ms: Moment = 0

    def waiting_seconds(self, now_ms: int) -> float:
        return 0.0 if self.oldest_sent_ms is None else max(now_ms - self.oldest_sent_ms, 0) / 1000
