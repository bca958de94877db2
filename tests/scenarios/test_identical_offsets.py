"""A flow that keeps offsets: each record is found on the target where it is on the source."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message
from confluent_kafka import TopicPartition as Place
from tests.faults.test_lost_records import delete_topic
from tests.oracle import Client, read_messages
from tests.scenarios.data import Note, make_topics, write
from tests.scenarios.mirror import MirrorOnce, flow_file
from tests.scenarios.test_transactions import write_transactions

from sparkmirror.cli.main import main
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.fencing import init_producer_ids
from sparkmirror.kafka.log_edges import delete_before
from sparkmirror.kafka.offset_fillers import FillerClients, HoleFiller
from sparkmirror.kafka.start_filler import fill_start
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.policy.fillers import MARKERS, Hole

START = 1_200_345
KEEPS = "preserve.offsets.enabled = true"
SeenAt = tuple[int, bytes | None, bytes | None, tuple[int, int], tuple[tuple[str, bytes | None], ...]]


def begin_at(client: Client, topic: str, offset: int) -> None:
    """The log's first offset is this one, as after years of retention."""
    where, cluster = TopicPartition(topic, 0), Cluster("years", client)
    with open_admin(cluster, "test") as admin:
        producer_id = init_producer_ids(admin, [None])[None].producer_id
        assert fill_start(cluster, producer_id, where, Hole(0, offset), 60.0) == offset
        delete_before(admin, {where: offset})


def places(client: Client, topic: str) -> dict[int, list[SeenAt]]:
    """All that a consumer sees of each record, its offset with it."""
    return {number: [_place(one) for one in log] for number, log in read_messages(client, topic)}


def _place(message: Message) -> SeenAt:
    headers = tuple(message.headers() or ())
    return message.offset(), message.key(), message.value(), message.timestamp(), headers


def spans(client: Client, topic: str, partitions: int) -> Mapping[int, tuple[int, int]]:
    """Where each partition's log begins and ends; a marker at its end counts."""
    logs = [TopicPartition(topic, number) for number in range(partitions)]
    with open_admin(Cluster("any", client), "test") as admin:
        begins, ends = admin.earliest_offsets(logs), admin.log_ends(logs)
    return {where.partition: (begins.of(where), ends.of(where)) for where in logs}


def file_of(source: Client, target: Client, alias: str, topics: str, lines: Sequence[str] = ()) -> str:
    committed = f"{alias}.consumer.isolation.level = read_committed"
    return flow_file(source, target, alias=alias, topics=topics, lines=[KEEPS, committed, *lines])


