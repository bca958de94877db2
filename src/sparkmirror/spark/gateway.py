"""Starts Spark's JVM by `java` itself, with the command that Spark's launcher would have composed.

The launcher is two shells and a JVM of its own, 0.2 s before Spark's, and `SparkSubmit` reads settings that are set
again afterwards. PySpark is not imported here, so that the JVM starts before that. Called by `spark.session` and
`runtime.start`; where something speaks against it, PySpark starts the JVM as it always does.
"""

import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from sparkmirror.errors import EnvironmentProblem
from sparkmirror.java import find_java
from sparkmirror.logs.handlers import JvmLogReader
from sparkmirror.spark.privacy import private_files
from sparkmirror.spark.warm_start import archive_options, class_path, has_archive, launcher_words, spark_home

log = logging.getLogger(__name__)

HEAP: Final = "512m"
_MAIN_CLASS: Final = "org.apache.spark.api.python.PythonGatewayServer"
_JVM_OPTIONS: Final = (
    "-XX:+UseSerialGC", "-Xss512k", "-XX:ReservedCodeCacheSize=64m", "-XX:MaxMetaspaceSize=256m", "-XX:-UsePerfData",
)  # fmt: skip
_QUICK_COMPILER: Final = "-XX:TieredStopAtLevel=1"
"""For a JVM that no record passes one by one. Where records do, the other compiler halves what each costs."""
_HOT_CODE: Final = (
    "-XX:Tier4InvocationThreshold=50000", "-XX:Tier4MinInvocationThreshold=6000", "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)  # fmt: skip
"""Ten times Java's own: what runs for each record gets there within a second, and what Spark starts with does not. By
Java's own thresholds that compiler took a sixth of two cores while a copy began."""
_RECORDS_OPTIONS: Final = (
    "-Darrow.enable_unsafe_memory_access=true", "-Darrow.enable_null_check_for_get=false", *_HOT_CODE
)  # fmt: skip
"""Where records pass one by one; without Arrow's own checks of each access to a buffer, which Spark's code has no need
of."""
_LEAN_OPTIONS: Final = (
    "-Xmn8m", "-XX:+IgnoreUnrecognizedVMOptions", "-XX:TrimNativeHeapInterval=60000",
    "-XX:+UnlockDiagnosticVMOptions", "-XX:AsyncDeflationInterval=5000",
)  # fmt: skip
"""For a JVM through which only leases pass. It touches all of its young generation in the end, 130 MB by default. What
it keeps takes some 45 MB more. With 24 MB a mirror has 13 MB more, and starts no sooner. What Java's own code has freed
since the start goes back once a minute, 6 MB, by a Java that can: not all of 17 do. By default it looks for monitors to
deflate four times a second, 0.02 % of a core."""
_LAUNCHER_READS: Final = (
    "SPARK_CONF_DIR", "SPARK_DIST_CLASSPATH", "SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_DRIVER_MEMORY",
    "SPARK_MEM", "SPARK_PREPEND_CLASSES", "SPARK_TESTING", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "PYSPARK_SUBMIT_ARGS",
    "PYSPARK_GATEWAY_PORT",
)  # fmt: skip
"""What Spark's launcher makes other commands of."""
_LOOK_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True)
class JvmOptions:
    """What the driver's JVM is started with, beside what Spark's launcher adds.

    `is_lean` where no payload passes through it, nor decoded records; `decodes` where these do.
    """

    is_lean: bool = False
    decodes: bool = False
    jmx: Sequence[str] = ()
    archive: Sequence[str] | None = None
    """Instead of the options of the class archive."""

    def words(self) -> list[str]:
        """The options; the class archive is made now where there is none yet."""
        archive = archive_options() if self.archive is None else self.archive
        lean = _LEAN_OPTIONS if self.is_lean else ()
        return [*self.of_executors(), *lean, f"-Dlog4j2.configurationFile={_log_settings()}", *archive, *self.jmx]

    def of_executors(self) -> list[str]:
        return [*_JVM_OPTIONS, *(_RECORDS_OPTIONS if self.decodes else [_QUICK_COMPILER])]


@dataclass(frozen=True, slots=True)
class StartedJvm:
    """A JVM that is on its way. It ends when our end of its standard input is closed."""

    process: "subprocess.Popen[bytes]"
    ear: JvmLogReader
    _told: Path
    _is_taken: threading.Event = field(default_factory=threading.Event)
    _is_given_up: threading.Event = field(default_factory=threading.Event)

    def give_up(self) -> None:
        """Ends a JVM that nobody has asked for yet: with the directory gone in which it is to say its port, it would
        stay for ever."""
        if not self._is_taken.is_set():
            self._is_given_up.set()
            self.process.kill()
            self.process.wait()

    def wait(self) -> tuple[int, str] | None:
        """Port and secret of its py4j server; None when it ended instead. Raises EnvironmentProblem if it was given up
        meanwhile."""
        while not self._told.exists():
            if self.process.poll() is not None:
                if self._is_given_up.is_set():
                    raise EnvironmentProblem("Spark's JVM is not needed any more.")
                return None
            time.sleep(_LOOK_SECONDS)
        self._is_taken.set()
        told = self._told.read_bytes()
        self._told.unlink()
        return int.from_bytes(told[:4], "big"), told[8:].decode()


def start_early(scratch: Path, options: JvmOptions, *, debug: bool) -> StartedJvm | None:
    """Starts the JVM if that takes no time: if the class archive is there. Raises EnvironmentProblem without Java."""
    find_java()
    return start_jvm(scratch, options, debug=debug) if has_archive() else None


def start_jvm(scratch: Path, options: JvmOptions, *, debug: bool) -> StartedJvm | None:
    """None where only Spark's launcher knows the command. Raises EnvironmentProblem without a usable Java."""
    home = spark_home()
    words = launcher_words(home) if home is not None and os.environ.keys().isdisjoint(_LAUNCHER_READS) else []
    if home is None or not words:
        return None
    told = Path(mkdtemp(prefix="jvm-", dir=scratch)) / "gateway"
    jars = class_path(home, has_all=options.decodes)
    command = [str(find_java()), "-cp", jars, f"-Xmx{HEAP}", *options.words(), *words[1:], _MAIN_CLASS]
    ear = JvmLogReader(debug=debug)
    with ear.at_launch() as stderr, private_files():
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stderr=stderr, env=_environment(home, told),
                preexec_fn=_ignore_interrupt,
            )  # fmt: skip
        except OSError as problem:
            log.debug("Spark's launcher starts the JVM: %s", problem)
            return None
    return StartedJvm(process, ear, told)


def _environment(home: Path, told: Path) -> Mapping[str, str]:
    """As `bin/spark-submit` and PySpark set it."""
    own = {"SPARK_HOME": str(home), "PYTHONHASHSEED": "0", "SPARK_CONNECT_MODE": "0"}
    return {**os.environ, **own, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(told)}


def _ignore_interrupt() -> None:
    """In the child: Ctrl-C is for the driver alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _log_settings() -> Path:
    return Path(__file__).with_name("log4j2.properties")
