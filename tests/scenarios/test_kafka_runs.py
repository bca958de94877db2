"""`kafka-runs` in a Spark program without a mirror: batches arrive as they were, in batch and in streams.

A client of another make writes what is read, and reads what is written.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.oracle import Client, assert_same, read_messages, read_topic
from tests.scenarios.data import Note, make_topics, numbered, write
from tests.scenarios.odd_logs import (
    OLD_KINDS,
    compacted_log,
    headers_of,
    horizon_log,
    java_batch,
    lay_logs,
    stamped_log,
)
from tests.scenarios.test_kafka_records import DOCS, KEPT, LONG_AGO, in_transaction, options
from tests.scenarios.test_odd_batches import seen

from sparkmirror.batch.any_format import decode_each
from sparkmirror.batch.header import Codec
from sparkmirror.batch.unpacking import USUAL_BOUND
from sparkmirror.testing.kafka import KafkaCluster

SMALL = {"batch_num_messages": 40, "linger_ms": 500}
ODD = (("trace", b"1"), ("trace", None), ("", b""))
LOGS = {
    "compacted-0": compacted_log(),
    "horizon-0": horizon_log(),
    "stamped-0": stamped_log(),
    **{f"old-{number}": java_batch(kind) for number, kind in enumerate(OLD_KINDS)},
}


def read(spark: SparkSession, client: Client, **more: str) -> DataFrame:
    return spark.read.format("kafka-runs").options(**options(client, **more)).load()


def save(runs: DataFrame, client: Client, **more: str) -> None:
    runs.write.format("kafka-runs").mode("append").options(**options(client, **more)).save()


def shapes(cluster: KafkaCluster, topic: str) -> list[tuple[Codec, int, int, int]]:
    """Of all batches in the broker's files, partition by partition."""
    return [
        (one.codec, one.records_count, one.base_timestamp, one.max_timestamp)
        for one in headers_of(cluster, topic)
        if not one.is_control
    ]


def offsets(runs: DataFrame) -> dict[int, list[int]]:
    """Of the records in the payloads, as they were read."""
    found: dict[int, list[int]] = {}
    for row in runs.collect():
        batches = decode_each(memoryview(bytes(row.payload)), max_bytes=1 << 28, bound=USUAL_BOUND)
        there = [offset for columns in batches for offset in columns.offsets.tolist()]
        assert (row.first_offset, row.next_offset, row.records) == (there[0], there[-1] + 1, len(there))
        found.setdefault(row.partition, []).extend(there)
    return found


def test_a_batch_copy_keeps_batches_and_their_codecs(
    spark: SparkSession,
    source: Client,
    target: Client,
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    unique: Callable[[str], str],
) -> None:
    topic, copy = unique("runs"), unique("copy")
    make_topics(source, {topic: 3}, KEPT)
    make_topics(target, {copy: 3}, KEPT)
    write(source, topic, [Note(b"a", b"k", 2, LONG_AGO, ODD), Note(None, None, 1, LONG_AGO + 1), Note(b"", b"", 1)])
    for turn, codec in enumerate(("lz4", "none", "zstd")):
        notes = numbered(turn * 1000, turn * 1000 + 1000, partitions=3, size_bytes=50)
        write(source, topic, notes, compression_type=codec, **SMALL)
    runs = read(spark, source, subscribe=topic).cache()
    save(runs, target, topic=copy)

    assert_same(read_topic(source, topic), read_topic(target, copy), topic)
    expected = shapes(source_cluster, topic)
    assert shapes(target_cluster, copy) == expected
    assert {codec for codec, *_ in expected} == {Codec.LZ4, Codec.NONE, Codec.ZSTD}
    assert len(expected) > 50
    sums = runs.agg(F.sum("batches"), F.sum("records"), F.sum("bytes") - F.sum(F.length("payload"))).collect()[0]
    assert tuple(sums) == (len(expected), 3003, 0)


