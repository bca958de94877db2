"""The MBeans of a mirror: MirrorMaker 2's and Connect's names and attributes, with the values of /metrics; pure.

Called by `runtime.jmx`. The keys of a name stand in MirrorMaker's order, values are quoted where Kafka's `JmxReporter`
quotes them, and all numbers are doubles.
"""

import math
import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sparkmirror.telemetry.metrics import MIRRORMAKER
from sparkmirror.telemetry.records import FlowState, TaskRecord
from sparkmirror.telemetry.snapshot import FlowSnapshot

Bean = Mapping[str, float | str]
"""Values by attribute."""
Beans = dict[str, Bean]
"""By object name."""

_TYPES: Final = {
    "kafka_connect_mirror_mirrorsourceconnector_": "MirrorSourceConnector",
    "kafka_connect_mirror_mirrorcheckpointconnector_": "MirrorCheckpointConnector",
}
_PLAIN: Final = re.compile(r"[\w\-%. \t]*", re.ASCII)
_QUOTED: Final = str.maketrans({'"': r"\"", "*": r"\*", "?": r"\?", "\\": r"\\", "\n": r"\n"})
_RATE_SECONDS: Final = 60.0
_WORST_FIRST: Final = ("failed", "restarting", "unassigned", "running")
_CONNECT_SAYS: Final = {
    FlowState.RUNNING: "running",
    FlowState.STOPPING: "running",
    FlowState.RESTARTING: "restarting",
    FlowState.FAILED: "failed",
}


@dataclass(frozen=True, slots=True)
class Own:
    """This process's part of a flow. `tasks` are the tasks that it may run. `is_read_whole` says that no transform
    drops records, so that the write counters serve as poll counters. `names` is the value of
    `metric.names.formats`."""

    connector: str
    tasks: Collection[int]
    is_read_whole: bool = True
    names: Collection[str] = ("legacy",)


def mirror_beans(snapshot: FlowSnapshot, own: Own) -> Beans:
    """`kafka.connect.mirror:…` beans of the partitions that this process mirrors, and of groups. Where `own.names` has
    "new", the same values stand in `kafka.connect:type=plugins` beans."""
    tasks: dict[tuple[str, ...], int] = {
        (record.target_topic or snapshot.remote_topic(record.topic), str(record.partition)): record.task
        for record in snapshot.board.partitions.values()
    }
    beans: dict[str, dict[str, float | str]] = {}
    for metric in MIRRORMAKER:
        prefix, kind = next((prefix, kind) for prefix, kind in _TYPES.items() if metric.name.startswith(prefix))
        attribute = metric.name.removeprefix(prefix).replace("_", "-")
        for labels, value in metric.read(snapshot):
            task = tasks.get(labels, 0) if kind == "MirrorSourceConnector" else 0
            if kind == "MirrorSourceConnector" and task not in own.tasks:
                continue
            keys = ("source", "target", *metric.labels)
            values = (snapshot.flow.source, snapshot.flow.target, *labels)
            for name in _names(kind, task, own, keys, values):
                beans.setdefault(name, {})[attribute] = float(value)
    return dict(beans)


def _names(kind: str, task: int, own: Own, keys: Sequence[str], values: Sequence[str]) -> Iterator[str]:
    """A checkpoint belongs to no task here and gets task 0, which is the only task of MirrorMaker's checkpoint
    connector by default."""
    if "legacy" in own.names:
        yield _name("kafka.connect.mirror", kind, keys, values)
    if "new" in own.names:
        connector = own.connector if kind == "MirrorSourceConnector" else kind
        yield _name("kafka.connect", "plugins", ("connector", "task", *keys), (connector, str(task), *values))


