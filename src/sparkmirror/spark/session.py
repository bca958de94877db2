"""The only place that builds a Spark session. Called by `runtime.run` and by tests.

Each setting was needed or measured; DESIGN.md says which.
"""

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, accumulators
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import EnvironmentProblem
from sparkmirror.java import find_java
from sparkmirror.logs.handlers import JvmLogReader
from sparkmirror.pipeline.relay.schema import BATCH_BYTES, ROWS_PER_BATCH
from sparkmirror.spark.cluster import KEY_VARIABLE, SparkCluster, local_master, needs_key
from sparkmirror.spark.flow_records import FlowRecords
from sparkmirror.spark.gateway import HEAP, JvmOptions, StartedJvm, start_jvm
from sparkmirror.spark.kafka_runs import KafkaRuns
from sparkmirror.spark.packages import import_places
from sparkmirror.spark.privacy import private_files, socket_directory
from sparkmirror.spark.warm_start import class_path, spark_home

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
    "spark.driver.memory": HEAP,
    "spark.cleaner.periodicGC.interval": "24h",
    "spark.shuffle.mapStatus.compression.codec": "lz4",
}
_GATEWAY_PORT, _GATEWAY_SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
"""The environment variables by which Spark's JVM says where it is to a Python that it has started."""
_SMALL_BUFFER: Final = "256"
"""What is smaller waits in Spark's stream buffers, on either side, for what comes next. A thousand flags are larger, in
an Arrow batch; a hundred results of a Python UDF are not, but those of a batch of padding."""
_RECORD_SETTINGS: Mapping[str, str] = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_PER_BATCH),
    "spark.sql.execution.arrow.maxBytesPerBatch": "64m",
    "spark.sql.execution.pandas.udf.buffer.size": _SMALL_BUFFER,
    "spark.sql.execution.python.udf.buffer.size": _SMALL_BUFFER,
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


def launch_context(
    tasks: int,
    scratch: Path,
    cluster: SparkCluster | None = None,
    *,
    options: JvmOptions | None = None,
    started: StartedJvm | None = None,
    python: Path | None = None,
    debug: bool = False,
) -> SparkContext:
    """Start the JVM with a slot for each of `tasks`, or use the one that was `started`; may run on any thread, beside
    other work.

    `scratch` is for Spark's own files. `python` stands for the Python of Spark's processes on this machine. Raises
    EnvironmentProblem without a usable Java, or with what the JVM said when it did not start.
    """
    find_java()
    _quiet_pyspark()
    is_here = cluster is None or cluster.is_here
    options = options or JvmOptions()
    if not is_here:
        options = replace(options, archive=())  # it is of the jars of `home`, so it would not fit
    _choose_python(cluster, python)
    home = spark_home() if is_here else None  # a cluster's machines have a SPARK_HOME of their own
    if home is not None:
        os.environ["SPARK_HOME"] = str(home)
    conf = _settings(tasks, scratch, cluster, options)
    if SparkContext._gateway is None:
        started = started or (start_jvm(scratch, options, debug=debug) if cluster is None else None)
        gateway = _connect(started) if started is not None else None
        if gateway is not None:
            SparkContext._ensure_initialized(conf=conf, gateway=gateway)
    ear = JvmLogReader(debug=debug)
    ear.listen()
    try:
        with ear.at_launch() as stderr, private_files():
            if SparkContext._gateway is None:
                if _GATEWAY_PORT not in os.environ:
                    conf.set("spark.driver.extraJavaOptions", " ".join(map(_quoted, options.words())))
                    if home is not None:  # before those of the launcher, or the class archive does not fit
                        conf.setIfMissing("spark.driver.extraClassPath", class_path(home, has_all=False))
                SparkContext._ensure_initialized(conf=conf, gateway=launch_gateway(conf, {"stderr": stderr}))
            _give_key(cluster, conf)
            return SparkContext.getOrCreate(conf)
    except PySparkRuntimeError as problem:
        said = ear.last_words() or str(problem)
        hint = "Run again with --debug to see all of it."
        raise EnvironmentProblem(f"Spark's JVM did not start: {said}", hint) from None


def _settings(tasks: int, scratch: Path, cluster: SparkCluster | None, options: JvmOptions) -> SparkConf:
    master = local_master(tasks) if cluster is None else cluster.master
    conf = SparkConf().setMaster(master).setAll(list(FIXED_SETTINGS.items()))
    conf.set("spark.local.dir", str(scratch)).set("spark.sql.warehouse.dir", str(scratch))
    conf.set("spark.executor.extraJavaOptions", " ".join(options.of_executors()))
    if cluster is None or cluster.is_here:
        conf.set("spark.driver.host", "127.0.0.1").set("spark.driver.bindAddress", "127.0.0.1")
        conf.set("spark.python.unix.domain.socket.dir", str(socket_directory(scratch)))
        conf.set("spark.executor.heartbeatInterval", "60s")  # to itself
        conf.set("spark.authenticate", "true")  # else any user of this machine may speak to the driver's ports
    if cluster is not None:
        conf.setAll(list(cluster.settings.items()))
    return conf


def _connect(started: StartedJvm) -> Any:
    """PySpark's gateway to a JVM that was started without its launcher; None if that has ended."""
    started.ear.listen()
    told = started.wait()
    if told is None:
        log.debug("Spark's launcher starts the JVM, after one that said: %s", started.ear.last_words())
        return None
    names = (_GATEWAY_PORT, _GATEWAY_SECRET)
    os.environ.update(zip(names, map(str, told), strict=True))
    try:
        gateway = launch_gateway()
    finally:
        for name in names:
            del os.environ[name]
    gateway.proc = started.process
    return gateway


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


def _choose_python(cluster: SparkCluster | None, stand_in: Path | None) -> None:
    """Set one Python command for all of Spark's Python processes, also the driver's; another Python must find the
    packages."""
    python = sys.executable if cluster is None else cluster.settings.get("spark.pyspark.python", sys.executable)
    own = str(stand_in or sys.executable) if cluster is None else python
    os.environ["PYSPARK_PYTHON"], os.environ["PYSPARK_DRIVER_PYTHON"] = own, sys.executable
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


def open_flow_sessions(session: SparkSession, flows: Sequence[FlowConfig]) -> list[SparkSession]:
    """The session of each flow: `session`, or one of its own for a flow with transforms, since what is registered
    for its expressions is known to all that a session has."""
    return [open_record_session(session) if flow.transforms.steps else session for flow in flows]


def activate(session: SparkSession) -> None:
    """Make it this thread's session: a query that starts looks for its sink there, not in its DataFrame's session."""
    jvm: Any = session.sparkContext._jvm
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)
