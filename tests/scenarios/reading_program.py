"""A Spark program that reads runs and nothing more: prints each run as a JSON line. Run by `test_data_source`.

reading_program.py FILE FLOW SCRATCH
"""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from sparkmirror.batch.records import decode_records
from sparkmirror.spark.kafka_runs import KafkaRuns


def show(rows: DataFrame, _: int) -> None:
    for row in rows.where("kind = 'run'").collect():
        print(json.dumps([row.topic, row.partition, row.first_offset, row.next_offset, values_of(row.payload)]))


def values_of(payload: bytearray) -> list[str]:
    """Of all records in the run's batches; each batch says how long it is."""
    values: list[str] = []
    data, at = memoryview(payload), 0
    while at < len(data):
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        values += [(record.value or b"").decode() for record in decode_records(data[at : at + size])]
        at += size
    return values


def main(file: str, flow: str, scratch: str) -> None:
    options = {"config": Path(file).read_text(), "flow": flow}
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "1").getOrCreate()
    spark.dataSource.register(KafkaRuns)
    runs = spark.readStream.format("kafka-runs").options(**options).load()
    writer = runs.writeStream.foreachBatch(show).option("checkpointLocation", scratch)
    writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
