"""A flow's canary: it sends probe records through the whole mirror, which measures true latency and loss.

One process writes the probe to the source and reads it on the target, so that latency is by one clock. How far the
clusters' clocks differ from it is measured apart: a record to a topic with LogAppendTime is answered with the broker's
time. Run by `runtime.leader_jobs` where `canary.interval.seconds` is set; reports on the status topic
(`telemetry.records`).
"""

import json
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NewTopic, TopicExists
from sparkmirror.kafka.clients import open_admin, open_tail
from sparkmirror.kafka.publish import Publisher
from sparkmirror.kafka.tail import TopicTail
from sparkmirror.model import TopicPartition
from sparkmirror.stored_json import Count, Name, decode_or_none
from sparkmirror.telemetry.records import CanaryState, encode_record

CLOCK_TOPIC: Final = "mm2-sparkmirror-clock.internal"
_HOUR: Final = {"retention.ms": "3600000", "segment.ms": "3600000", "segment.bytes": str(1 << 20)}
_REPLICAS_MAX: Final = 3
_CLOCK_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.2
_KEPT_SECONDS: Final = 1800.0
"""Half of the time for which the topic of the probes keeps them."""


@dataclass(frozen=True, slots=True)
class _Probe:
    canary: Name
    n: Count


class CanaryJob:
    """A round sends a probe, and waits for arrivals until the interval is over. Connections stay open."""

    def __init__(self, flow: FlowConfig, clock: Clock = SYSTEM_CLOCK) -> None:
        self._flow = flow
        self._clock = clock
        self._home = TopicPartition(flow.remote_topic(flow.canary_topic), 0)
        self._status_topic = flow.ledger_topics.status
        self._connections = ExitStack()
        self._open: _Opened | None = None
        self._tail: TopicTail | None = None
        self._state = CanaryState(uuid.uuid4().hex[:12])
        self._sent_at: dict[int, tuple[float, int]] = {}
        self._read_up: int | None = None
        self._unseen = 0
        """Of probes before this one nobody saw when they arrived."""
        self._clocks_at = 0.0

    def __call__(self) -> None:
        """Raises ClusterError if a cluster does not answer."""
        try:
            if self._open is None:
                self._open = _Opened(self._flow, self._connections)
            self._round(self._open)
        except Exception:
            self.close()
            raise

    def close(self) -> None:
        self._connections.close()
        self._open = self._tail = None

    def _round(self, opened: "_Opened") -> None:
        ends_at = self._clock.monotonic() + self._flow.canary_interval_seconds
        if self._tail is None:
            self._tail = self._follow(opened)
        if self._clock.monotonic() >= self._clocks_at:
            self._clocks_at = self._clock.monotonic() + _CLOCK_SECONDS
            self._read_clocks(opened)
        self._send(opened)
        while (left := ends_at - self._clock.monotonic()) > 0:
            self._take_arrivals(min(left, _POLL_SECONDS))
        self._tell(opened)

    def _follow(self, opened: "_Opened") -> TopicTail | None:
        """Follows the probes' topic on the target, once the mirror has created it; before, no probe is sent."""
        if self._home.topic not in opened.target.list_topics([self._home.topic]):
            return None
        tail = self._connections.enter_context(open_tail(self._flow.target, "canary", [self._home]))
        tail.seek(self._home, self._resume(opened.target.await_end(self._home)))
        return tail

    def _resume(self, end: int) -> int:
        """The offset to read from: at first the topic's `end`, after a failure where reading stopped, since a probe
        that has arrived meanwhile would count as lost as soon as a later one is seen. Of probes in a topic that was
        made again, or may have deleted them by now, it is not known whether they arrived."""
        old = self._clock.monotonic() - _KEPT_SECONDS
        if self._read_up is None or self._read_up > end or any(sent_at < old for sent_at, _ in self._sent_at.values()):
            self._sent_at.clear()
            self._read_up = end
        self._unseen = self._state.sent
        return self._read_up

    def _send(self, opened: "_Opened") -> None:
        if self._tail is None:
            return
        number = self._state.sent
        value = json.dumps({"canary": self._state.run, "n": number}).encode()
        self._sent_at[number] = (self._clock.monotonic(), self._clock.time_ns() // 1_000_000)
        opened.to_source.write(self._flow.canary_topic, [(str(self._flow.name).encode(), value)])
        self._state = replace(self._state, sent=number + 1)

    def _take_arrivals(self, seconds_max: float) -> None:
        if self._tail is None:
            time.sleep(seconds_max)
            return
        for record in self._tail.poll(seconds_max):
            self._read_up = record.offset + 1
            number = probe_number(record.value, self._state.run)
            if number is not None:
                self._arrive(number)

    def _arrive(self, number: int) -> None:
        """A probe arrived. Earlier ones that did not are lost, since a partition keeps the order; repeats count
        once."""
        sent = self._sent_at.pop(number, None)
        if sent is None:
            return
        latency = self._state.latency.copy()
        if number >= self._unseen:
            latency.add(round((self._clock.monotonic() - sent[0]) * 1000), 1)
        overtaken = [one for one in self._sent_at if one < number]
        for one in overtaken:
            del self._sent_at[one]
        arrived, lost = self._state.arrived + 1, self._state.lost + len(overtaken)
        self._state = replace(self._state, arrived=arrived, lost=lost, latency=latency)

    def _read_clocks(self, opened: "_Opened") -> None:
        source, target = opened.to_source.read_clock(CLOCK_TOPIC), opened.to_target.read_clock(CLOCK_TOPIC)
        self._state = replace(self._state, source_skew_seconds=source, target_skew_seconds=target)

    def _tell(self, opened: "_Opened") -> None:
        oldest_sent_ms = min((sent_ms for _, sent_ms in self._sent_at.values()), default=None)
        record = replace(self._state, oldest_sent_ms=oldest_sent_ms)
        opened.to_target.write(self._status_topic, [encode_record(self._flow.name.source, record)])


class _Opened:
    """The connections of the job until its next failure; creates the topics."""

    def __init__(self, flow: FlowConfig, connections: ExitStack) -> None:
        source = connections.enter_context(open_admin(flow.source, "canary"))
        self.target = connections.enter_context(open_admin(flow.target, "canary"))
        for admin in (source, self.target):
            _ensure_topics(admin, canary_topics(flow, admin))
        self.to_source = connections.enter_context(Publisher(flow.source, "canary"))
        self.to_target = connections.enter_context(Publisher(flow.target, "canary"))


def probe_number(value: bytes | None, run: str) -> int | None:
    """Of a probe of this run; None for others, and for what a transform has made of it."""
    probe = decode_or_none(value, _Probe)
    return None if probe is None or probe.canary != run else probe.n


def canary_topics(flow: FlowConfig, admin: Admin) -> list[NewTopic]:
    """Those of the canary on the cluster of `admin`, whether or not they are there. Raises ClusterError."""
    replicas = min(_REPLICAS_MAX, len(admin.brokers()))
    clock = NewTopic(CLOCK_TOPIC, 1, replicas, _HOUR | {"message.timestamp.type": "LogAppendTime"})
    return [NewTopic(flow.canary_topic, 1, replicas, _HOUR), clock] if admin.alias == flow.name.source else [clock]


def _ensure_topics(admin: Admin, wanted: Sequence[NewTopic]) -> None:
    there = admin.list_topics(topic.name for topic in wanted)
    missing = [topic for topic in wanted if topic.name not in there]
    for error in admin.create_topics(missing).values() if missing else ():
        if error is not None and not isinstance(error, TopicExists):
            raise error
