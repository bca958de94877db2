"""The only place that builds a Spark session. Called by `runtime.run` and by tests.

Each setting was needed or measured; DESIGN.md says which.
"""

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, accumulators
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from sparkmirror.errors import EnvironmentProblem
from sparkmirror.java import find_java
from sparkmirror.logs.handlers import JvmLogReader
from sparkmirror.pipeline.relay.schema import BATCH_BYTES, ROWS_PER_BATCH
from sparkmirror.spark.cluster import KEY_VARIABLE, SparkCluster, local_master, needs_key
from sparkmirror.spark.flow_records import FlowRecords
from sparkmirror.spark.kafka_runs import KafkaRuns
from sparkmirror.spark.packages import import_places
from sparkmirror.spark.privacy import private_files, socket_directory
from sparkmirror.spark.warm_start import archive_options, spark_home

log = logging.getLogger(__name__)

FIXED_SETTINGS: Mapping[str, str] = {
    "spark.app.name": "sparkmirror",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.speculation": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(BATCH_BYTES),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.udf.pipelined.enabled": "true",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.buffer.size": str(BATCH_BYTES // 2),
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.python.daemon.module": "sparkmirror.spark.python_daemon",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "4",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.stopTimeout": "5s",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.redaction.regex": (
        "(?i)secret|password|passphrase|token|(?:access|api|account)[._-]?key|jaas|config|user[.]?info|pwd|://[^/\\s]*@"
    ),
    "spark.driver.memory": "512m",
    "spark.cleaner.periodicGC.interval": "24h",
    "spark.shuffle.mapStatus.compression.codec": "lz4",
}
_RECORD_SETTINGS: Mapping[str, str] = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_PER_BATCH),
    "spark.sql.execution.arrow.maxBytesPerBatch": "64m",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}
_JVM_OPTIONS = "-XX:+UseSerialGC -Xss512k -XX:ReservedCodeCacheSize=64m -XX:MaxMetaspaceSize=256m -XX:-UsePerfData"
_QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
"""For a JVM that no record passes one by one. Where records do, the other compiler halves what each costs."""
_LEAN_OPTION = "-Xmn24m"
"""For a JVM through which only leases pass: it touches all of its young generation in the end, 130 MB by default. What
it keeps takes 56 MB more."""


def launch_context(
    tasks: int,
    scratch: Path,
    cluster: SparkCluster | None = None,
    *,
    jvm_options: Sequence[str] | None = None,
    jmx: Sequence[str] = (),
    is_lean: bool = False,
    decodes: bool = False,
    debug: bool = False,
) -> SparkContext:
    """Start the JVM with a slot for each of `tasks`; may run on any thread, beside other work.

    `is_lean` where no payload passes through it, nor decoded records; `decodes` where these do. `scratch` is for
    Spark's own files, `jvm_options` replace the class archive's, `jmx` come beside them. Raises EnvironmentProblem
    without a usable Java, or with what the JVM said when it did not start.
    """
    find_java()
    _quiet_pyspark()
    _choose_python(cluster)
    is_here = cluster is None or cluster.is_here
    home = spark_home() if is_here else None  # a cluster's machines have a SPARK_HOME of their own
    if home is not None:
        os.environ["SPARK_HOME"] = str(home)
    archive = archive_options() if jvm_options is None else jvm_options
    lean = [_LEAN_OPTION] if is_lean else []
    basic = _JVM_OPTIONS if decodes else f"{_JVM_OPTIONS} {_QUICK_COMPILER}"
    options = " ".join([basic, *lean, f"-Dlog4j2.configurationFile={_log_settings()}", *archive, *map(_quoted, jmx)])
    master = local_master(tasks) if cluster is None else cluster.master
    conf = SparkConf().setMaster(master).setAll(list(FIXED_SETTINGS.items()))
    conf.set("spark.local.dir", str(scratch)).set("spark.sql.warehouse.dir", str(scratch))
    conf.set("spark.driver.extraJavaOptions", options)
    conf.set("spark.executor.extraJavaOptions", basic)
    if is_here:
        conf.set("spark.driver.host", "127.0.0.1").set("spark.driver.bindAddress", "127.0.0.1")
        conf.set("spark.python.unix.domain.socket.dir", str(socket_directory(scratch)))
        conf.set("spark.executor.heartbeatInterval", "60s")  # to itself
        conf.set("spark.authenticate", "true")  # else any user of this machine may speak to the driver's ports
    if cluster is not None:
        conf.setAll(list(cluster.settings.items()))
    ear = JvmLogReader(debug=debug)
    try:
        with ear.at_launch() as stderr, private_files():
            if SparkContext._gateway is None:
                SparkContext._ensure_initialized(conf=conf, gateway=launch_gateway(conf, {"stderr": stderr}))
            _give_key(cluster, conf)
            return SparkContext.getOrCreate(conf)
    except PySparkRuntimeError as problem:
        said = ear.last_words() or str(problem)
        hint = "Run again with --debug to see all of it."
        raise EnvironmentProblem(f"Spark's JVM did not start: {said}", hint) from None


