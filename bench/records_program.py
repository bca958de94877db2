"""A Spark program that reads and writes records of a topic by one data source. Run by `bench.records_source`.

records_program.py FORMAT SERVERS TOPIC TARGET RECORDS VALUE_BYTES ROUNDS [JARS]

Prints a JSON line for each piece of work: its name, seconds, and CPU seconds of all processes of the program.
"""

import json
import os
import sys
import time
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.process_tree import cpu_seconds

TASKS = 4
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")
RUNS = "kafka-runs"
WARM_RECORDS = 20_000


def main(source: str, servers: str, topic: str, target: str, sizes: tuple[int, int, int], jars: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "2g")
    spark = (builder.config("spark.jars", jars) if jars else builder).getOrCreate()
    records, value_bytes, rounds = sizes
    kafka = {"kafka.bootstrap.servers": servers}

    def read() -> DataFrame:
        rows = spark.read.format(source).options(**kafka, subscribe=topic).load()
        return rows if source == RUNS else rows.select(*COLUMNS)

    def made(count: int) -> DataFrame:
        text = F.rpad(F.col("id").cast("string"), value_bytes, "x")
        return spark.range(0, count, 1, TASKS).select(F.col("id").cast("string").alias("key"), text.alias("value"))

    def write(rows: DataFrame) -> None:
        rows.write.format(source).mode("append").options(**kafka, topic=target).save()

    work: dict[str, Callable[[], None]] = {
        "read": lambda: read().write.format("noop").mode("overwrite").save(),
        "copy": lambda: write(read() if source == RUNS else read().select("key", "value")),
    }
    if source != RUNS:
        work["write"] = lambda: write(made(records))
        write(made(WARM_RECORDS))
    work["read"]()
    for _ in range(rounds):
        for name, do in work.items():
            began, spent = time.monotonic(), cpu_seconds(os.getpid())
            do()
            took = time.monotonic() - began
            print(json.dumps([name, took, cpu_seconds(os.getpid()) - spent]), flush=True)
    spark.stop()


if __name__ == "__main__":
    one, where, read_from, write_to, *numbers, jar_list = sys.argv[1:]
    count, size, turns = (int(number) for number in numbers)
    main(one, where, read_from, write_to, (count, size, turns), jar_list)
