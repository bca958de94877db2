"""Makes a class-data archive of Spark's JVM in the user's cache, which makes starts seconds faster.

Made once per Java and Spark by running a tiny streaming query (AppCDS, JEP 350); its directory's name carries what it
is valid for. `python -m sparkmirror.spark.warm_start` makes it ahead of time. Called by `spark.session`.
"""

import hashlib
import logging
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

from sparkmirror.cache import cache_directory, publish_once
from sparkmirror.errors import SparkMirrorError
from sparkmirror.java import find_java

log = logging.getLogger(__name__)

_ARCHIVE = "classes.jsa"
_SECONDS_MAX = 180


def archive_options() -> list[str]:
    """JVM options that use the archive, which is made now if this Java and Spark have none yet (some 20 s)."""
    directory = cache_directory() / "spark" / f"classes-{_key()}"
    if not directory.is_dir():
        log.info("Preparing Spark's class archive, once for this Java and Spark; this takes some 20 seconds.")
    try:
        archive = publish_once(directory, _make) / _ARCHIVE
    except (OSError, subprocess.SubprocessError) as problem:
        log.warning("Spark's class archive could not be made, so starts are slower: %s", problem)
        return []
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", *_IN_PLACE, *_QUIET]


def spark_home() -> Path | None:
    """A view of PySpark's own SPARK_HOME without its pyspark.zip; None where no cache can be written.

    Spark puts that archive first on its Python workers' path, and each worker would compile PySpark again from it
    (zipimport keeps no bytecode); without it they import the installed package. Measured: a quarter of a start.
    """
    with suppress(OSError):
        return publish_once(cache_directory() / "spark" / f"home-{_key()}", _link_home)
    return None


def _link_home(directory: Path) -> None:
    installed = Path(pyspark.__file__).parent
    for part in ("bin", "jars", "sbin", "data"):
        if (installed / part).exists():
            (directory / part).symlink_to(installed / part)
    libraries = directory / "python" / "lib"
    libraries.mkdir(parents=True)
    for library in (installed / "python" / "lib").glob("py4j-*.zip"):
        (libraries / library.name).symlink_to(library)


_IN_PLACE = ("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")
"""Maps the archive at the address that it was made for. At another, as Java 17.0.15 does by default, the JVM rewrites
its pointers at the start, and 75 MB that the system could drop and read again become the process's own."""
_QUIET = ("-Xlog:disable", "-Xlog:all=off")


def _key() -> str:
    java = find_java().resolve()
    marks = f"{pyspark.__version__} {Path(pyspark.__file__).parent} {java} {java.stat().st_mtime_ns}"
    return hashlib.sha256(marks.encode()).hexdigest()[:16]


def _make(directory: Path) -> None:
    """Run the query in a JVM of its own, which writes the archive as it ends.

    The child's stdin stays open as long as this process lives: `_end_with_parent`.
    """
    command = [sys.executable, "-m", "sparkmirror.spark.warm_start", str(directory / _ARCHIVE)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=subprocess.DEVNULL, stderr=pipe, text=True, start_new_session=True
    ) as child:
        assert child.stderr is not None
        said = child.stderr.read()
        status = child.wait()
    if status or not (directory / _ARCHIVE).is_file():
        last = said.strip().splitlines()[-1:] or ["it wrote none"]
        raise OSError(last[0])


def _end_with_parent() -> None:
    """In the child: when the mirror is gone, or time is up, so is this process and its JVM; nothing outlives a run."""
    select.select([sys.stdin], [], [], _SECONDS_MAX)
    os.killpg(0, signal.SIGKILL)


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


def _run_query(archive: str) -> None:
    """In the child: a session as a mirror's, one micro-batch, and an orderly end of the JVM."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    from pyspark.sql import functions as F

    from sparkmirror.spark.session import launch_context, open_session
    from sparkmirror.spark.warm_start import WarmUp as ImportableWarmUp

    with tempfile.TemporaryDirectory(prefix="sparkmirror-warm-up-") as scratch:
        context = launch_context(1, Path(scratch), jvm_options=[f"-XX:ArchiveClassesAtExit={archive}"])
        session = open_session(context)
        session.dataSource.register(ImportableWarmUp)
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
    if len(sys.argv) > 1:
        try:
            _run_query(sys.argv[1])
        except SparkMirrorError as problem:
            sys.exit(problem.args[0])  # one line, the last, is what `_make` passes on
    else:
        archive_options()
        import sparkmirror.batch.kernels  # noqa: F401  # compiled once, into the user's cache