def _quoted(option: str) -> str:
    """As Spark takes one option of several."""
    escaped = option.replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'


def _give_key(cluster: SparkCluster | None, conf: SparkConf) -> None:
    """What is set when the JVM is launched stands in its command line, so it gets the cluster's secret afterwards.

    Spark's own daemons take it from the environment; a driver only from its settings.
    """
    key = os.environ.get(KEY_VARIABLE, "")
    if cluster is not None and needs_key(cluster) and key:
        conf.set("spark.authenticate.secret", key)


def _quiet_pyspark() -> None:
    """When the JVM is lost, PySpark's own stack traces would hide our sentence."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        server.handle_error = lambda *_: None


def _choose_python(cluster: SparkCluster | None) -> None:
    """Set one Python command for all of Spark's Python processes, also the driver's; another Python must find the
    packages."""
    python = sys.executable if cluster is None else cluster.settings.get("spark.pyspark.python", sys.executable)
    os.environ["PYSPARK_PYTHON"], os.environ["PYSPARK_DRIVER_PYTHON"] = python, sys.executable
    if python != sys.executable:
        before = os.environ.get("PYTHONPATH", "")
        os.environ["PYTHONPATH"] = os.pathsep.join([*import_places(), *filter(None, [before])])


def open_session(context: SparkContext, *, discovers_sources: bool = True) -> SparkSession:
    """The session with `kafka-runs` registered; on the thread that will start queries. `discovers_sources` where an
    expression of a user's may name another data source."""
    session = SparkSession(context)
    if not discovers_sources:
        _skip_discovery(session)
    session.dataSource.register(KafkaRuns)
    return session


def _skip_discovery(session: SparkSession) -> None:
    """Spark looks for Python data sources among all installed packages before the first one is registered, in two
    processes that take half a second and 50 MB. Where the field is another one than in PySpark 4.3, it does look."""
    jvm: Any = session.sparkContext._jvm
    try:
        owner = jvm.java.lang.Class.forName("org.apache.spark.sql.execution.datasources.DataSourceManager$")
        field = owner.getDeclaredField("dataSourceBuilders")
        field.setAccessible(True)
        field.set(None, jvm.scala.Some(getattr(getattr(jvm.scala.collection.immutable, "Map$"), "MODULE$").empty()))
    except Py4JError as problem:
        log.debug("Spark looks for data sources: %s", problem)


def open_record_session(session: SparkSession) -> SparkSession:
    """A session beside `session` for flows with transforms, with `flow-records` registered.

    Many rows pass at once there, and expressions are compiled. What cannot be cast becomes null instead of ending the
    flow (no ANSI mode), and times are UTC.
    """
    records = session.newSession()
    for key, value in _RECORD_SETTINGS.items():
        records.conf.set(key, value)
    activate(records)
    records.dataSource.register(FlowRecords)
    activate(session)
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # its stack traces would hide our sentence
    return records


def activate(session: SparkSession) -> None:
    """Make it this thread's session: a query that starts looks for its sink there, not in its DataFrame's session."""
    jvm: Any = session.sparkContext._jvm
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)


def _log_settings() -> Path:
    return Path(__file__).with_name("log4j2.properties")
