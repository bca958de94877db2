"""Writes metrics in Prometheus' text format 0.0.4, by hand: ten thousand partitions in half a second; pure.

Called by `telemetry.scrape` for `/metrics`, and by `cli.metrics`.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from sparkmirror.telemetry.metrics import LABELS_OF_ALL, METRICS, FlowSnapshot, Labels, Metric, list_samples

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS_MS: Final = tuple(1 << power for power in range(21))
"""1 ms to 17 minutes, by doublings, which `telemetry.histogram` parts exactly."""
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def expose(sights: Sequence[FlowSnapshot], metrics: Iterable[Metric] = METRICS) -> bytes:
    """All metrics of the flows, or those."""
    return "".join(line for metric in metrics for line in _lines(metric, sights)).encode()


def _lines(metric: Metric, sights: Sequence[FlowSnapshot]) -> Iterator[str]:
    samples = list(_histograms(metric, sights)) if metric.histogram else list(_samples(metric, sights))
    if samples:
        yield f"# HELP {metric.name} {metric.help.translate(_ESCAPES)}\n# TYPE {metric.name} {metric.kind}\n"
        yield from samples


def _samples(metric: Metric, sights: Iterable[FlowSnapshot]) -> Iterator[str]:
    names = (*LABELS_OF_ALL, *metric.labels)
    for labels, value in list_samples(metric, sights):
        yield f"{metric.name}{{{_labels(names, labels)}}} {_number(value)}\n"


def _histograms(metric: Metric, sights: Iterable[FlowSnapshot]) -> Iterator[str]:
    assert metric.histogram is not None
    for snapshot in sights:
        found = metric.histogram(snapshot)
        labels = _labels(LABELS_OF_ALL, (snapshot.flow.source, snapshot.flow.target))
        for limit_ms in BUCKETS_MS:
            yield f'{metric.name}_bucket{{{labels},le="{limit_ms / 1000}"}} {found.below(limit_ms)}\n'
        yield f'{metric.name}_bucket{{{labels},le="+Inf"}} {found.count}\n'
        yield f"{metric.name}_sum{{{labels}}} {found.total_ms / 1000}\n{metric.name}_count{{{labels}}} {found.count}\n"


def _labels(names: Labels, values: Labels) -> str:
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(names, values, strict=True))


def _number(value: float) -> str:
    return "NaN" if math.isnan(value) else str(int(value)) if value == int(value) else repr(value)
