"""A status page of which the whole night is made up, so that each view has all that it can show. No mirror runs."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from sparkmirror.config.flow.settings import StatusSettings
from sparkmirror.config.types import Address
from sparkmirror.ledger.gaps import Gap
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.stored_json import encode
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.facts import gather
from sparkmirror.telemetry.pace import Pace
from sparkmirror.telemetry.records import encode_key
from sparkmirror.telemetry.verdict import judge, sum_up
from sparkmirror.web import flow_snapshot
from sparkmirror.web.api import PageRequests
from sparkmirror.web.health import Health
from sparkmirror.web.page_state import PageState
from sparkmirror.web.server import PageServer

FLOW = FlowName("west", "backup")
HOUR_MS = 3_600_000
LONG_NAME = "org.example.payments.settlement.instructions.rejected-by-counterparty.v2"
TOPICS = {"audit": 2, "orders": 6, LONG_NAME: 3, "sensors": 4}
GAP = Gap(TopicPartition("orders", 0), "retention", 100, 585, "went on", 0, UUID(int=7))


def board_of_the_night(now_ms: int) -> StatusBoard:
    """One partition failed, one paused, a worker restarted, a job fails, the canary flies."""
    board = StatusBoard(FLOW.source)

    def tell(kind: str, *name: str | int, **told: Any) -> None:
        board.take(encode_key(kind, FLOW.source, *name), encode({"run": "r", **told}), now_ms)

    process = {"version": "0.1.0", "host": "m1", "started_at_ms": now_ms - 2 * HOUR_MS, "records": 5, "bytes": 5}
    tell("flow", "m1:7", state="RUNNING", pid=7, **process)
    tell("flow", "m2:9", state="RUNNING", pid=9, **process | {"host": "m2"})
    failed = {"orders-3": "RECORD_TOO_LARGE (error 10): raise max.message.bytes of the target topic"}
    sums = {"records": 4_000_000, "bytes": 10**9, "throttled_ms": 42_000, "limited_ms": 900}
    sums |= {"lag_records": 1200, "behind_since_ms": now_ms - 90_000}
    tell("task", 0, epoch=2, producer_epoch=5, partitions=8, failed=failed, records_per_second=800.0, **sums)
    tell("task", 1, epoch=2, producer_epoch=5, partitions=7, paused=["audit-1"], records_per_second=450.5, **sums)
    for topic, count in TOPICS.items():
        for number in range(count):
            tell("partition", topic, number, **_partition(topic, number, now_ms))
    tell("job", "topics", rounds=12, cost_seconds=0.3, last_at_ms=now_ms - 4000, next_at_ms=now_ms + 6000)
    refused = "GROUP_AUTHORIZATION_FAILED on backup: grant READ on the groups to SparkMirror's principal."
    failing = {"state": "FAILED", "reason": refused, "failing_since_ms": now_ms - 180_000, "failures": 9}
    tell("job", "offsets", rounds=9, next_at_ms=now_ms + 3000, last_at_ms=now_ms - 2000, **failing)
    told = {"sent": 700, "arrived": 698, "lost": 1, "oldest_sent_ms": now_ms - 900}
    tell("canary", **told)
    tell("history", **_history(now_ms))
    return board


def _partition(topic: str, number: int, now_ms: int) -> dict[str, Any]:
    told: dict[str, Any] = {
        "task": number % 2, "epoch": 2, "producer_epoch": 5, "state": "RUNNING", "offset": 10**6 + number,
        "end": 10**6 + 11 * number, "records_per_second": 83.4, "bytes_per_second": 9000.0,
        "target_topic": f"west.{topic}", "latency": [4.0, 1.0, 9.0, 4.2], "keeps_offsets": topic == "sensors",
    }  # fmt: skip
    if (topic, number) == ("orders", 3):
        reason = "RECORD_TOO_LARGE (error 10): raise max.message.bytes of the target topic"
        told |= {"state": "FAILED", "reason": reason, "retry_at_ms": now_ms + 9000, "behind_since_ms": now_ms - 90_000}
    if (topic, number) == ("audit", 1):
        told |= {"state": "PAUSED", "behind_since_ms": now_ms - 30_000}
    if (topic, number) == ("sensors", 3):
        told["filling"] = [False, 10**6 + number, 10**6 + 9000, 10**6 + 4000, 300.0]
    return told


def _history(now_ms: int) -> dict[str, Any]:
    events = [
        (7.5, "started", "process 3 on m1"), (5.2, "restarted", "a worker or the query was started again"),
        (4.0, "gap", "orders-0: retention, 485 offsets gone"), (2.4, "ended", "process 3 on m1: Killed"),
        (2.0, "started", "process 7 on m1"), (0.1, "paused", "audit-1"), (0.03, "failed", "orders-3: RECORD_TOO_LARGE"),
    ]  # fmt: skip
    told = [{"at_ms": now_ms - round(ago * HOUR_MS), "kind": kind, "text": text} for ago, kind, text in events]
    return {"events": told, "restarts": [now_ms - 200_000], "samples": _samples(now_ms)}


def _samples(now_ms: int) -> list[tuple[int, int | None, int | None]]:
    """Nobody ran the mirror for 24 minutes, and for an hour nobody knew the lag."""
    first_ms = now_ms - now_ms % 300_000 - 288 * 300_000
    found: list[tuple[int, int | None, int | None]] = []
    for at in range(288):
        hours = (288 - at) / 12
        if not 2.0 <= hours <= 2.4:
            lag = None if 12 < hours < 13 else 300 + at % 40 * 15
            found.append((first_ms + at * 300_000, 900 + at % 24 * 30, lag))
    return found


def page_of_the_night(now_ms: int) -> PageState:
    board, page_state = board_of_the_night(now_ms), PageState()
    facts = gather(FLOW, board, now_ms, gaps=[GAP], file="mirror.properties")
    verdict = judge(facts)
    level, sentence = sum_up([verdict])
    about = {"version": "0.1.0", "file": "mirror.properties", "host": "m1", "pid": 7, "may_order": True}
    page_state.put("about", about)
    page_state.put("verdict", {"level": level.value, "sentence": sentence})
    page_state.put(f"flow/{FLOW}", flow_snapshot.flow_part(facts, verdict, board, Pace(1250.5, 10**6)))
    page_state.put(f"works/{FLOW}", flow_snapshot.works_part(facts))
    page_state.put(f"history/{FLOW}", flow_snapshot.history_part(board.history))
    page_state.put(f"recent/{FLOW}", [[now_ms - 5000 * (59 - at), 1200 + at, 2400] for at in range(60)])
    failure = {
        "level": "WARNING",
        "text": "the target refuses orders-3",
        "times": 9,
        "first_ms": now_ms,
        "last_ms": now_ms,
    }
    page_state.put("failures", [failure])
    rows = flow_snapshot.partition_rows(board.partitions.values(), facts.held)
    page_state.replace_rows(f"partitions/{FLOW}", rows)
    page_state.update_rows(f"gaps/{FLOW}", {0: flow_snapshot.gap_row(GAP)})
    return page_state


@contextmanager
def served_night() -> Iterator[tuple[str, PageState]]:
    """Its address, and what it shows."""
    page_state = page_of_the_night(time.time_ns() // 1_000_000)
    desk = PageRequests(page_state, (str(FLOW),), _curves, _settings, LOOKUPS, print)
    with PageServer(StatusSettings(Address("127.0.0.1", 0)), Health(), {}, desk).start() as server:
        yield f"http://{server.address}/", page_state


def _curves(_: str, numbers: list[int]) -> Mapping[int, list[int | None]]:
    return {number: [(number + at) % 17 for at in range(60)] for number in numbers}


def _settings() -> dict[str, Any]:
    plain = {"part": "flow", "key": "topics", "value": "orders", "default": False, "line": 3, "written": "topics"}
    shown = {**plain, "used": "orders", "beaten": [{"written": "topics.whitelist", "line": 2}]}
    return {"file": "mirror.properties", "warnings": ["line 2 does not count"], "settings": {str(FLOW): [shown]}}


def _readiness(_: str) -> dict[str, Any]:
    behind = {"topic": "orders", "partition": 3, "position": 100, "end": 133, "records": 33}
    group = {"repeats_planned": 2, "repeats_source_lost": 12, "active_on_source": True, "active_on_target": False}
    return {
        "at_ms": time.time_ns() // 1_000_000, "source_answers": True, "records_behind": 33, "seconds_behind": 12.5,
        "identical_offsets": 4,
        "unknown": [], "behind": [behind], "groups": {"billing": group}, "differences": ["audit: retention.ms differs"],
        "in_step": None,
    }  # fmt: skip


def _groups(_: str) -> dict[str, Any]:
    why = "4 of its 6 partitions have not been translated: no offset sync is old enough"
    place = {
        "topic": "orders", "partition": 2, "committed": 60, "lag": 12, "remote_topic": "west.orders",
        "translated": 58, "exact": False, "checkpoint_at": None, "target_committed": None, "target_lag": None,
    }  # fmt: skip
    billing = {"group": "billing", "state": "Stable", "target_state": "", "lag": 12, "target_lag": None}
    audit = {"group": f"audit-of-{LONG_NAME}", "state": "Empty", "target_state": "Empty", "lag": 0, "target_lag": 0}
    synced = place | {"translated": 60, "exact": True, "target_committed": 60, "target_lag": 0}
    groups = [{**billing, "notes": [why], "partitions": [place]}, {**audit, "notes": [], "partitions": [synced]}]
    return {"at_ms": time.time_ns() // 1_000_000, "groups": groups}


def _brokers(_: str) -> dict[str, Any]:
    broker = {
        "id": 1,
        "address": "west-1.example.org:9092",
        "problem": "",
        "leads": 31,
        "round_trip_ms": 1.4,
        "release": "4.3",
    }
    away = {"id": 2, "address": "west-2.example.org:9092", "problem": "west-2.example.org:9092 refuses the connection."}
    west = {"alias": "west", "role": "source", "problem": ""}
    backup = {"alias": "backup", "role": "target", "problem": "", "brokers": [broker]}
    silent = away | {"leads": 0, "round_trip_ms": None, "release": ""}
    return {"at_ms": time.time_ns() // 1_000_000, "clusters": [{**west, "brokers": [broker, silent]}, backup]}


LOOKUPS = {"readiness": _readiness, "groups": _groups, "brokers": _brokers}
