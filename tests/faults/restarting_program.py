"""A Spark program that starts the same query again in one process, as often as it reads a line. Run by
`test_moved_and_restarted`.

restarting_program.py FILE FLOW REMOTE_PREFIX SCRATCH TIMES
"""

import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sparkmirror.spark.kafka_runs import KafkaRuns


def main(file: str, flow: str, prefix: str, scratch: str, times: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    options = {"config": Path(file).read_text(), "flow": flow}
    builder = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.python.udf.pipelined.enabled", "true")
    spark = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "1").getOrCreate()
    spark.dataSource.register(KafkaRuns)

    def writer(number: int) -> Any:
        runs = spark.readStream.format("kafka-runs").options(**options).load()
        target = F.when(F.col("kind") == "run", F.concat(F.lit(prefix), F.col("topic")))
        stream = runs.withColumn("target_topic", target).writeStream.format("kafka-runs").options(**options)
        return stream.option("checkpointLocation", f"{scratch}/{number}")

    for number in range(int(times)):
        query = writer(number).start()
        sys.stdin.readline()
        query.stop()
    writer(-1).trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
