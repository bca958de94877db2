"""Transforms by the command: records are dropped, masked, re-keyed, routed, set aside, and all are accounted for."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.database import PASSWORD, database, driver_jar
from tests.oracle import Client, Seen, assert_same, list_topics, read_messages, read_topic
from tests.scenarios.data import Note, make_topics, write
from tests.scenarios.mirror import MirrorOnce, StartMirror, flow_file

from sparkmirror.ledger.map_records import MapView
from sparkmirror.ledger.offset_map import Translation
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import TopicPartition

LONG_AGO_MS = 1_000_000_000_000
HEADERS: tuple[tuple[str, bytes | None], ...] = (("trace", b"1"), ("trace", None), ("secret", b"\x00\xff"))


def orders() -> list[Note]:
    """Three partitions of orders: JSON, tombstones, rubbish."""
    notes = []
    for at in range(900):
        order = {"id": at, "customer": f"c{at % 17}", "card": "4111-1111", "country": ("de", "fr", "us")[at % 3]}
        value = None if at % 50 == 7 else b"rubbish" if at % 50 == 8 else json.dumps(order).encode()
        headers = HEADERS if at % 2 else ()
        notes.append(Note(value, f"{at}".encode(), at % 3, LONG_AGO_MS + at, headers))
    return notes


def test_each_step_does_what_the_file_says_and_every_source_offset_is_accounted_for(
    source: Client, target: Client, unique: Callable[[str], str], mirror_once: MirrorOnce
) -> None:
    story, alias = unique("orders"), unique("east")
    make_topics(source, {story: 3})
    write(source, story, orders(), compression_type="lz4")
    lines = [
        f'{alias}->backup.transforms.where = value IS NULL OR cast(value AS string) NOT LIKE \'%"country": "us"%\'',
        f"{alias}->backup.transforms.deadletter.when = "
        "value IS NOT NULL AND get_json_object(cast(value AS string), '$.id') IS NULL",
        f"{alias}->backup.transforms.deadletter.topic = {story}-dead",
        f"{alias}->backup.transforms.set.value = regexp_replace(cast(value AS string), '4111-1111', '****')",
        f"{alias}->backup.transforms.set.key = "
        "coalesce(get_json_object(cast(value AS string), '$.customer'), cast(key AS string))",
        f"{alias}->backup.transforms.set.topic = "
        f"if(cast(value AS string) LIKE '%\"fr\"%', '{story}-france', target_topic)",
        f"{alias}->backup.transforms.set.partition = "
        "if(cast(value AS string) LIKE '%\"fr\"%', cast(null AS int), partition)",
        f"{alias}->backup.transforms = stamp, drop",
        f"{alias}->backup.transforms.stamp.type = org.apache.kafka.connect.transforms.InsertHeader",
        f"{alias}->backup.transforms.stamp.header = mirrored",
        f"{alias}->backup.transforms.stamp.value.literal = it's",
        f"{alias}->backup.transforms.drop.type = org.apache.kafka.connect.transforms.DropHeaders",
        f"{alias}->backup.transforms.drop.headers = secret",
        "tasks.max = 2",
        "tasks.min = 2",
    ]
    text = flow_file(source, target, alias=alias, topics=story, lines=lines)
    mirror_once(text)
    wanted: dict[int, list[Seen]] = {0: [], 1: [], 2: []}
    dead: list[bytes | None] = []
    french: dict[bytes, list[bytes]] = {}
    for note in orders():
        if note.value and b'"us"' in note.value:
            continue
        if note.value == b"rubbish":
            dead.append(note.key)
            continue
        value = note.value and note.value.replace(b"4111-1111", b"****")
        key = json.loads(value)["customer"].encode() if value else note.key or b""
        if value and b'"fr"' in value:
            french.setdefault(key, []).append(value)
            continue
        headers = tuple(header for header in note.headers if header[0] != "secret")
        seen = Seen(key, value, (*headers, ("mirrored", b"it's")), (1, note.timestamp_ms))
        wanted[note.partition].append(seen)
    assert_same(wanted, read_topic(target, f"{alias}.{story}"), story)

    dead_letters = [message for _, log in read_messages(target, f"{story}-dead") for message in log]
    assert sorted(message.key() for message in dead_letters) == sorted(key or b"" for key in dead)
    for message in dead_letters:
        number = int(message.key())
        origin = dict(message.headers()[-3:])
        assert message.value() == b"rubbish" and message.headers()[:-3] == list(HEADERS if number % 2 else ())
        assert origin == {
            "__connect.errors.topic": story.encode(),
            "__connect.errors.partition": b"%d" % (number % 3),
            "__connect.errors.offset": b"%d" % (number // 3),
        }

    routed = read_topic(target, f"{story}-france")
    assert len(routed) == 3
    where = {record.key: number for number, log in routed.items() for record in log}
    for number, log in routed.items():
        assert {where[record.key] for record in log} <= {number}, "records of one key are in one partition"
    by_key: dict[bytes, list[bytes]] = {}
    for log in routed.values():
        for record in log:
            by_key.setdefault(record.key or b"", []).append(record.value or b"")
    assert {key: sorted(values) for key, values in by_key.items()} == {
        key: sorted(values) for key, values in french.items()
    }

    positions = newest_positions(target, alias)
    assert positions == {f"{story}-{number}": 299 for number in range(3)}
    before = {name: read_topic(target, name) for name in list_topics(target) if story in name}
    second = mirror_once(text)
    assert f"{alias}->backup: 0 records" in second.errors
    assert {name: read_topic(target, name) for name in before} == before


def test_a_filter_by_key_leaves_all_else_as_it_was_whether_batches_pass_whole_or_in_part(
    source: Client, target: Client, unique: Callable[[str], str], mirror_once: MirrorOnce
) -> None:
    """Values and headers do not pass Spark here: the writer has them from the batches that came."""
    story, alias = unique("kept"), unique("east")
    make_topics(source, {story: 2})
    notes = [
        Note(b"%d" % at * 300, b"drop" if at > 3000 and at % 3 else b"keep%d" % at, at % 2, LONG_AGO_MS + at,
             HEADERS if at % 5 else ())
        for at in range(6000)
    ]  # fmt: skip
    write(source, story, notes, compression_type="lz4")
    lines = [f"{alias}->backup.transforms.where = key <> 'drop'", "tasks.max = 1"]
    mirror_once(flow_file(source, target, alias=alias, topics=story, lines=lines))
    kept = [note for note in notes if note.key != b"drop"]
    wanted = {
        number: [
            Seen(one.key, one.value, one.headers, (1, one.timestamp_ms)) for one in kept if one.partition == number
        ]
        for number in range(2)
    }
    assert_same(wanted, read_topic(target, f"{alias}.{story}"), story)
    assert newest_positions(target, alias) == {f"{story}-{number}": 2999 for number in range(2)}


def test_one_record_becomes_several_in_order_with_what_a_table_says_and_groups_go_to_its_first(
    source: Client, target: Client, unique: Callable[[str], str], mirror_once: MirrorOnce, tmp_path: Path
) -> None:
    """Carts of several things: each becomes a record with its price; those of one thing go to another topic."""
    story, alias = unique("carts"), unique("east")
    make_topics(source, {story: 2})
    things = ("tea", "milk", "soap")
    carts = [[things[(at + one) % 3] for one in range(at % 4)] for at in range(600)]
    write(source, story, [Note(json.dumps(cart).encode(), b"%d" % at, at % 2, LONG_AGO_MS + at, HEADERS)
                          for at, cart in enumerate(carts)])  # fmt: skip
    prices = tmp_path / "prices.csv"
    prices.write_text("thing,price\ntea,4\nsoap,2\n")
    lines = [
        f"transforms.table.prices.path = {prices}",
        "transforms.table.prices.key = thing",
        "transforms.explode = from_json(cast(value AS string), 'array<string>')",
        "transforms.set.value = concat(col, ' ', coalesce(lookup_prices(col).price, '?'))",
        f"transforms.set.topic = if(col = 'soap', '{story}-soap', target_topic)",
        "tasks.max = 1",
    ]
    mirror_once(flow_file(source, target, alias=alias, topics=story, lines=lines))
    priced = {"tea": b"tea 4", "milk": b"milk ?", "soap": b"soap 2"}
    wanted: dict[bool, dict[int, list[Seen]]] = {True: {0: [], 1: []}, False: {0: [], 1: []}}
    first: dict[int, list[int]] = {0: [], 1: []}
    for at, cart in enumerate(carts):
        first[at % 2].append(len(wanted[False][at % 2]))
        for thing in cart:
            seen = Seen(b"%d" % at, priced[thing], HEADERS, (1, LONG_AGO_MS + at))
            wanted[thing == "soap"][at % 2].append(seen)
    assert_same(wanted[False], read_topic(target, f"{alias}.{story}"), story)
    assert_same(wanted[True], read_topic(target, f"{story}-soap"), story)
    assert newest_positions(target, alias) == {f"{story}-{number}": 299 for number in range(2)}
    maps = offset_maps(target, alias)
    for number, places in first.items():
        found = maps.map_of(TopicPartition(story, number))
        assert found is not None
        exact = [found.translate(offset) for offset in range(found.begin, 300)]
        assert exact == [Translation(place, True) for place in places[found.begin :]]
        assert found.translate(300) == Translation(len(wanted[False][number]), True)


@pytest.mark.long
def test_a_backlog_goes_to_a_topic_that_takes_small_batches_only_without_a_failure(
    source: Client, target: Client, unique: Callable[[str], str], mirror_once: MirrorOnce
) -> None:
    story, alias = unique("small"), unique("east")
    make_topics(source, {story: 2})
    make_topics(target, {f"{story}-small": 2}, {"max.message.bytes": "20000"})
    notes = [Note(os.urandom(500), b"%d" % at, at % 2, LONG_AGO_MS + at) for at in range(1200)]
    write(source, story, notes)
    lines = [
        f"{alias}->backup.transforms.set.topic = '{story}-small'",
        f"{alias}->backup.on.send.failure = fail",
        "tasks.max = 1",
    ]
    done = mirror_once(flow_file(source, target, alias=alias, topics=story, lines=lines))
    assert "refused" not in done.errors
    wanted = {
        number: [Seen(one.key, one.value, (), (1, one.timestamp_ms)) for one in notes if one.partition == number]
        for number in range(2)
    }
    assert_same(wanted, read_topic(target, f"{story}-small"), story)


def offset_maps(target: Client, alias: str) -> MapView:
    view = MapView(alias)
    for _, log in read_messages(target, ledger_topics(alias).offset_map):
        for message in log:
            view.take(message.key(), message.value())
    return view


def newest_positions(target: Client, alias: str) -> dict[str, int]:
    """The offset of the last mirrored record by partition, as Connect's record says."""
    newest: dict[str, int] = {}
    for _, messages in read_messages(target, f"mm2-offsets.{alias}.internal"):
        for message in messages:
            where = json.loads(message.key())[1]
            newest[f"{where['topic']}-{where['partition']}"] = json.loads(message.value())["offset"]
    return newest


