"""A Spark program that copies a topic, and kills itself after its tasks have committed, before Spark notes it.

once_program.py SERVERS TOPIC COPY DIRECTORY TRANSACTIONAL_ID
"""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from sparkmirror.records.kafka_records import KafkaRecords
from sparkmirror.records.options import write_options
from sparkmirror.records.sink import RecordsStreamWriter


class Killed(RecordsStreamWriter):
    """The first time only: a second run goes on where the checkpoint says."""

    killed = Path()
    group = 0

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        if not self.killed.exists():
            self.killed.touch()
            os.killpg(self.group, signal.SIGKILL)
        super().commit(messages, batchId)


class KilledRecords(KafkaRecords):
    @classmethod
    def name(cls) -> str:
        return "killed-records"

    def streamWriter(self, schema: Any, overwrite: bool) -> RecordsStreamWriter:
        return Killed(write_options(self.options, is_stream=True))


def main(servers: str, topic: str, copy: str, directory: str, name: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    Killed.killed, Killed.group = Path(directory, "killed"), os.getpgid(0)
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.dataSource.register(KilledRecords)
    start = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
    records = spark.readStream.format("kafka-records").options(**start, maxOffsetsPerTrigger="200").load()
    sink = {"kafka.bootstrap.servers": servers, "topic": copy, "checkpointLocation": f"{directory}/checkpoint"}
    writer = records.writeStream.format("killed-records").options(**sink)
    if name:
        writer = writer.option("kafka.transactional.id", name)
    writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
