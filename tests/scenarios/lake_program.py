"""A Spark program that keeps a topic in Parquet files: until it is killed, or with `once` until it has all.

lake_program.py SERVERS TOPIC LAKE [once]
"""

import os
import sys

from pyspark.sql import SparkSession


def main(servers: str, topic: str, lake: str, *once: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    start = {"kafka.bootstrap.servers": servers, "subscribe": topic, "maxOffsetsPerTrigger": "400"}
    # From the latest offsets on, so that only the checkpoint knows where the first batch began.
    records = spark.readStream.format("kafka-records").options(**start, startingOffsets="latest").load()
    writer = records.writeStream.format("parquet").option("path", f"{lake}/records")
    writer = writer.option("checkpointLocation", f"{lake}/checkpoint")
    query = (writer.trigger(availableNow=True) if once else writer).start()
    print("started", flush=True)
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
