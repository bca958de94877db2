"""A Spark program that mirrors a flow until it has accounted for so many records. Run by `test_own_program`.

accounting_program.py FILE FLOW SCRATCH RECORDS

Prints as JSON the records of each kind of rows, as Spark has observed them between source and sink.
"""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sparkmirror.spark.kafka_runs import KafkaRuns

SECONDS_MAX = 120.0


def main(file: str, flow: str, scratch: str, records: str) -> None:
    options = {"config": Path(file).read_text(), "flow": flow}
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "1").getOrCreate()
    spark.dataSource.register(KafkaRuns)
    rows = spark.readStream.format("kafka-runs").options(**options).load()
    counts = [F.sum(F.when(F.col("kind") == kind, F.col("records"))).alias(kind) for kind in ("run", "extent")]
    prefix = F.lit(f"{flow.partition('->')[0]}.")
    named = rows.observe("seen", *counts).withColumn(
        "target_topic", F.when(F.col("kind") == "run", F.concat(prefix, F.col("topic")))
    )
    query = named.writeStream.format("kafka-runs").options(**options, checkpointLocation=scratch).start()
    print("started", flush=True)
    seen, deadline = {"run": 0, "extent": 0}, time.monotonic() + SECONDS_MAX
    batches: set[int] = set()
    while sum(seen.values()) < int(records) and time.monotonic() < deadline and query.isActive:
        for progress in query.recentProgress:
            if progress.batchId not in batches and "seen" in progress.observedMetrics:
                batches.add(progress.batchId)
                for kind in seen:
                    seen[kind] += progress.observedMetrics["seen"][kind] or 0
        time.sleep(0.2)
    print(json.dumps(seen), flush=True)
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
