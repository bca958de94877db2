"""`sparkmirror verify`: equal is equal, and of what was changed on the target nothing stays hidden."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from tests.oracle import Client, count_records
from tests.scenarios.data import Note, make_topics, write
from tests.scenarios.mirror import COMMAND, MirrorOnce, StartMirror, Verify, flow_file
from tests.tampering import Change, append, batches_of, change_batch, flip_byte, replace_topic

from sparkmirror.batch.records import Record, encode_batch
from sparkmirror.config.flow.flows import parse_config
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.telemetry.bus import read_board
from sparkmirror.testing.kafka import KafkaCluster

TIME = 1_700_000_000_000


def at(place: int, change: Callable[[Record], Record]) -> Change:
    """Changes one record of a batch."""
    return lambda records: [change(one) if number == place else one for number, one in enumerate(records)]


def swap(place: int) -> Change:
    return lambda records: [*records[:place], records[place + 1], records[place], *records[place + 2 :]]


TAMPERED: list[tuple[str, Change]] = [
    ("value", at(7, flip_byte)),
    ("missing", lambda records: [*records[:7], *records[8:]]),
    ("swapped", swap(7)),
    ("headers", at(7, lambda record: replace(record, headers=((b"n", b"x"), *record.headers[1:])))),
    ("timestamp", at(7, lambda record: replace(record, timestamp=record.timestamp + 1))),
]


def test_what_was_changed_on_the_target_is_found_among_a_hundred_thousand_records(
    source: Client,
    target: Client,
    source_cluster: KafkaCluster,
    unique: Callable[[str], str],
    mirror_once: MirrorOnce,
    start_mirror: StartMirror,
    verify: Verify,
    tmp_path: Path,
) -> None:
    topic, alias = unique("orders"), unique("proof")
    make_topics(source, {topic: 7})
    write(source, topic, notes(98_000, 7), linger_ms=50)
    text = flow_file(source, target, alias=alias, topics=topic)
    mirror_once(text)

    # Again and again while nothing changes, told on the target too.
    remote, file = f"{alias}.{topic}", tmp_path / "mirror.properties"
    file.write_text(text)
    program = (str(COMMAND), "verify", str(file))
    rounds = start_mirror(text, "--continuous", "0.1", "--sample", "100", program=program)
    equal = f"{alias}->backup: equal: 98,000 records of 7 partitions compared"
    rounds.wait_until(lambda: rounds.output.count(equal) >= 2, "two rounds are over")
    rounds.stop()
    told = read_board(parse_config(parse_properties(text.encode(), "")).flows[0]).verified
    assert told is not None and (told.verdict, told.records) == ("equal", 98_000)
    assert told.rounds == rounds.output.count(equal)

    # Changed, and in the last partition the last batch comes again, as after a crash.
    tamper(source_cluster, target, topic, remote, partitions=7)
    append(target, remote, 5, [encode_batch([(b"k", b"nobody mirrored this")])])
    append(target, remote, 6, batches_of(source_cluster, topic, 6)[-1:])
    page = tmp_path / "report.html"
    status, output, _ = verify(text, "--format", "json", "--html", str(page))
    assert status == 1
    (report,) = json.loads(output)
    assert_found(report, page.read_text())
    surplus = report["partitions"][5]["first_difference"]
    assert (surplus["kind"], surplus["target"]["value"]) == ("surplus", "nobody mirrored this")
    assert report["partitions"][6]["verdict"] == "equal" and report["partitions"][6]["repeated"] > 0


def notes(count: int, partitions: int) -> Iterable[Note]:
    return (
        Note(
            b"%d <b>bold</b>" % number,
            b"k%d" % (number % 5),
            number % partitions,
            TIME + number,
            (("n", b"1"), ("n", None)),
        )
        for number in range(count)
    )


def tamper(cluster: KafkaCluster, target: Client, topic: str, remote: str, partitions: int) -> None:
    """The target's topic again, with one thing changed in the middle of each of the first partitions."""
    replace_topic(target, remote, partitions)
    for partition in range(partitions):
        batches = batches_of(cluster, topic, partition)
        if partition < len(TAMPERED):
            middle = sum(map(records_count, batches)) // 2
            batches = change_batch(batches, middle, TAMPERED[partition][1])
        append(target, remote, partition, batches)


