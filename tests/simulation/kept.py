"""Histories of a flow that keeps offsets (`preserve.offsets.enabled`): what is drawn for them, and what may happen to
them alone. `kept_judge` judges them."""

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.cluster import Partition

from sparkmirror.batch.header import parse_header, stamp
from sparkmirror.batch.records import encode_batch
from sparkmirror.model import TopicPartition
from sparkmirror.policy.fillers import ABORTED, IDS, MARKERS, WRITE_MARKERS

if TYPE_CHECKING:
    from tests.simulation.faults import FaultKind
    from tests.simulation.history import Scene

_BEGINS = (0, 0, 0, 3, 40, 700)
_SEQUENCES = (1 << 31, 1 << 31, 1 << 10)
"""Where sequence numbers begin again: also so soon that most histories come there."""
_RECORDS_MAX = (7, 60)
"""Empty records of a batch, so that fillers need several."""
_FORGETS_SHARE, _REBUILDS_SHARE, _ADOPTS_SHARE = 0.15, 0.3, 0.2
OLD_SECONDS = 3 * 86_400.0
_EXPIRATION_SECONDS = 86_400.0
_EXPIRY_SECONDS_MAX = 3.0
_SLOW_SECONDS = 3.0
_FOREIGN_ID, _FOCUS_SHARE = 7_000_000, 0.7
UNWRITTEN = 15
"""The last offsets of a hole that are not filled by written markers: most holes are small here."""
_WRITTEN_MIN = 20
"""A request may bring more written markers than that, as in earnest: one that comes late can pass a hole's end."""
_HOLES, _LARGE_HOLES = (1, 2, 3, 6, 20, 60, 150), (40, 60, 150)
KEPT_EVENTS = ("EndTxn", "marker", "marker", "InitProducerId", "DescribeProducers", "DeleteRecords", "data", "doubt")
"""At which faults of these histories strike, beside all others."""
WRITING_EVENTS = ("WriteTxnMarkers", "WriteTxnMarkers", "marker", "EndTxn", "InitProducerId", "data")
WRITING_FAULTS = ("widen hole", "widen hole", "sleep across a hole", "late written markers")
"""Some of these happen, at these events, wherever a mirror writes markers: few holes are so large otherwise."""
WRITING_MAX = 6


@dataclass(frozen=True, slots=True)
class Kept:
    """`filler` takes up the holes; the source's logs begin at `begins`; sequence numbers begin again at `sequences`.
    No batch of fillers has more than `records_max` empty records, no request more markers. Where the target `forgets`,
    the records are three days old, and it looks for expired producers every few seconds. `rebuilds`: a person deletes
    the target's topic once a partition is FAILED and all else is well. `adopts_at`: so many seconds from the beginning
    a person deletes the topics of positions, and the flow, which is stopped meanwhile, takes over what it has mirrored
    (`preserve.offsets.adopt`); 0 for never."""

    filler: str = MARKERS
    begins: int = 0
    sequences: int = 1 << 31
    records_max: int = 500_000
    forgets: bool = False
    rebuilds: bool = False
    adopts_at: float = 0.0


def draw_kept(random: Random) -> Kept:
    drawn = Kept(
        random.choice((MARKERS, WRITE_MARKERS, ABORTED)), random.choice(_BEGINS), random.choice(_SEQUENCES),
        random.choice(_RECORDS_MAX), random.random() < _FORGETS_SHARE, random.random() < _REBUILDS_SHARE,
        round(1.0 + 6.0 * random.random(), 3) if random.random() < _ADOPTS_SHARE else 0.0,
    )  # fmt: skip
    return replace(drawn, records_max=max(drawn.records_max, _WRITTEN_MIN)) if drawn.filler == WRITE_MARKERS else drawn


def watch_expiry(scene: "Scene") -> None:
    """The leaders of the target look for producers that have expired, now and then."""
    for topic in scene.target.topics.values():
        if topic.name == scene.remote:
            for partition in topic.partitions:
                _forget(scene, partition)
    scene.world.after(_EXPIRY_SECONDS_MAX * scene.world.random.random(), lambda: watch_expiry(scene))


def _forget(scene: "Scene", partition: Partition) -> bool:
    before_ms = int((scene.world.wall - _EXPIRATION_SECONDS) * 1000)
    return bool(partition.log.forget_producers(before_ms))