def commit(client: Client, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    consumer = Consumer({**client, "group.id": group})
    places = [Place(topic, number, offset) for number, offset in offsets.items()]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def committed(client: Client, group: str, topic: str, partitions: int) -> dict[int, tuple[int, int | None]]:
    """Each partition's committed offset and its leader epoch."""
    consumer = Consumer({**client, "group.id": group})
    found = consumer.committed([Place(topic, number) for number in range(partitions)], timeout=60)
    consumer.close()
    return {one.partition: (one.offset, one.leader_epoch) for one in found}


def assert_identical(source: Client, target: Client, topic: str, remote: str, partitions: int) -> None:
    committed = {"isolation.level": "read_committed"}
    wanted = places({**source, **committed}, topic)
    assert places(target, remote) == wanted
    assert places({**target, **committed}, remote) == wanted
    assert spans(target, remote, partitions) == spans(source, topic, partitions)


def planned_holes(file: Path, capsys: pytest.CaptureFixture[str]) -> dict[int, int]:
    """How many offsets without a record `plan` says each partition has, all of whose batches it has read."""
    capsys.readouterr()
    assert main(["plan", str(file), "--format", "json"]) == 0
    (plan,) = json.loads(capsys.readouterr().out).values()
    found = plan["kept_offsets"]
    assert found["holes_unknown"] == 0
    assert all(one["read"] == one["stop"] - one["first"] for one in found["holes"])
    return {one["partition"]: one["missing"] for one in found["holes"]}


def missing(client: Client, topic: str, partitions: int) -> dict[int, int]:
    """How many there are."""
    seen = places({**client, "isolation.level": "read_committed"}, topic)
    logs = spans(client, topic, partitions)
    return {number: stop - first - len(seen.get(number, ())) for number, (first, stop) in logs.items()}


def test_records_and_groups_behind_a_late_start_and_transactions_keep_their_offsets_from_run_to_run(
    source: Client,
    target: Client,
    unique: Callable[[str], str],
    mirror_once: MirrorOnce,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic, alias, group = unique("ledger"), unique("same"), unique("readers")
    remote = f"{alias}.{topic}"
    make_topics(source, {topic: 2})
    begin_at(source, topic, START)
    write_transactions(source, topic, unique("writer"))
    groups = ["sync.group.offsets.enabled = true", f"groups = {group}"]
    text = file_of(source, target, alias, topic, groups)

    file = tmp_path / "doctor.properties"
    file.write_text(text)
    main(["doctor", str(file), "--format", "json"])
    found = {one["what"]: one["said"] for one in json.loads(capsys.readouterr().out)}
    assert "any client may write to 1 topics whose offsets are kept" in found["writers"]
    assert "few or none at the ends of 2 of 2 partitions" in found["transaction markers"]

    assert planned_holes(file, capsys) == missing(source, topic, 2)
    mirror_once(text)
    assert_identical(source, target, topic, remote, 2)
    assert planned_holes(file, capsys) == {}, "nothing is left to mirror"

    notes = [Note(b"v%d" % at, b"k", at % 2, headers=(("h", b"%d" % at), ("none", None))) for at in range(5000)]
    write(source, topic, notes)
    commit(source, group, topic, {0: START + 77, 1: 60})
    mirror_once(text)
    assert_identical(source, target, topic, remote, 2)
    assert committed(target, group, remote, 2) == {0: (START + 77, None), 1: (60, None)}

    commit(source, group, topic, {0: START + 80, 1: 61})
    mirror_once(text)
    moved = {0: (START + 80, None), 1: (61, None)}
    assert committed(target, group, remote, 2) == moved, "a run without a record knows the topic too"

    file.write_text(text)
    verbs = {"status": [], "groups": ["--partitions"], "lag": ["--group", group], "failover": [], "migrate": []}
    for verb, more in verbs.items():
        kind = ["status"] if verb in ("failover", "migrate") else []
        capsys.readouterr()
        assert main([verb, *kind, str(file), *more]) == 0
        assert "offsets are identical in 2 partitions" in capsys.readouterr().out, verb


@pytest.mark.long
def test_what_retention_takes_before_anything_was_mirrored_is_a_gap_and_no_late_start(
    source: Client,
    target: Client,
    unique: Callable[[str], str],
    mirror_once: MirrorOnce,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic, alias = unique("ledger"), unique("same")
    text = file_of(source, target, alias, topic)
    make_topics(source, {topic: 1})
    mirror_once(text)

    write(source, topic, [Note(b"v%d" % at, b"k", 0) for at in range(50)])
    with open_admin(Cluster("retention", source), "test") as admin:
        delete_before(admin, {TopicPartition(topic, 0): 30})
    mirror_once(text)

    remote = f"{alias}.{topic}"
    assert places(target, remote) == places(source, topic)
    assert spans(target, remote, 1)[0][1] == 50
    file = tmp_path / "gaps.properties"
    file.write_text(text)
    capsys.readouterr()
    main(["gaps", str(file), "--format", "json"])
    ((gap,),) = json.loads(capsys.readouterr().out).values()
    assert (gap["cause"], gap["expected"], gap["resumed"]) == ("retention", 0, 30)


def test_one_topic_of_two_keeps_its_offsets_from_a_point_in_time_on(
    source: Client,
    target: Client,
    unique: Callable[[str], str],
    mirror_once: MirrorOnce,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kept, other, alias, group = unique("ledger"), unique("orders"), unique("same"), unique("readers")
    make_topics(source, {kept: 1, other: 1})
    for topic in (kept, other):
        begin_at(source, topic, 5000)
        notes = [Note(b"v%d" % at, b"k", timestamp_ms=1_700_000_000_000 + at * 1000) for at in range(500)]
        write(source, topic, notes)
        commit(source, group, topic, {0: 5377})
    lines = [f"preserve.offsets.topics = {kept}", "preserve.offsets.start = 2023-11-14T22:18:20"]
    groups = ["sync.group.offsets.enabled = true", f"groups = {group}"]
    text = file_of(source, target, alias, f"{kept}, {other}", [*lines, *groups])
    file = tmp_path / "plan.properties"
    file.write_text(text)
    assert main(["plan", str(file)]) == 0
    fill = (
        f"fill 5,300 offsets of {alias}.{kept}-0, 0 to 5299, before it begins: less than 1 s, 3.6 kB for each replica"
    )
    out = capsys.readouterr().out
    assert fill in out
    assert "warning: the brokers have no authorizer: any client may write to 1 topics whose offsets are kept" in out
    mirror_once(text)
    assert main(["plan", str(file)]) == 0
    out = capsys.readouterr().out
    assert ("fill" in out, "keep the offsets of 1 partitions\n" in out) == (False, True)

    assert places(target, f"{alias}.{kept}") == {0: places(source, kept)[0][300:]}, "what lies before stays empty"
    assert spans(target, f"{alias}.{kept}", 1) == {0: (5300, 5500)}
    others = [one[1:] for one in places(target, f"{alias}.{other}")[0]]
    assert others == [one[1:] for one in places(source, other)[0]], "all of it"
    assert spans(target, f"{alias}.{other}", 1) == {0: (0, 500)}
    stands = {topic: committed(target, group, f"{alias}.{topic}", 1)[0][0] for topic in (kept, other)}
    assert stands == {kept: 5377, other: 377}


@pytest.mark.long
def test_a_stray_marker_on_the_target_holds_its_partition_also_when_the_source_has_lost_what_it_displaced(
    source: Client, target: Client, unique: Callable[[str], str], mirror_once: MirrorOnce
) -> None:
    topic, alias = unique("ledger"), unique("same")
    remote = f"{alias}.{topic}"
    make_topics(source, {topic: 1})
    write(source, topic, [Note(b"%d" % at) for at in range(100)])
    text = file_of(source, target, alias, topic)
    mirror_once(text)
    assert_identical(source, target, topic, remote, 1)

    with closing(FillerClients(Cluster("any", target))) as clients:
        filler = HoleFiller(clients, unique("foreign"), TopicPartition(remote, 0), -1)
        assert filler.fill(Hole(100, 101), MARKERS, 60.0) == 101
        filler.close()
    write(source, topic, [Note(b"%d" % at) for at in range(100, 150)])

    with pytest.raises(AssertionError, match="the target has something else at offset 100 than its source"):
        mirror_once(text)
    assert spans(target, remote, 1) == {0: (0, 101)}, "nothing is written behind it"

    with open_admin(Cluster("retention", source), "test") as admin:
        delete_before(admin, {TopicPartition(topic, 0): 120})
    with pytest.raises(AssertionError, match="offset 100 was found to hold something else than the source had"):
        mirror_once(text)
    assert spans(target, remote, 1) == {0: (0, 101)}


@pytest.mark.long
def test_what_is_failed_and_what_was_deleted_on_the_target_is_not_said_to_be_identical(
    source: Client,
    target: Client,
    unique: Callable[[str], str],
    mirror_once: MirrorOnce,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic, alias = unique("ledger"), unique("same")
    remote, file = f"{alias}.{topic}", tmp_path / "said.properties"
    text = file_of(source, target, alias, topic)
    file.write_text(text)
    make_topics(source, {topic: 2})
    write(source, topic, [Note(b"%d" % at, partition=at % 2) for at in range(100)])
    mirror_once(text)

    def said() -> list[str]:
        """What commands say of offsets, each once."""
        found = set()
        for verb in (["status"], ["groups"], ["failover", "status"]):
            capsys.readouterr()
            assert main([*verb, str(file)]) == 0
            found |= set(re.findall(r"offsets are identical in [^:,\n]*", capsys.readouterr().out))
        return sorted(found)

    assert said() == ["offsets are identical in 2 partitions"]
    write(target, remote, [Note(b"foreign", partition=1)])
    write(source, topic, [Note(b"%d" % at, partition=at % 2) for at in range(100, 110)])
    with pytest.raises(AssertionError, match="somebody else has written"):
        mirror_once(text)
    assert said() == ["offsets are identical in 1 partition"]
    delete_topic(target["bootstrap.servers"], remote)
    assert said() == []
