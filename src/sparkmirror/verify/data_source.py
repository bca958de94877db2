"""`kafka-comparison`: the Spark data source whose rows are compared spans. Used by `verify.job`.

    spark.dataSource.register(KafkaComparison)
    spark.read.format("kafka-comparison").option("config", text).option("flow", "A->B").option("spans", json).load()

One input partition, and so one Spark task, for each span; a task reads both clusters by itself.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from sparkmirror.pipeline.relay.options import RunsOptions
from sparkmirror.stored_json import decode, encode

if TYPE_CHECKING:
    from sparkmirror.batch.part import Part
    from sparkmirror.verify.matching import Findings
    from sparkmirror.verify.span import Span

_SPANS_BYTES_MAX: Final = 1 << 30
COUNTS = (
    "equal", "different", "missing", "surplus", "repeated", "lost", "holes", "clamped", "bytes", "identical_bytes"
)  # fmt: skip
_DDL = ", ".join(
    ["topic string", "partition int", "first bigint", "end bigint", *(f"{name} bigint" for name in COUNTS),
     "upstream bigint", "difference string", "problem string"]
)  # fmt: skip


class KafkaComparison(DataSource):
    """The data source: one row for each span with its place, counts of records and bytes, and the first difference
    as JSON, or a problem."""

    @classmethod
    def name(cls) -> str:
        return "kafka-comparison"

    def schema(self) -> str:
        return _DDL

    def reader(self, schema: Any) -> "ComparisonReader":  # noqa: ARG002
        return ComparisonReader(RunsOptions.from_mapping(self.options), self.options["spans"])


class ComparisonReader(DataSourceReader):
    """Compares spans, in Spark's workers."""

    def __init__(self, options: RunsOptions, spans: str) -> None:
        self._options = options
        self._spans = spans

    def partitions(self) -> Sequence[InputPartition]:
        from sparkmirror.verify.span import Span

        spans = decode(self._spans.encode(), tuple[Span, ...], "The spans to compare", bytes_max=_SPANS_BYTES_MAX)
        return [InputPartition(span) for span in spans]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_spans": ""}

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        from sparkmirror.logs.handlers import log_to_driver

        log_to_driver()
        span: Span = partition.value
        found, problem = compare_span(self._options, span)
        counts = [getattr(found, name) if found is not None else 0 for name in COUNTS]
        first = found.first if found is not None else None
        yield (
            span.source.topic, span.source.partition, span.first, span.end, *counts,
            None if first is None else first.upstream, None if first is None else encode(first).decode(), problem,
        )  # fmt: skip


def compare_span(options: RunsOptions, span: "Span") -> "tuple[Findings | None, str | None]":
    """Compares one span. The result has the differences, or the reason why the span could not be compared. A batch
    that cannot be decoded counts as a difference."""
    from sparkmirror.errors import ClusterError, ProtocolError
    from sparkmirror.verify.difference import UNREADABLE, Difference
    from sparkmirror.verify.matching import empty_findings, match
    from sparkmirror.verify.regions import match_regions

    read = _fetch_state(options, span)
    try:
        source = read(False, span.first, min(span.end, span.source_log_end))
        target = read(True, span.target_first, min(span.target_end, span.target_log_end))
        found = match(span, source, target)
        match_regions(span, found, read)
    except ProtocolError as damaged:
        found = empty_findings(span)
        found.different = 1
        found.note(Difference(UNREADABLE, span.first, span.target_first, detail=str(damaged.args[0])))
    except ClusterError as problem:
        return None, str(problem.args[0])
    return found, None


def _fetch_state(options: RunsOptions, span: "Span") -> Any:
    from sparkmirror.kafka.settings import client_settings
    from sparkmirror.pipeline.fetch.log_range import LogRange, read_parts

    flow = options.flow()
    source = client_settings(flow.consumer.reach(flow.source), "verify")
    target = client_settings(flow.target, "verify")
    is_committed = flow.consumer.isolation_level == "read_committed"

    def read(is_target: bool, first: int, end: int) -> "Iterator[Part]":
        where = span.target if is_target else span.source
        compacted = span.target_compacted if is_target else span.source_compacted
        wanted = LogRange(where, first, end, is_target or is_committed, compacted)
        return read_parts(target if is_target else source, wanted)

    return read