def connect_beans(flows: Mapping[str, "tuple[FlowSnapshot, Own, TaskRates]"], now: float) -> Beans:
    """`kafka.connect:…` beans of this process's tasks. The values of flows whose connectors have the same name are
    added up."""
    totals: dict[tuple[str, int], list[tuple[float, float, bool, str]]] = {}
    for snapshot, own, rates in flows.values():
        state = _CONNECT_SAYS.get(snapshot.state or FlowState.STARTING, "unassigned")
        for task, (total, rate) in rates.take(snapshot.board.tasks, own.tasks, now).items():
            totals.setdefault((own.connector, task), []).append((total, rate, own.is_read_whole, state))
    beans: Beans = {}
    for (connector, task), found in totals.items():
        total, rate = sum(one[0] for one in found), math.fsum(one[1] for one in found)
        is_read_whole = all(one[2] for one in found)
        keys, values = ("connector", "task"), (connector, str(task))
        beans[_name("kafka.connect", "source-task-metrics", keys, values)] = {
            "source-record-poll-rate": rate if is_read_whole else math.nan,
            "source-record-poll-total": total if is_read_whole else math.nan,
            "source-record-write-rate": rate,
            "source-record-write-total": total,
        }
        worst = min((one[3] for one in found), key=_WORST_FIRST.index)
        beans[_name("kafka.connect", "connector-task-metrics", keys, values)] = {"status": worst}
    return beans


@dataclass(slots=True)
class _Counted:
    """A task's record counter summed over its attempts, with its values in the last minute."""

    attempt: tuple[int, int] = (-1, -1)
    carried: int = 0
    records: int = 0
    before: deque[tuple[float, int]] = field(default_factory=deque)

    def take(self, task: TaskRecord, now: float) -> tuple[float, float]:
        if self.attempt != (attempt := (task.epoch, task.producer_epoch)):
            self.attempt, self.carried = attempt, self.carried + self.records
        self.records = task.records
        total = self.carried + self.records
        while len(self.before) > 1 and now - self.before[1][0] >= _RATE_SECONDS:
            self.before.popleft()
        self.before.append((now, total))
        at, stood = self.before[0]
        return float(total), (total - stood) / (now - at) if now > at else math.nan


class TaskRates:
    """The records that each task of one flow has mirrored since the first call of `take`, and its rate."""

    def __init__(self) -> None:
        self._counted: dict[int, _Counted] = {}

    def take(self, tasks: Mapping[int, TaskRecord], own: Collection[int], now: float) -> dict[int, tuple[float, float]]:
        """For each task of `own` its total, and its rate in records per second (NaN at the first call). `now` is in
        seconds."""
        mine = {number: task for number, task in tasks.items() if number in own}
        self._counted = {number: self._counted.get(number, _Counted()) for number in mine}
        return {number: self._counted[number].take(task, now) for number, task in mine.items()}


def _name(domain: str, kind: str, keys: Collection[str], values: Collection[str]) -> str:
    tags = ",".join(f"{key}={_sanitized(value)}" for key, value in zip(keys, values, strict=True))
    return f"{domain}:type={kind},{tags}"


def _sanitized(value: str) -> str:
    """Quotes a value as `Sanitizer.jmxSanitize` of kafka-clients does; the separator of `MirrorBeans.java` becomes a
    blank."""
    value = value.replace("\x1f", " ")
    return value if _PLAIN.fullmatch(value) else f'"{value.translate(_QUOTED)}"'


def render(beans: Mapping[str, Bean], sent: dict[str, str], separator: str = "\x1f") -> list[str]:
    """The lines for `MirrorBeans.update` that change the beans in `sent` into `beans`. Updates `sent` too.

    A line is a name, then attributes and values, separated by `separator`; a name alone removes the bean.
    """
    lines = {name: separator.join((name, *_fields(bean))) for name, bean in beans.items()}
    gone = [name for name in sent if name not in lines]
    changed = [line for name, line in lines.items() if sent.get(name) != line]
    sent.clear()
    sent.update(lines)
    return gone + changed


def _fields(bean: Bean) -> Iterator[str]:
    for attribute, value in bean.items():
        yield attribute
        yield f'"{value}' if isinstance(value, str) else "NaN" if math.isnan(value) else repr(value)
