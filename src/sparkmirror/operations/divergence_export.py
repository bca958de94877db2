"""Writes the records that only an old primary has to files. Called by `cli.failback`; `operations.failback` finds
them."""

import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.kafka.clients import open_tail
from sparkmirror.kafka.tail import TailRecord
from sparkmirror.operations.failback import Divergence


def export(
    flow: FlowConfig, divergence: Sequence[Divergence], directory: Path, tell: Callable[[str, int, int], None]
) -> int:
    """Writes each partition's records to `TOPIC-N.jsonl`: offset, timestamp and, in base64, key, value and headers.
    Returns the number of records, without transaction markers and records of aborted transactions. Raises
    ClusterUnreachable when the source stops answering. It calls `tell(what, done, total)` to report its progress."""
    directory.mkdir(parents=True, exist_ok=True)
    return sum(_export(flow, one, directory / f"{one.partition}.jsonl", tell) for one in divergence)


def _export(flow: FlowConfig, one: Divergence, file: Path, tell: Callable[[str, int, int], None]) -> int:
    count = 0
    with open_tail(flow.source, "failback", [one.partition], is_internal=False) as tail, file.open("w") as out:
        for record in tail.read_between(one.partition, one.first, one.end):
            out.write(json.dumps(_as_json(record)) + "\n")
            count += 1
            tell(str(one.partition), record.offset + 1 - one.first, one.end - one.first)
    return count


def _as_json(record: TailRecord) -> dict[str, Any]:
    headers = [[name, _text(value)] for name, value in record.headers]
    return {"offset": record.offset, "timestamp": record.timestamp_ms, "key": _text(record.key),
            "value": _text(record.value), "headers": headers}  # fmt: skip


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