def test_a_running_flow_passes_each_record_within_moments_and_says_what_is_wrong_with_one(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    story, alias = unique("live"), unique("east")
    make_topics(source, {story: 2})
    lines = [
        "transforms.where = cast(value AS string) LIKE '%7'",
        f"transforms.set.topic = if(key = 'lost', '{story} ', target_topic)",
        "offset.flush.interval.ms = 200",
    ]
    mirror = start_mirror(flow_file(source, target, alias=alias, topics=story, lines=lines))
    remote = f"{alias}.{story}"
    for first in (0, 100, 200):
        write(source, story, [Note(b"%d" % at, b"k", partition=0) for at in range(first, first + 100)])
        wanted = [b"%d" % at for at in range(first + 100) if at % 10 == 7]
        mirror.wait_until(lambda wanted=wanted: values_of(target, remote) == wanted, f"{first + 100} records are there")
    mirror.wait_until(
        lambda: newest_positions(target, alias).get(f"{story}-0") == 299, "what was dropped at the end counts"
    )
    write(source, story, [Note(b"7", b"lost", partition=1), Note(b"17", b"k", partition=1)])
    write(source, story, [Note(b"1007", b"k", partition=0)])
    mirror.wait_until(lambda: b"1007" in values_of(target, remote), "the other partition goes on")
    mirror.wait_until(lambda: "cannot be a topic for data" in statuses(target, alias), "the status says what is wrong")
    assert newest_positions(target, alias).get(f"{story}-1", -1) == -1
    mirror.stop()


@pytest.mark.long
def test_a_lone_record_comes_through_a_python_udf_and_a_lookup_although_none_follows(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror, tmp_path: Path
) -> None:
    """Three Python stages, the writer's included, of which the first drops every other record."""
    story, alias = unique("lone"), unique("east")
    make_topics(source, {story: 1})
    (tmp_path / "names.csv").write_text("key,name\nk,tea\n")
    (tmp_path / "even_steps.py").write_text(
        "from pyspark.sql import functions as F\n"
        "even = F.udf(lambda offset: offset is not None and offset % 2 == 0, 'boolean', useArrow=False)\n"
        "def kept(records):\n"
        "    return records.where(even('offset'))\n"
    )
    lines = [
        "transforms.function = even_steps:kept",
        f"transforms.table.names.path = {tmp_path / 'names.csv'}",
        "transforms.table.names.key = key",
        "transforms.set.value = concat(value, lookup_names(key).name)",
    ]
    text = flow_file(source, target, alias=alias, topics=story, lines=lines)
    mirror = start_mirror(text, environment={**os.environ, "PYTHONPATH": str(tmp_path)})
    remote, wanted = f"{alias}.{story}", []
    for number in range(6):
        write(source, story, [Note(b"%d " % number, b"k")])
        wanted += [b"%d tea" % number] if number % 2 == 0 else []
        mirror.wait_until(lambda now=[*wanted]: values_of(target, remote) == now, f"record {number} is there")
    mirror.stop()


@pytest.mark.long
def test_a_running_flow_takes_a_newer_version_of_a_table_on(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror, tmp_path: Path
) -> None:
    story, alias = unique("rates"), unique("east")
    make_topics(source, {story: 1})
    rates = tmp_path / "rates.csv"
    rates.write_text("currency,rate\neur,1\n")
    lines = [
        f"transforms.table.rates.path = {rates}",
        "transforms.table.rates.key = currency",
        "transforms.table.rates.reload.interval.ms = 200",
        "transforms.set.value = concat(value, coalesce(lookup_rates(key).rate, '?'))",
    ]
    mirror = start_mirror(flow_file(source, target, alias=alias, topics=story, lines=lines))
    remote = f"{alias}.{story}"

    def last_is(value: bytes) -> bool:
        write(source, story, [Note(b"at ", b"eur")])
        return values_of(target, remote)[-1:] == [value]

    mirror.wait_until(lambda: last_is(b"at 1"), "the first version is looked up")
    fresh = tmp_path / "fresh.csv"
    fresh.write_text("currency,rate\neur,2\nusd,3\n")
    fresh.rename(rates)
    mirror.wait_until(lambda: last_is(b"at 2"), "the second version is looked up")
    rates.write_text("currency,rate\neur,1\neur,2\n")
    mirror.wait_until(lambda: "b'eur' is in it twice" in mirror.errors, "the log says why a version is not taken on")
    mirror.wait_until(lambda: last_is(b"at 2"), "the second version still serves")
    mirror.stop()
    found = [value or b"" for value in values_of(target, remote)]
    assert sorted(set(found)) == [b"at 1", b"at 2"] and found == sorted(found), "one version follows the other"


@pytest.mark.long
def test_a_running_flow_looks_up_a_database_and_goes_on_with_its_rows_when_that_is_away(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror, tmp_path: Path
) -> None:
    story, alias = unique("prices"), unique("east")
    make_topics(source, {story: 1})
    with database(tmp_path) as shop:
        shop.run("CREATE TABLE rates (currency VARCHAR, rate INT); INSERT INTO rates VALUES ('eur', 1)")
        lines = [
            f"transforms.table.rates.jdbc.url = {shop.url}",
            "transforms.table.rates.jdbc.table = rates",
            "transforms.table.rates.jdbc.user = mirror",
            f"transforms.table.rates.jdbc.password = {PASSWORD}",
            "transforms.table.rates.key = CURRENCY",
            "transforms.table.rates.reload.interval.ms = 500",
            "transforms.set.value = concat(value, coalesce(cast(lookup_rates(key).rate AS string), '?'))",
        ]
        text = flow_file(source, target, alias=alias, topics=story, lines=lines)
        mirror = start_mirror(text, "--conf", f"spark.jars={driver_jar()}", environment=_with_scratch(tmp_path))
        remote = f"{alias}.{story}"

        def last_is(value: bytes) -> bool:
            write(source, story, [Note(b"at ", b"eur")])
            return values_of(target, remote)[-1:] == [value]

        mirror.wait_until(lambda: last_is(b"at 1"), "the first rows are looked up")
        (file,) = (tmp_path / "scratch").glob("sparkmirror-*/tables-*/rates.parquet")
        assert not [one for one in (file, file.parent) if one.stat().st_mode & 0o077], "nobody else can read the rows"
        shop.run("UPDATE rates SET rate = 2")
        mirror.wait_until(lambda: last_is(b"at 2"), "the changed row is looked up")
        mirror.wait_until(lambda: "the table rates was read again, 1 rows" in mirror.errors, "the log says so")
        shop.run("INSERT INTO rates VALUES ('eur', 3)")
        mirror.wait_until(lambda: "b'eur' is in it twice" in mirror.errors, "a table with a key twice is not taken on")
        shop.run("DELETE FROM rates WHERE rate = 2")
        mirror.wait_until(lambda: last_is(b"at 3"), "the table that is in order again is looked up")
        shop.pause()
        mirror.wait_until(lambda: "it has not answered for 6" in mirror.errors, "a silent database is warned of")
        shop.end()
        mirror.wait_until(lambda: "Connection is broken" in mirror.errors, "a database that is gone is warned of")
        before = len(values_of(target, remote))
        mirror.wait_until(lambda: last_is(b"at 3") and len(values_of(target, remote)) > before, "the rows still serve")
    assert "cannot be read again: " in mirror.errors and " s ago." in mirror.errors
    assert mirror.errors.count("the table rates was read again") == 2, "each change once"
    mirror.stop()
    found = [value or b"" for value in values_of(target, remote)]
    assert sorted(set(found)) == [b"at 1", b"at 2", b"at 3"] and found == sorted(found), "one version follows the other"
    assert PASSWORD not in mirror.output + mirror.errors
    assert not list((tmp_path / "scratch").glob("sparkmirror-*")), "the rows are gone with the run"


def test_a_flow_does_not_begin_without_the_database_of_a_table(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    story, alias = unique("prices"), unique("east")
    make_topics(source, {story: 1})
    write(source, story, [Note(b"1", b"eur")])
    lines = [
        "transforms.table.rates.jdbc.url = jdbc:derby:/no/such/shop",
        "transforms.table.rates.jdbc.table = rates",
        "transforms.table.rates.key = CURRENCY",
        "transforms.where = lookup_rates(key).rate > 0",
    ]
    text = flow_file(source, target, alias=alias, topics=story, lines=lines)
    ended = start_mirror(text, "--once").finish()
    line = text.splitlines().index(lines[0]) + 1
    assert ended.status == 2, ended.errors
    assert (
        f":{line}: `transforms.table.rates.jdbc.url` names a database, but the database's table rates cannot be read"
        in (ended.errors)
    ), ended.errors
    assert "Database '/no/such/shop' not found" in ended.errors and "Traceback" not in ended.errors
    assert not values_of(target, f"{alias}.{story}")
    refused = start_mirror(text, "--master", "spark://127.0.0.1:9").finish()
    assert refused.status == 2 and f":{line}: `transforms.table.rates.jdbc.url`" in refused.errors
    assert "a mirror on a Spark cluster does not read" in refused.errors and "by `.path`" in refused.errors


def _with_scratch(directory: Path) -> dict[str, str]:
    (directory / "scratch").mkdir()
    return {**os.environ, "TMPDIR": str(directory / "scratch")}


def values_of(target: Client, topic: str) -> list[bytes | None]:
    """The values of partition 0."""
    return [record.value for record in read_topic(target, topic)[0]] if topic in list_topics(target) else []


def statuses(target: Client, alias: str) -> str:
    """All that the tasks have said so far."""
    topic = f"mm2-sparkmirror-status.{alias}.internal"
    return " ".join((message.value() or b"").decode() for _, log in read_messages(target, topic) for message in log)