def _remote(scene: "Scene", random: Random) -> Partition | None:
    """Most often the partition that other faults strike."""
    topic = scene.target.topics.get(scene.remote)
    if topic is None:
        return None
    at = scene.focus if random.random() < _FOCUS_SHARE else random.randrange(len(topic.partitions))
    found = topic.partitions[at % len(topic.partitions)]
    return found if found.leader is not None and not found.is_stuck else None


def _write_foreign(scene: "Scene", random: Random) -> str:
    """Somebody else writes to the target: records on their own, of another producer, or in a transaction."""
    partition = _remote(scene, random)
    if partition is None:
        return ""
    count, kind = random.choice((1, 1, 3)), random.choice(("plain", "idempotent", "committed", "aborted"))
    log, producer_id = partition.log, _FOREIGN_ID + random.getrandbits(20)
    is_empty = kind == "committed" and random.random() < 0.5
    record = (b"", b"") if is_empty else (b"foreign", b"foreign")
    data = bytearray(encode_batch([record] * count, timestamp=int(scene.world.wall * 1000)))
    if kind != "plain":
        view = memoryview(data)
        stamp(view, 0, parse_header(view, 0), producer_id, 0, 0, kind not in ("plain", "idempotent"))
    _, base = log.append(bytes(data), is_open=True)
    if kind in ("committed", "aborted"):
        log.add_marker(producer_id, 0, commits=kind == "committed")
    scene.target.replicate(partition)
    scene.causes.note(partition, "foreign")
    return f"{count} {kind} {'empty ' * is_empty}records of somebody else stand at {base} of {partition.where}"


def _mark_foreign(scene: "Scene", random: Random) -> str:
    """A marker of somebody's empty transaction: only its offset is taken."""
    partition = _remote(scene, random)
    if partition is None:
        return ""
    at = partition.log.end
    partition.log.add_marker(_FOREIGN_ID + random.getrandbits(20), 0, commits=random.random() < 0.5)
    scene.target.replicate(partition)
    scene.causes.note(partition, "foreign")
    return f"a marker of somebody else stands at {at} of {partition.where}"


def _is_writing(scene: "Scene") -> bool:
    return scene.script.kept is not None and scene.script.kept.filler == WRITE_MARKERS


def _widen_hole(scene: "Scene", random: Random) -> str:
    """The source's log has offsets without a record, between batches, as a cleaner leaves them."""
    partitions = scene.sources()
    if not partitions:
        return ""
    at = scene.focus if random.random() < _FOCUS_SHARE else random.randrange(len(partitions))
    partition = partitions[at % len(partitions)]
    log, count = partition.log, random.choice(_LARGE_HOLES if _is_writing(scene) else _HOLES)
    if partition.leader is None or scene.source.nodes[partition.leader].frozen_until > scene.world.now:
        return ""
    first = log.end
    log.end += count
    scene.producers.write_batch(partition)
    if log.end == first + count:  # a log ends with a batch
        log.end = first
        return ""
    return f"{partition.where} of the source has nothing from {first} to {first + count - 1}"


def _restore_start(scene: "Scene", random: Random) -> str:
    """With one replica: a broker that was killed soon after DeleteRecords has the records again."""
    partition = _remote(scene, random)
    if partition is None or not partition.log.restore_deleted():
        return ""
    return f"{partition.where} of the target begins at {partition.log.start} again"


def _double_markers(scene: "Scene", random: Random) -> str:
    seconds = random.choice((0.5, 3.0))
    double_markers(scene, random, seconds)
    return f"markers come twice for {seconds} s"


def double_markers(scene: "Scene", random: Random, seconds: float) -> None:
    """Markers of fillers are sent twice, as after a restart of the coordinator; not the last ones of a hole, behind
    which they would stand."""
    until = scene.world.now + seconds
    doubled = scene.target.doubled

    def doubles(partition: Partition) -> bool:
        if scene.world.now > until or partition.where.topic != scene.remote or random.random() < 0.5:
            return False
        source = scene.source.partition(source_where(partition))
        records = source.log.visible(committed=scene.script.read_committed) if source is not None else ()
        following = next((one.offset for one in records if one.offset >= partition.log.end), 0)
        if following - partition.log.end <= 2 * IDS or doubled[partition.where, following] >= IDS:
            return False
        doubled[partition.where, following] += 1
        return True

    scene.target.doubles_marker = doubles


