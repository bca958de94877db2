"""A Spark program that reads a topic by Spark's own Kafka connector, and keeps its offsets in its own checkpoint.

Run by `test_identical_checkpoint`.

checkpoint_program.py SERVERS TOPIC CHECKPOINT SINK JARS DIES_IN

It ends when all is read that is there now, or is killed within the batch of that number (-1: within none), before its
rows are in the sink. A batch is one file of the sink, by its number: one that is done again takes the other's place.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from sparkmirror.spark.cluster import SparkCluster
from sparkmirror.spark.session import launch_context


def main(servers: str, topic: str, checkpoint: str, sink: Path, jars: str, dies_in: int) -> None:
    context = launch_context(2, sink.with_name("scratch"), SparkCluster("local[2]", {"spark.jars": jars}))
    spark = SparkSession(context)
    options = {"kafka.bootstrap.servers": servers, "kafka.isolation.level": "read_committed", "subscribe": topic}
    frame = spark.readStream.format("kafka").options(
        **options, startingOffsets="earliest", failOnDataLoss="true", maxOffsetsPerTrigger="150",
    ).load()  # fmt: skip
    keep = keeping(sink, dies_in)
    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
    context.stop()


def keeping(sink: Path, dies_in: int) -> Callable[[DataFrame, int], None]:
    def keep(batch: DataFrame, number: int) -> None:
        rows = [[row.partition, row.offset, bytes(row.value).decode()] for row in batch.collect()]
        if number == dies_in:
            os.kill(os.getpid(), signal.SIGKILL)
        fresh = sink / f"{number}.new"
        fresh.write_text(json.dumps(rows))
        fresh.replace(sink / f"{number}.json")

    return keep


if __name__ == "__main__":
    at, read_from, kept_in, into, jar_list, last = sys.argv[1:]
    main(at, read_from, kept_in, Path(into), jar_list, int(last))
