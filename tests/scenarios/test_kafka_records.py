"""`kafka-records` in a Spark program without a mirror: exact reads, streams that go on, writes that keep times.

A client of another make writes what is read, and reads what is written.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.oracle import Client, assert_same, read_messages, read_topic
from tests.scenarios.data import FLUSH_SECONDS_MAX, ORDER_SECONDS_MAX, Note, make_topics, numbered, write
from tests.waiting import wait_until

LONG_AGO = 1_600_000_000_123
KEPT = {"retention.ms": "-1"}
"""Brokers delete records of such times at once otherwise."""
MANY = 3_000
KILLS = 3
LAKE = Path(__file__).with_name("lake_program.py")
DOCS = Path(__file__).parents[2] / "docs" / "spark.md"


def options(client: Client, **more: str) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in client.items()} | more


def read(spark: SparkSession, client: Client, **more: str) -> DataFrame:
    return spark.read.format("kafka-records").options(**options(client, **more)).load()


def rows_of(frame: DataFrame) -> dict[int, list[tuple[Any, ...]]]:
    """By partition, in the order in which they were read; times in ms, as Spark has them."""
    found: dict[int, list[tuple[Any, ...]]] = {}
    for row in frame.withColumn("ms", F.unix_millis("timestamp")).collect():
        headers = [(one.key, _bytes(one.value)) for one in row.headers]
        values = (row.offset, _bytes(row.key), _bytes(row.value), row.ms, row.timestampType, headers)
        found.setdefault(row.partition, []).append(values)
    return found


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def as_a_client_sees(client: Client, topic: str) -> dict[int, list[tuple[Any, ...]]]:
    return {
        number: [
            (one.offset(), one.key(), one.value(), one.timestamp()[1], one.timestamp()[0] - 1, one.headers() or [])
            for one in log
        ]
        for number, log in read_messages(client, topic)
        if log
    }  # fmt: skip


def without(value: bytes, log: dict[int, list[tuple[Any, ...]]]) -> dict[int, list[tuple[Any, ...]]]:
    return {number: [row for row in rows if row[2] != value] for number, rows in log.items()}


def in_transaction(client: Client, name: str, topic: str, values: list[bytes], *, commits: bool) -> None:
    producer = Producer({**client, "transactional.id": name})
    producer.init_transactions(ORDER_SECONDS_MAX)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    producer.flush(FLUSH_SECONDS_MAX)
    end = producer.commit_transaction if commits else producer.abort_transaction
    end(ORDER_SECONDS_MAX)


def test_a_batch_read_is_exact_and_leaves_out_what_transactions_aborted(
    spark: SparkSession, source: Client, unique: Callable[[str], str]
) -> None:
    topic = unique("read")
    make_topics(source, {topic: 2}, KEPT)
    odd = (("trace", b"1"), ("trace", None), ("", b""))
    write(source, topic, [Note(b"a", b"k", 0, LONG_AGO, odd), Note(None, None, 0, LONG_AGO + 1), Note(b"", b"", 1)])
    in_transaction(source, topic, topic, [b"kept"] * 3, commits=True)
    in_transaction(source, topic, topic, [b"aborted"] * 4, commits=False)
    write(source, topic, numbered(0, MANY, partitions=2), compression_type="zstd")
    committed = {"subscribe": topic, "kafka.isolation.level": "read_committed"}

    whole = read(spark, source, **committed, minPartitions="5").cache()
    everything = as_a_client_sees(source, topic)
    expected = without(b"aborted", everything)
    assert rows_of(whole.orderBy("partition", "offset")) == expected
    assert whole.rdd.getNumPartitions() == 5
    assert expected[0][0] == (0, b"k", b"a", LONG_AGO, 0, list(odd))
    assert len(everything[0]) == len(expected[0]) + 4
    assert rows_of(read(spark, source, subscribe=topic).orderBy("partition", "offset")) == everything

    some = {
        "startingOffsets": f'{{"{topic}": {{"0": 7, "1": -2}}}}',
        "endingOffsets": f'{{"{topic}": {{"0": 500, "1": 9}}}}',
    }
    found = rows_of(read(spark, source, **committed, **some))
    assert found == {0: [one for one in expected[0] if 7 <= one[0] < 500], 1: expected[1][:9]}
    late = read(spark, source, subscribe=topic, startingTimestamp=str(LONG_AGO + 1), endingTimestamp=str(LONG_AGO + 2))
    assert [row[0] for row in rows_of(late)[0]] == [1]
    assert read(spark, source, assign=f'{{"{topic}": [1]}}').select("partition").distinct().count() == 1


def test_a_stream_that_is_stopped_and_started_again_copies_each_record_once(
    spark: SparkSession, source: Client, target: Client, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """It begins at the latest offsets, which the first start settles, though it finds nothing."""
    topic, copy = unique("stream"), unique("copy")
    make_topics(source, {topic: 2})
    make_topics(target, {copy: 2})

    def run() -> Any:
        frame = spark.readStream.format("kafka-records").options(
            **options(source, subscribePattern=f"{topic}.*", maxOffsetsPerTrigger="700")
        )
        sink = options(target, topic=copy, offsetsFile=str(tmp_path / "offsets"))
        writer = frame.load().writeStream.format("kafka-records").options(**sink)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination(120)
        return query

    run()
    write(source, topic, numbered(0, 1_000, partitions=2))
    query = run()
    assert [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]] == [700, 300]
    write(source, topic, numbered(1_000, 1_100, partitions=2), compression_type="lz4")
    run()
    assert_same(read_topic(source, topic), read_topic(target, copy), topic)
    lines = [json.loads(line) for line in (tmp_path / "offsets").read_text().splitlines()]
    assert [line["batchId"] for line in lines] == [0, 1, 2, 3]
    assert not lines[0]["offsets"]
    places = [line["offsets"][copy]["0"] for line in lines[1:]]
    assert [(one["first"], one["next"]) for one in places] == [(0, 350), (350, 500), (500, 550)]


def test_a_write_keeps_times_partitions_and_headers(
    spark: SparkSession, source: Client, target: Client, unique: Callable[[str], str]
) -> None:
    topic, copy, keyed = unique("write"), unique("copy"), unique("keyed")
    make_topics(source, {topic: 3}, KEPT)
    make_topics(target, {copy: 3, keyed: 4}, KEPT)
    odd = (("trace", b"1"), ("trace", None))
    write(source, topic, [Note(b"a", b"k", 2, LONG_AGO, odd), Note(None, None, 1, LONG_AGO + 1)])
    write(source, topic, numbered(0, MANY, partitions=3))
    records = read(spark, source, subscribe=topic)
    sink = records.write.format("kafka-records").mode("append").options(**options(target))
    sink.options(topic=copy, **{"kafka.compression.type": "zstd"}).save()
    assert_same(read_topic(source, topic), read_topic(target, copy), topic)

    by_key = records.select(F.lit(keyed).alias("topic"), "key", F.col("value").cast("string").alias("value"))
    before = time.time() * 1000
    by_key.write.format("kafka-records").mode("append").options(**options(target)).save()
    check = unique("check")
    make_topics(target, {check: 4})
    write(target, check, [one._replace(partition=-1) for one in numbered(0, 7)], partitioner="murmur2_random")
    places = {one.key: number for number, log in read_topic(target, check).items() for one in log}
    log = read_topic(target, keyed)
    assert sum(map(len, log.values())) == MANY + 2
    assert {one.key: number for number, found in log.items() for one in found if one.key in places} == places
    assert min(one.timestamp[1] for found in log.values() for one in found) > before - 60_000


ERRORS: Mapping[str, tuple[dict[str, str], str]] = {
    "a topic that is not there": ({"subscribe": "absent"}, "has no topic absent, which subscribe names"),
    "an option that is not known": ({"subscribr": "x"}, "kafka-records has no option `subscribr`"),
    "offsets that are gone": (
        {"startingOffsets": '{"%s": {"0": 3}}'},
        "does not hold offset 3: it is read from 10 to its end",
    ),
    "offsets that are not named": ({"startingOffsets": '{"other": {"0": 3}}'}, "does not say where"),
}


def test_what_cannot_be_done_is_an_error_that_says_why(
    spark: SparkSession, source: Client, unique: Callable[[str], str]
) -> None:
    topic = unique("lost")
    make_topics(source, {topic: 1})
    write(source, topic, numbered(0, 30))
    admin = AdminClient(dict(source))  # it must live until it has answered
    for deleted in admin.delete_records([TopicPartition(topic, 0, 10)]).values():
        deleted.result(ORDER_SECONDS_MAX)
    for name, (more, said) in ERRORS.items():
        wrong = {"subscribe": topic} | {key: value.replace("%s", topic) for key, value in more.items()}
        with pytest.raises(Exception, match=said):
            print(name, read(spark, source, **wrong).count(), file=sys.stderr)
    gone = {"startingOffsets": f'{{"{topic}": {{"0": 3}}}}', "failOnDataLoss": "false"}
    assert read(spark, source, subscribe=topic, **gone).count() == 20
    rows = spark.range(1).select(F.lit("v").alias("value"), F.lit(7).alias("partition"))
    writer = rows.write.format("kafka-records").mode("append").options(**options(source, topic=topic))
    with pytest.raises(Exception, match=f"asks for partition 7 of topic {topic}, which has 1"):
        writer.save()
    with pytest.raises(Exception, match=r"Use kafka\.transactional\.id, the prefix of the tasks' ids"):
        writer.option("transactional", "true").save()


def test_the_documented_programs_do_what_they_say(
    spark: SparkSession, source: Client, unique: Callable[[str], str], tmp_path: Path
) -> None:
    names = {name: unique(name) for name in ("orders", "customers", "sums", "replayed")}
    make_topics(source, {names["orders"]: 2, names["customers"]: 1, names["sums"]: 1, names["replayed"]: 2}, KEPT)
    write(source, names["customers"], [Note(b"north", b"c0"), Note(b"south", b"c1")])
    minute = LONG_AGO // 60_000 * 60_000
    orders = [Note(b"%d" % at, b"c%d" % (at % 2), at % 2, minute + at * 1000) for at in range(180)]
    write(source, names["orders"], orders)
    section = DOCS.read_text().partition("\n## `kafka-runs`\n")[0]
    programs = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert len(programs) == 4
    found: dict[str, Any] = {}
    for program in programs:
        for name, own in names.items():
            program = program.replace(f'"{name}"', f'"{own}"')
        here = program.replace("b1:9092", source["bootstrap.servers"]).replace('"lake/', f'"{tmp_path}/')
        exec(here, found)

    lake = spark.read.parquet(str(tmp_path / "orders"))
    expected = as_a_client_sees(source, names["orders"])
    assert rows_of(lake.orderBy("partition", "offset")) == expected
    assert_same(read_topic(source, names["orders"]), read_topic(source, names["replayed"]), "replayed")
    sums = [(one.key, one.value, one.timestamp[1]) for one in read_topic(source, names["sums"])[0]]
    first = {b"north": sum(range(0, 60, 2)), b"south": sum(range(1, 60, 2))}
    assert sorted(sums)[0][2] == minute
    assert {key: value for key, value, at in sums if at == minute} == {
        key: str(total).encode() for key, total in first.items()
    }


@pytest.mark.long
def test_a_program_that_is_killed_again_and_again_has_each_record_once(
    spark: SparkSession, source: Client, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Killed where batches are planned, read, written and committed; the first time before any batch is over."""
    topic = unique("lake")
    make_topics(source, {topic: 2})
    lake = tmp_path / "lake"
    command = [sys.executable, str(LAKE), source["bootstrap.servers"], topic, str(lake)]
    written = 0
    for turn in range(KILLS):
        said = tmp_path / f"turn-{turn}"
        with said.open("w") as log, subprocess.Popen(
            command, stdout=log, stderr=log, start_new_session=True
        ) as program:  # fmt: skip
            try:
                wait_until(lambda said=said: "started" in said.read_text(), "the query starts", 120)
                planned = _count(lake / "checkpoint" / "offsets")
                deadline = time.monotonic() + 120
                while _count(lake / "checkpoint" / "offsets") <= planned + turn:
                    assert time.monotonic() < deadline, said.read_text()[-2000:]
                    write(source, topic, numbered(written, written + 50, partitions=2))
                    written += 50
                    time.sleep(0.2)
                time.sleep(0.1 * turn)
            finally:
                os.killpg(program.pid, signal.SIGKILL)
    done = subprocess.run([*command, "once"], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    expected = as_a_client_sees(source, topic)
    found = rows_of(spark.read.parquet(str(lake / "records")).orderBy("partition", "offset"))
    first = json.loads((lake / "checkpoint" / "offsets" / "0").read_text().splitlines()[-1])
    settled = first.get("begin", first["offsets"])[topic]  # Spark's first batch may be an empty one at its beginning
    begin = {int(number): offset for number, offset in settled.items()}
    assert found == {number: [row for row in rows if row[0] >= begin[number]] for number, rows in expected.items()}
    assert sum(map(len, found.values())) > 50 * KILLS


def _count(directory: Path) -> int:
    return sum(1 for file in directory.glob("[0-9]*")) if directory.exists() else 0
