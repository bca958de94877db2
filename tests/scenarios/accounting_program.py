"""A Spark program that mirrors a flow until its standard input ends. Run by `test_own_program`.

accounting_program.py FILE FLOW SCRATCH

Prints as JSON, a line for each change, the records of each kind of rows, as Spark has observed them between source and
sink.
"""

import json
import sys
import threading
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sparkmirror.spark.kafka_runs import KafkaRuns

SETTINGS = {
    "spark.sql.execution.arrow.maxBytesPerBatch": "8192",
    "spark.buffer.size": "4096",
    "spark.python.udf.pipelined.enabled": "true",
}


def main(file: str, flow: str, scratch: str) -> None:
    options = {"config": Path(file).read_text(), "flow": flow}
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config(map=SETTINGS).getOrCreate()
    spark.dataSource.register(KafkaRuns)
    rows = spark.readStream.format("kafka-runs").options(**options).load()
    counts = [F.sum(F.when(F.col("kind") == kind, F.col("records"))).alias(kind) for kind in ("run", "extent")]
    prefix = F.lit(f"{flow.partition('->')[0]}.")
    named = (
        rows.observe("seen", *counts)
        .withColumn("target_topic", F.when(F.col("kind") == "run", F.concat(prefix, F.col("topic"))))
        .withColumn("padding", F.when(F.col("kind") == "flush", F.repeat(F.lit(" "), 8192)))
    )
    query = named.writeStream.format("kafka-runs").options(**options, checkpointLocation=scratch).start()
    print("started", flush=True)
    seen = {"run": 0, "extent": 0}
    batches: set[int] = set()
    ended = threading.Event()
    threading.Thread(target=_await_end, args=(ended,), daemon=True).start()
    while query.isActive and not ended.wait(0.2):
        before = dict(seen)
        for progress in query.recentProgress:
            if progress.batchId not in batches and "seen" in progress.observedMetrics:
                batches.add(progress.batchId)
                for kind in seen:
                    seen[kind] += progress.observedMetrics["seen"][kind] or 0
        if seen != before:
            print(json.dumps(seen), flush=True)
    query.stop()
    spark.stop()


def _await_end(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


if __name__ == "__main__":
    main(*sys.argv[1:])
