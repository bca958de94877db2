"""The only place that builds a Spark session. Called by `engine.run` and by tests.

Each setting was needed or measured; DESIGN.md says which.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from sparkmirror.engine.warm_start import class_archive_options
from sparkmirror.relay.kafka_runs import KafkaRuns

TASK_ATTEMPTS = 8

_SETTINGS: Mapping[str, str] = {
    "spark.app.name": "sparkmirror",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.speculation": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.udf.pipelined.enabled": "true",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.buffer.size": "256",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.python.daemon.module": "sparkmirror.engine.python_daemon",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "4",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.stopTimeout": "5s",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|jaas|config",
    "spark.driver.memory": "512m",
    "spark.cleaner.periodicGC.interval": "24h",
    "spark.shuffle.mapStatus.compression.codec": "lz4",
}
_JVM_OPTIONS = (
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss512k -XX:ReservedCodeCacheSize=64m -XX:MaxMetaspaceSize=256m"
)


def build_session(tasks: int, scratch: Path, master: str | None = None) -> SparkSession:
    """A session with `kafka-runs` registered and a slot for each of `tasks`. `scratch` is for Spark's own files."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master or f"local[{max(tasks, 1)},{TASK_ATTEMPTS}]")
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    if master is None:
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.local.dir", str(scratch)).config("spark.sql.warehouse.dir", str(scratch))
    options = " ".join([_JVM_OPTIONS, f"-Dlog4j2.configurationFile={_log_settings()}", *class_archive_options()])
    builder = builder.config("spark.driver.extraJavaOptions", options)
    session = builder.getOrCreate()
    session.dataSource.register(KafkaRuns)
    return session


def _log_settings() -> Path:
    return Path(__file__).with_name("log4j2.properties")
