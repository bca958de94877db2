"""Runs the tiny streaming query by which `spark.warm_start` makes its class archive, in a process of its own."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

from sparkmirror.cache import end_with_parent
from sparkmirror.errors import SparkMirrorError

_SECONDS_MAX = 180


class _Message(WriterCommitMessage):
    pass


class _Reader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:
        return {"epoch": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: ARG002
        return {"epoch": 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:  # noqa: ARG002
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:  # noqa: ARG002
        from sparkmirror.pipeline.relay.schema import close

        yield close()


class _Writer(DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return _Message()

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: ARG002
        return None

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: ARG002
        return None


class WarmUp(DataSource):
    """A stream of one empty row, to load the classes that a mirror loads."""

    @classmethod
    def name(cls) -> str:
        return "warm-up"

    def schema(self) -> str:
        from sparkmirror.pipeline.relay.schema import ROW_DDL

        return ROW_DDL

    def streamReader(self, schema: Any) -> _Reader:  # noqa: ARG002
        return _Reader()

    def streamWriter(self, schema: Any, overwrite: bool) -> _Writer:  # noqa: ARG002
        return _Writer()


def _load_reflection(session: Any) -> None:
    """What MLlib's extension loads, where all jars of Spark's are on the class path."""
    package = getattr(session.sparkContext._jvm.scala.reflect.runtime, "package$")
    getattr(package, "MODULE$").universe()


def _run_query(archive: str) -> None:
    """In the child: a session as a mirror's, one micro-batch, and an orderly end of the JVM."""
    end_with_parent(_SECONDS_MAX)
    from pyspark.sql import functions as F

    from sparkmirror.spark.gateway import JvmOptions
    from sparkmirror.spark.session import launch_context, open_session
    from sparkmirror.spark.warm_up import WarmUp as ImportableWarmUp

    with tempfile.TemporaryDirectory(prefix="sparkmirror-warm-up-") as scratch:
        options = JvmOptions(archive=[f"-XX:ArchiveClassesAtExit={archive}"])
        context = launch_context(1, Path(scratch), options=options)
        session = open_session(context)
        session.dataSource.register(ImportableWarmUp)
        _load_reflection(session)
        rows = session.readStream.format("warm-up").load()
        wanted = F.col("topic").rlike("^(?:.*)$") & ~F.col("topic").rlike("^(?:x)$")
        routed = rows.withColumn("target_topic", F.when(wanted, F.concat(F.lit("A."), F.col("topic"))))
        observed = routed.observe("mirror", F.sum("records").alias("records"), F.max("fetched_at").alias("at"))
        query = observed.writeStream.format("warm-up").option("checkpointLocation", f"{scratch}/c")
        query.trigger(availableNow=True).start().awaitTermination(_SECONDS_MAX)
        gateway = session.sparkContext._gateway
        session.stop()
        assert gateway is not None
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(_SECONDS_MAX)


if __name__ == "__main__":
    try:
        _run_query(sys.argv[1])
    except SparkMirrorError as problem:
        sys.exit(problem.args[0])  # one line, the last, is what `spark.warm_start` passes on