def records_count(batch: bytes) -> int:
    return int.from_bytes(batch[57:61], "big")


def assert_found(report: Any, page: str) -> None:
    """Each partition names what was done to it, by kind, offsets and both records."""
    for number, (kind, _) in enumerate(TAMPERED):
        found = report["partitions"][number]
        first = found["first_difference"]
        assert (found["verdict"], first["kind"]) == ("different", kind), found
        assert first["upstream"] == first["downstream"]
        assert first["source"]["offset"] == first["upstream"]
        assert first["source"] | {"offset": 0} != first["target"] | {"offset": 0}
        assert f"upstream offset {first['upstream']}" in page
    assert "<b>bold</b>" not in page and "&lt;b&gt;bold&lt;/b&gt;" in page


@pytest.mark.long
def test_each_of_five_changes_is_found_among_ten_million_records(
    source: Client,
    target: Client,
    source_cluster: KafkaCluster,
    unique: Callable[[str], str],
    mirror_once: MirrorOnce,
    verify: Verify,
    tmp_path: Path,
) -> None:
    topic, alias = unique("many"), unique("proof")
    make_topics(source, {topic: 5})
    for partition in range(5):
        append(source, topic, partition, many_batches(partition, 250))
    text = flow_file(source, target, alias=alias, topics=topic)
    copied = mirror_once(text)
    print(f"copied in {copied.seconds:.1f} s, its start included: {copied.errors.splitlines()[-1]}")

    status, output, _ = verify(text)
    print(output)
    assert (status, "equal: 10,000,000 records of 5 partitions" in output) == (0, True)

    tamper(source_cluster, target, topic, f"{alias}.{topic}", partitions=5)
    page = tmp_path / "report.html"
    status, output, _ = verify(text, "--format", "json", "--html", str(page))
    assert status == 1
    (report,) = json.loads(output)
    print(f"changed: {report['seconds']} s for {report['records']} records")
    assert_found(report, page.read_text())


@pytest.mark.long
def test_a_mirror_that_runs_on_and_is_killed_in_between_is_equal_all_the_time(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror, tmp_path: Path
) -> None:
    topic, alias = unique("busy"), unique("proof")
    make_topics(source, {topic: 3})
    text, file = flow_file(source, target, alias=alias, topics=topic), tmp_path / "mirror.properties"
    file.write_text(text)
    with steady_writer(source, topic):
        first = start_mirror(text)
        first.wait_until(lambda: count_records(target, f"{alias}.{topic}") > 1000, "it mirrors")
        options = ("--continuous", "0.1", "--sample", "100", "--format", "json")
        rounds = start_mirror(text, *options, program=(str(COMMAND), "verify", str(file)))
        rounds.wait_until(lambda: rounds.output.count("\n") >= 4, "rounds beside a mirror that runs")
        first.kill()
        second = start_mirror(text)
        reached = count_records(target, f"{alias}.{topic}")
        second.wait_until(lambda: count_records(target, f"{alias}.{topic}") > reached + 2000, "it goes on")
        before = rounds.output.count("\n")
        rounds.wait_until(lambda: rounds.output.count("\n") >= before + 3, "rounds after the kill")
    ended = rounds.stop(30)
    second.stop()
    found = [json.loads(line) for line in ended.output.splitlines()]
    assert {report["verdict"] for report in found} == {"equal"}, found
    assert found[-1]["records"] > found[0]["records"] > 0


@contextmanager
def steady_writer(client: Client, topic: str) -> Iterator[None]:
    """Some thousand records a second, to three partitions, while this is open."""
    stopping = Event()

    def run() -> None:
        number = 0
        while not stopping.wait(0.05):
            write(client, topic, (Note(b"%d" % at, b"k%d" % (at % 7), at % 3) for at in range(number, number + 150)))
            number += 150

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(30)


def many_batches(partition: int, count: int) -> Iterator[bytes]:
    """So many batches of 8,000 records of a hundred bytes, of twenty kinds."""
    kinds = [
        encode_batch(
            [
                Record(
                    0,
                    TIME + at,
                    b"k%d" % (at % 9),
                    b"%d-%d-%d <b>bold</b> " % (partition, kind, at) * 4,
                    ((b"n", b"1"),),
                )
                for at in range(8000)
            ]
        )
        for kind in range(20)
    ]
    return (kinds[number % len(kinds)] for number in range(count))