def test_a_stream_that_is_started_again_copies_each_record_once(
    spark: SparkSession, source: Client, target: Client, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Micro-batches end inside of batches."""
    topic, copy = unique("stream"), unique("copy")
    make_topics(source, {topic: 2})
    make_topics(target, {copy: 2})

    def run() -> None:
        start = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "350"}
        frame = spark.readStream.format("kafka-runs").options(**options(source, subscribePattern=f"{topic}.*", **start))
        sink = options(target, topic=copy, offsetsFile=str(tmp_path / "offsets"))
        writer = frame.load().writeStream.format("kafka-runs").options(**sink)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination(120)

    write(source, topic, numbered(0, 1_000, partitions=2), compression_type="zstd", **SMALL)
    run()
    write(source, topic, numbered(1_000, 1_100, partitions=2), compression_type="lz4")
    run()
    assert_same(read_topic(source, topic), read_topic(target, copy), topic)
    lines = [json.loads(line) for line in (tmp_path / "offsets").read_text().splitlines()]
    places = [line["offsets"][copy]["0"] for line in lines]
    assert [(one["first"], one["next"]) for one in places] == [(0, 175), (175, 350), (350, 500), (500, 550)]


def test_a_range_has_its_records_alone_and_leaves_out_what_was_aborted(
    spark: SparkSession, source: Client, target: Client, unique: Callable[[str], str]
) -> None:
    topic, copy = unique("range"), unique("copy")
    make_topics(source, {topic: 2})
    make_topics(target, {copy: 2})
    write(source, topic, numbered(0, 200, partitions=2), compression_type="lz4")
    in_transaction(source, topic, topic, [b"kept"] * 3, commits=True)
    in_transaction(source, topic, topic, [b"aborted"] * 4, commits=False)
    write(source, topic, numbered(200, 300, partitions=2))
    seen = {number: [one.offset() for one in log] for number, log in read_messages(source, topic)}
    aborted = {
        number: [one.offset() for one in log if one.value() == b"aborted"]
        for number, log in read_messages(source, topic)
    }
    assert len(aborted[0]) == 4

    committed = {"subscribe": topic, "kafka.isolation.level": "read_committed"}
    expected = {number: [one for one in there if one not in aborted[number]] for number, there in seen.items()}
    runs = read(spark, source, **committed)
    assert offsets(runs) == expected
    assert offsets(read(spark, source, subscribe=topic)) == seen
    several = read(spark, source, **committed, minPartitions="7")
    assert several.rdd.getNumPartitions() == 7
    assert offsets(several.orderBy("partition", "first_offset")) == expected
    some = {
        "startingOffsets": f'{{"{topic}": {{"0": 37, "1": -2}}}}',
        "endingOffsets": f'{{"{topic}": {{"0": 120, "1": 9}}}}',
    }
    assert offsets(read(spark, source, **committed, **some)) == {
        0: [one for one in expected[0] if 37 <= one < 120], 1: expected[1][:9]
    }  # fmt: skip
    save(runs, target, topic=copy)
    wanted = {n: [one for one in log if one.value != b"aborted"] for n, log in read_topic(source, topic).items()}
    assert_same(wanted, read_topic(target, copy), topic)


def test_what_cannot_be_done_is_an_error_that_says_why(
    spark: SparkSession, source: Client, target: Client, unique: Callable[[str], str]
) -> None:
    topic, copy = unique("wrong"), unique("copy")
    make_topics(source, {topic: 1})
    make_topics(target, {copy: 1})
    write(source, topic, numbered(0, 100), compression_type="lz4")
    runs = read(spark, source, subscribe=topic)
    payload = F.col("payload")
    half = (F.length(payload) / 2).cast("int")
    flipped = F.concat(F.substring(payload, 1, 70), F.lit(b"\0\0\0"), payload.substr(F.lit(74), F.length(payload)))
    for broken, said in (
        (payload.substr(F.lit(1), half), "is damaged: it is cut off after"),
        (flipped, "is damaged: its checksum is wrong"),
        (F.lit(b"no batch, but as many bytes as a header has; 61 of them or more"), "record batch at byte 0 has magic"),
    ):
        with pytest.raises(Exception, match=f"written to {copy}-0 has a payload that cannot be produced: .*{said}"):
            save(runs.withColumn("payload", broken), target, topic=copy)
    with pytest.raises(Exception, match=f"written to topic {copy} has no partition"):
        save(runs.withColumn("partition", F.lit(None).cast("int")), target, topic=copy)
    with pytest.raises(Exception, match=f"asks for partition 5 of topic {copy}, which has 1"):
        save(runs.withColumn("partition", F.lit(5)), target, topic=copy)
    with pytest.raises(Exception, match="needs the column `payload`"):
        save(runs.drop("payload"), target, topic=copy)
    with pytest.raises(Exception, match=r"no option `kafka\.compression\.type`. Batches keep their codec"):
        save(runs, target, topic=copy, **{"kafka.compression.type": "lz4"})
    for wrong, said in (
        ({"subscribr": "x"}, "kafka-runs has no option `subscribr`"),
        ({"subscribe": topic, "config": "x"}, "no option `config`. It belongs to the streams of a mirror"),
        ({"subscribe": topic, "includeHeaders": "true"}, "Headers are in the batches"),
        ({"subscribe": "absent"}, "has no topic absent, which subscribe names"),
    ):
        with pytest.raises(Exception, match=said):
            read(spark, source, **wrong).count()
    with pytest.raises(Exception, match="kafka-runs needs the option `kafka"):
        spark.read.format("kafka-runs").option("subscribe", topic).load().count()
    assert read_topic(target, copy) == {0: []}


def test_batches_of_every_kind_arrive_record_for_record(
    spark: SparkSession, target: Client, unique: Callable[[str], str]
) -> None:
    """Compacted, with tombstones to delete, stamped by a broker, of old formats, larger than the target takes."""
    with KafkaCluster(name="odd", config={"log.cleaner.enable": "false"}) as cluster:
        client = {"bootstrap.servers": cluster.bootstrap_servers}
        make_topics(client, {"compacted": 1, "horizon": 1, "stamped": 1, "old": len(OLD_KINDS), "large": 1})
        lay_logs(cluster, LOGS)
        values = [b"order %d of many, " % (at * at) * 20 for at in range(2000)]
        write(client, "large", [Note(value) for value in values], compression_type="lz4", linger_ms=500)
        for topic, partitions in (
            ("compacted", 1),
            ("horizon", 1),
            ("stamped", 1),
            ("old", len(OLD_KINDS)),
            ("large", 1),
        ):
            copy = unique(topic)
            limits = {"max.message.bytes": "20000"} if topic == "large" else {}
            make_topics(target, {copy: partitions}, {**KEPT, "message.timestamp.after.max.ms": str(10**15), **limits})
            save(read(spark, client, subscribe=topic), target, topic=copy)
            assert_same(seen(client, topic), seen(target, copy), topic)


def test_the_documented_program_copies_a_topic(
    spark: SparkSession, source: Client, target: Client, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic = unique("orders")
    make_topics(source, {topic: 2})
    make_topics(target, {f"{topic}-copy": 2})
    program = re.search(r"```python\n(.*?)```", DOCS.read_text().partition("\n## `kafka-runs`\n")[2], re.DOTALL)
    assert program is not None
    here = program[1].replace("b1:9092", source["bootstrap.servers"]).replace("b2:9092", target["bootstrap.servers"])
    here = here.replace('"orders', f'"{topic}').replace('"lake/', f'"{tmp_path}/')
    for turn in range(2):
        write(source, topic, numbered(turn * 500, turn * 500 + 500, partitions=2), compression_type="lz4")
        exec(here, {})
        assert_same(read_topic(source, topic), read_topic(target, f"{topic}-copy"), topic)