def _delay_written(scene: "Scene", random: Random) -> str:
    """Markers that a mirror writes come much later, as of a broker that stood still with the request."""
    seconds = random.choice((0.5, 3.0, 8.0))
    scene.target.written_late_until = scene.world.now + seconds
    return f"markers that are written without a coordinator come late for {seconds} s"


def _sleep_across_hole(scene: "Scene", random: Random) -> str:
    """A process falls asleep while it fills a hole, another one takes over, and the first wakes up."""
    seconds = random.choice((0.5, 3.0, 8.0))

    def take_over() -> None:
        if scene.is_healed:
            return
        for process in scene.mirror.processes:
            process.freeze(seconds + 0.3 * random.random())
        scene.world.tell(f"{scene.mirror.name} stands still for {seconds} s at a filler, and another one starts")
        scene.world.after(0.3 * random.random(), scene.start_mirror)

    event = random.choice(("EndTxn", "marker", "InitProducerId", *["WriteTxnMarkers"] * _is_writing(scene)))
    scene.target.when(event, lambda: scene.world.after(0.01 * random.random() ** 2, take_over))
    return f"the mirror will fall asleep at the next {event}, and another one start"


def _take_over_slowly(scene: "Scene", random: Random) -> str:
    """Another mirror starts while the one before still writes, and takes long for each step: what it reads of a log is
    of several moments."""
    lag = random.choice((0.01, 0.03, 0.1))
    scene.start_mirror()
    for process in scene.mirrors[-1].processes:
        process.slow(_SLOW_SECONDS, lag)
    return f"{scene.mirrors[-1].name} starts while the one before still runs, each step up to {lag} s late"


def _kill_at_start(scene: "Scene", random: Random) -> str:
    """The mirror is killed as soon as the empty records before the start are deleted."""

    def kill() -> None:
        if not scene.is_healed:
            scene.world.tell(f"{scene.mirror.name} is killed right after DeleteRecords")
            scene.mirror.kill()
            scene.world.after(0.1 + random.random(), scene.start_missing)

    scene.target.when("DeleteRecords", lambda: scene.world.after(0.003 * random.random(), kill))
    return "the mirror will be killed at the next DeleteRecords"


def rebuild(scene: "Scene") -> None:
    """A person who reads that a partition is FAILED stops the flow, deletes the topic, and starts the flow again."""
    if scene.is_ended:
        return
    failed = scene.causes.failed()
    if failed and scene.remote in scene.target.topics:
        scene.world.tell(f"a person deletes {scene.remote}: {next(iter(failed.values()))}")
        for partition in scene.target.topics[scene.remote].partitions:
            scene.causes.begin_again(partition)
        for mirror in scene.mirrors:
            mirror.kill()
        scene.target.delete_topic(scene.remote)
        scene.world.after(2.0, scene.start_missing)
    scene.world.after(20.0, lambda: rebuild(scene))


def lose_ledger(scene: "Scene") -> None:
    """The ledger is gone, as that of an earlier run; `preserve.offsets.adopt` names the topic."""
    scene.world.tell("a person deletes the topics of the ledger's positions")
    for mirror in scene.mirrors:
        mirror.kill()
    for partition in scene.target.topics[scene.remote].partitions if scene.remote in scene.target.topics else ():
        scene.causes.note(partition, "ledger lost")
    for name in (scene.ledger.positions, scene.ledger.offsets):
        if name in scene.target.topics:
            scene.target.delete_topic(name)
    scene.world.after(2.0, scene.start_missing)


def source_where(partition: Partition) -> TopicPartition:
    return TopicPartition("orders", partition.where.partition)


KEPT_FAULTS: "dict[str, FaultKind]" = {
    "foreign record": (3, _write_foreign),
    "foreign marker": (1, _mark_foreign),
    "widen hole": (8, _widen_hole),
    "restore start": (1, _restore_start),
    "double markers": (3, _double_markers),
    "late written markers": (3, _delay_written),
    "sleep across a hole": (6, _sleep_across_hole),
    "take over slowly": (4, _take_over_slowly),
    "kill at start": (2, _kill_at_start),
}
"""Of histories in which offsets are kept."""
LEFT_OUT = frozenset({"other program", "hold transaction"})
"""Faults of all histories that these have not."""
SELDOM = frozenset({"unclean source", "recreate source", "unclean target", "delete target"})
"""Those that end most partitions."""
