"""What may happen to a flow: each fault acts on a scene, with random numbers of its own, and says what it did.

A fault that draws its own numbers can be left out of a script, and all others still do what they did.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tests.simulation.announcements import ANNOUNCED_FAULTS, DRIVER_FAULTS
from tests.simulation.cleaning import clean
from tests.simulation.cluster import Cluster, Partition, Topic
from tests.simulation.kept import KEPT_EVENTS, KEPT_FAULTS
from tests.simulation.left_out import LEFT_OUT_FAULTS
from tests.simulation.log import PartitionLog
from tests.simulation.meetings import REST_FAULTS, ROWS_FAULTS
from tests.simulation.network import SimSocket
from tests.simulation.orders import LATER_ORDERS, ORDERS
from tests.simulation.scheduler import Process
from tests.simulation.truth import CUT, DELETED, MADE_AGAIN

from sparkmirror.model import NO_TOPIC_ID, Position
from sparkmirror.policy.loss import CONTINUE, FAIL, PAUSE

if TYPE_CHECKING:
    from tests.simulation.history import Scene


_BROKERS_MIN = 2
_NOT_ENOUGH_AFTER_APPEND = 20
_REFUSALS = (10, 29, 87, 56, 19, 20, 7, 3)
_DOUBTFUL, _FINAL = (7, _NOT_ENOUGH_AFTER_APPEND), (10, 29, 87)
_TRANSACTION_REFUSALS = (48, 48, 120)
"""INVALID_TXN_STATE and TRANSACTION_ABORTABLE: the leader could not verify the transaction (KIP-890)."""


_One = TypeVar("_One")
_FOCUS_SHARE = 0.7
"""Of the faults that strike one partition of several, how many strike the one that the history says."""
_EVENT_SECONDS_MAX = 5.0
_SLEEP_SECONDS_MAX = 8.0
_MOMENT_SECONDS, _LATE_SECONDS = 0.006, 0.6
_AT, _AFTER = " @ ", " after "
_PARTITIONS_MAX = 5
_COMMITS_ON_TARGET_SHARE = 0.75
_HOLDS = frozenset({"hold commits", *DRIVER_FAULTS})
"""Faults of jobs and drivers that keep a commit from being restored in time."""
EVENTS = ("data", "positions", "offsets", "gaps", "EndTxn", "marker", "InitProducerId", "written", "read", "command",
          "burst", "refused", "doubt", "away", "turned", "epoch")  # fmt: skip
"""At which a fault may strike: a batch that the target appends, a request of transactions, a record that the source's
producer writes, records that are read, an order of the planner to tasks, a batch of several that are under way, one
that is refused, one that may stand though no answer says so, a topic of the source that is deleted, a log of it that
was cut or made again, and a mirror that is between two epochs."""
FREQUENT_EVENTS = ("data", "positions", "offsets", "written", "read", "burst")
SOURCE_EVENTS = ("written", "read", "away", "turned")
REQUEST_EVENTS = tuple(
    f"asked {name} of {side}" for side in ("source", "target")
    for name in ("Metadata", "ListOffsets", "FindCoordinator", "InitProducerId", "DescribeConfigs", "CreateTopics",
                 "AddPartitionsToTxn", "DescribeTransactions", "ListTransactions", "JoinGroup", "SyncGroup",
                 "Heartbeat", "DescribeGroups", "ListGroups", "DescribeProducers", "DescribeAcls")
)  # fmt: skip
"""A request comes, of which something may depend on what it finds."""
GROUP_EVENTS = ("rebalance",)
"""Of processes that share a flow: all members of a group have joined."""


class Fault(NamedTuple):
    """`at` is in seconds from the beginning; `draw` seeds the fault's own random numbers.

    A `name` as `cut @ gaps` strikes a moment after the next such event, one as `cut after gaps` when what follows from
    it is under way; both at the latest after 5 s.
    """

    at: float
    name: str
    draw: int


def kind_of(fault: Fault) -> str:
    """The fault's name, without the event that it strikes at."""
    return fault.name.partition(_AT)[0].partition(_AFTER)[0]


ACL_EVENTS = ("CreateAcls", "CreateAcls", "DeleteAcls", "note", "note")
"""Of the ACL job: the target's ACLs are changed, and what it is about to create is noted."""
SETTINGS_EVENTS = ("IncrementalAlterConfigs",)
"""Of the settings job: the remote topic's settings are altered."""
JOB_EVENTS = ("checkpoint", "OffsetFetch", "OffsetCommit")
"""Of jobs: a checkpoint that is stored, questions about groups' offsets on the target, and commits there."""


def strike(scene: "Scene", fault: Fault) -> None:
    is_late = _AFTER in fault.name
    kind, _, event = fault.name.partition(_AFTER if is_late else _AT)
    if not event:
        _strike(scene, kind, fault.draw)
        return
    moment = (_LATE_SECONDS if is_late else _MOMENT_SECONDS) * Random(fault.draw).random() ** 2
    struck: list[bool] = []

    def act() -> None:
        if not struck:
            struck.append(True)
            scene.world.after(moment, lambda: _strike(scene, kind, fault.draw))

    cluster, what = scene.event(event)
    cluster.when(what, act)
    scene.world.after(_EVENT_SECONDS_MAX, act)


def _strike(scene: "Scene", kind: str, draw: int) -> None:
    if not scene.is_healed:
        if (kind in FAULTS or kind in _HOLDS) and scene.readers is not None:
            scene.readers.struck.append(scene.world.now)
        scene.struck.append((scene.world.now, kind))
        told = EVERY_FAULT[kind][1](scene, Random(draw))
        scene.world.tell(f"{kind}: {told}" if told else f"{kind}: nothing to do")
        scene.checker.look()


def _focus(scene: "Scene", random: Random, members: Sequence[_One]) -> _One:
    """One of them, most often the same in all of a history: what fails at one place fails there again."""
    if random.random() < _FOCUS_SHARE:
        return members[scene.focus % len(members)]
    return random.choice(members)


# Links and brokers.


def _either(scene: "Scene", random: Random) -> Cluster:
    return random.choice((scene.source, scene.target))


def _cut(scene: "Scene", random: Random) -> str:
    sockets = list(scene.net.sockets)
    if not sockets:
        return ""
    sock = random.choice(sockets)
    sock.hang_up()
    return f"a connection of {sock.process.name} to {sock.cluster.alias}-{sock.node} breaks"


def _silence(scene: "Scene", random: Random) -> str:
    sockets = list(scene.net.sockets)
    if not sockets:
        return ""
    sock = random.choice(sockets)
    sock.is_silent = True
    return f"a connection of {sock.process.name} to {sock.cluster.alias}-{sock.node} falls silent"


def _slow(scene: "Scene", random: Random) -> str:
    cluster, seconds = _either(scene, random), random.choice((0.05, 0.5, 2.0))
    scene.net.slow[cluster.alias] = seconds
    scene.world.after(3.0 * random.random(), lambda: scene.net.slow.pop(cluster.alias, None))
    return f"messages to {cluster.alias} take up to {seconds} s"


def _lossy(scene: "Scene", random: Random) -> str:
    scene.net.loss = 0.4
    scene.world.after(3.0 * random.random(), lambda: setattr(scene.net, "loss", 0.0))
    return "the planner's answers are lost now and then"


def _stop_in_answer(scene: "Scene", random: Random) -> str:
    """A broker of the source sends half of each answer with records, and the rest much later: memory that others wait
    for is held until then."""
    number, seconds = random.choice(list(scene.source.nodes)), random.choice((0.7, 1.5, 4.0))
    scene.net.stops[scene.source.alias, number] = seconds, scene.world.now + random.choice((0.3, 2.0))
    return f"broker {scene.source.alias}-{number} stops in the middle of its answers for {seconds} s"


def _freeze_broker(scene: "Scene", random: Random) -> str:
    cluster = _either(scene, random)
    node, seconds = random.choice(list(cluster.nodes.values())), random.choice((0.3, 3.0, 12.0, 20.0))
    node.frozen_until = max(node.frozen_until, scene.world.now + seconds)  # what came meanwhile waits as long
    return f"broker {cluster.alias}-{node.number} stands still for {seconds} s"


def _wake_stale(scene: "Scene", random: Random) -> str:
    """A broker of the source answers, when it wakes up, with what it knew before it stood still."""
    cluster = scene.source
    node, seconds = random.choice(list(cluster.nodes.values())), random.choice((0.5, 3.0, 12.0, 12.0))
    node.frozen_until = max(node.frozen_until, scene.world.now + seconds)
    cluster.remember(node.number, node.frozen_until + random.choice((0.1, 0.4)))
    return f"broker {cluster.alias}-{node.number} stands still for {seconds} s, and wakes up with what it knew"


def _isolate_leader(scene: "Scene", random: Random) -> str:
    """A broker of the source is cut off from the others, not from its clients: it leads on by what it knows, and others
    are elected in its place."""
    cluster = scene.source
    partitions = [one for one in scene.sources() if one.leader is not None]
    if not partitions or len(_live(cluster)) < _BROKERS_MIN:
        return ""
    number, seconds = _focus(scene, random, partitions).leader, random.choice((1.0, 4.0, 12.0, 30.0))
    assert number is not None
    cluster.remember(number, scene.world.now + seconds)
    others = [other for other in _live(cluster) if other != number]

    def elect() -> None:
        for partition in [] if scene.is_healed else scene.sources():
            if partition.leader == number:
                cluster.move_leader(partition, random.choice(others), cut=_replicated(scene, partition))

    scene.world.after(0.05 + random.random(), elect)
    return f"broker {cluster.alias}-{number} is cut off from the others for {seconds} s, and leads on"


def _bounce_broker(scene: "Scene", random: Random) -> str:
    cluster = _either(scene, random)
    number = random.choice(list(cluster.nodes))
    world = scene.world
    if not all(node.is_up for node in cluster.nodes.values()):
        return ""
    scene.net.down(cluster, number)
    cluster.down(number)
    world.after(0.05 + random.random(), cluster.elect)

    def up() -> None:
        cluster.nodes[number].is_up = True
        cluster.elect()

    world.after(0.5 + 4.0 * random.random(), up)
    return f"broker {cluster.alias}-{number} ends and starts again"


def _any_partition(scene: "Scene", cluster: Cluster, random: Random) -> Partition | None:
    topics = list(cluster.topics.values())
    return _focus(scene, random, _focus(scene, random, topics).partitions) if topics else None


def _move_leader(scene: "Scene", random: Random) -> str:
    cluster = _either(scene, random)
    partition = _any_partition(scene, cluster, random)
    if partition is None:
        return ""
    others = [n for n, node in cluster.nodes.items() if node.is_up and n != partition.leader]
    if not others:
        return ""
    cluster.move_leader(partition, others[0], cut=_replicated(scene, partition))
    return f"{partition.where} of {cluster.alias} is led by broker {others[0]}"


def _replicated(scene: "Scene", partition: Partition) -> int:
    """How much the next leader has: all that is acknowledged, and of the rest what it had fetched. Its numbers are its
    own, so that histories of former times stay as they were."""
    log = partition.log
    random = Random(f"the next leader of {partition.where} at {scene.world.now}")
    return random.choice((log.high_watermark, log.end, random.randint(log.high_watermark, log.end)))


def _stick(scene: "Scene", random: Random) -> str:
    """Batches are appended and not acknowledged; then another broker leads, which may lack them."""
    cluster = scene.target
    partition = _any_partition(scene, cluster, random)
    if partition is None:
        return ""
    partition.is_stuck = True
    lacks, seconds = random.random() < 0.6, 0.2 + random.choice((3.0, 3.0, 3.0, 20.0)) * random.random()

    def go_on() -> None:
        partition.is_stuck = False
        if partition.is_gone:
            return
        others = [n for n, node in cluster.nodes.items() if node.is_up and n != partition.leader]
        if lacks and others:
            cluster.move_leader(partition, others[0], cut=_replicated(scene, partition))
        else:
            cluster.replicate(partition)

    def shrink() -> None:
        """The leader alone is in sync, fewer than `min.insync.replicas`: what waits has been appended all the same."""
        if partition.is_stuck and not partition.is_gone:
            scene.target.fail_waiting(partition, _NOT_ENOUGH_AFTER_APPEND)

    scene.world.after(seconds, go_on)
    if random.random() < 0.5:
        scene.world.after(seconds * random.random(), shrink)
    return (
        f"replicas of {partition.where} do not follow for {seconds:.1f} s, {'and its leader is lost' if lacks else ''}"
    )


def _coordinator(scene: "Scene", random: Random) -> str:
    live = [n for n, node in scene.target.nodes.items() if node.is_up]
    scene.target.coordinator_node = random.choice(live)
    return f"broker {scene.target.coordinator_node} coordinates transactions"


def _late_markers(scene: "Scene", random: Random) -> str:
    seconds = random.choice((0.5, 3.0, 6.0, 12.0))
    scene.target.markers_wait_until = scene.world.now + seconds
    return f"no marker of a transaction is written for {seconds} s"


# Logs.


def _unclean_source(scene: "Scene", random: Random) -> str:
    partitions = scene.sources()
    if not partitions:
        return ""
    partition = _focus(scene, random, partitions)
    log, where = partition.log, partition.where
    cut = max(log.start, log.high_watermark - random.choice((1, 3, 10, 40)))
    truth = scene.truth.of(where)
    topic_id = scene.source.topics[where.topic].topic_id
    position = scene.checker.view().position(where)
    scene.source.move_leader(partition, random.choice(_live(scene.source)), cut=cut)
    if position is not None and not _tells_log(position) and position.offset > log.end:
        truth.blind.add(topic_id)
    for one in truth.records.values():
        if one.topic_id == topic_id and one.offset >= log.end and not one.is_truncated:
            one.is_truncated = True
    truth.source_losses.add(CUT)
    truth.truncations += 1
    scene.producers.note_cut(partition)
    scene.causes.note(partition, "source cut")
    scene.source.note("turned")
    return f"{where} of the source is cut to {log.end} by an unclean election"


def _tells_log(position: Position) -> bool:
    """Whether a position in the ledger tells its log, and leader epochs, by which a cut is seen that has been written
    over: those of other programs do not, nor does a start behind which nothing was read."""
    return position.topic_id != NO_TOPIC_ID and bool(position.epochs)


def _live(cluster: Cluster) -> list[int]:
    return [number for number, node in cluster.nodes.items() if node.is_up]


def _unclean_target(scene: "Scene", random: Random) -> str:
    if scene.remote not in scene.target.topics:
        return ""
    partition = _focus(scene, random, scene.target.topics[scene.remote].partitions)
    scene.causes.note(partition, "target cut")
    log = partition.log
    cut = max(log.start, log.high_watermark - random.choice((1, 3, 10, 40)))
    before = scene.losses.before(partition)
    scene.target.move_leader(partition, random.choice(_live(scene.target)), cut=cut)
    scene.losses.cut(partition, before)
    return f"{partition.where} of the target is cut to {log.end} by an unclean election"


def _has_begun(scene: "Scene", partition: Partition) -> bool:
    """Where offsets are kept, a position that Connect's topic has alone is none."""
    view = scene.checker.view()
    known = view.position(partition.where) if scene.script.kept is None else view.records.get(partition.where)
    return known is not None


def _delete_records(scene: "Scene", random: Random) -> str:
    partitions = scene.sources()
    if not partitions:
        return ""
    partition = _focus(scene, random, partitions)
    log = partition.log
    to = log.high_watermark - random.choice((0, 0, 1, 5, 30))
    if to <= log.start:
        return ""
    log.delete_records(to)
    truth = scene.truth.of(partition.where)
    truth.source_losses.add(DELETED)
    is_begun = _has_begun(scene, partition)
    topic_id = scene.source.topics[partition.where.topic].topic_id
    for one in truth.records.values():  # a flow that has no position begins where the log does
        if one.topic_id == topic_id and one.offset < log.start and (one.is_over_cut or not is_begun):
            one.is_truncated = True
    scene.source.poke()
    scene.source.note("turned")
    return f"{partition.where} of the source begins at {log.start} now"


def _recreate_source(scene: "Scene", random: Random) -> str:
    if "orders" not in scene.source.topics:
        return ""
    old = scene.source.delete_topic("orders")
    view = scene.checker.view()
    for partition in old.partitions:
        truth = scene.truth.of(partition.where)
        truth.source_losses.add(MADE_AGAIN)
        scene.causes.note(partition, "source made again")
        position = view.position(partition.where)
        if position is not None and position.topic_id == NO_TOPIC_ID and position.offset:
            truth.blind.add(old.topic_id)
            truth.is_unseen = True
        for one in truth.records.values():
            if one.topic_id == old.topic_id and (position is None or position.topic_id != old.topic_id):
                one.is_truncated = True  # nobody had begun to mirror that log
    seconds = random.choice((0.0, 0.1, 2.0))

    def create() -> None:
        if "orders" not in scene.source.topics:
            scene.create_source()
            for _ in range(random.choice((0, 3, 60))):
                for partition in scene.sources():
                    scene.producers.write_batch(partition)
            if scene.settings is not None:
                scene.settings.remake(random)
            scene.source.note("turned")

    scene.world.after(seconds, create)
    scene.source.note("away")
    return f"the source's topic is deleted, and made again after {seconds} s"


def _delete_target(scene: "Scene", random: Random) -> str:
    if scene.remote not in scene.target.topics:
        return ""
    for partition in scene.target.topics[scene.remote].partitions:
        scene.losses.delete(partition)
        scene.causes.begin_again(partition)
    scene.target.delete_topic(scene.remote)
    return "the remote topic is deleted"


def _compact_source(scene: "Scene", random: Random) -> str:
    partitions = scene.sources()
    if not partitions:
        return ""
    partition = _focus(scene, random, partitions)
    _clean(scene, partition)
    return f"{partition.where} of the source is compacted"


def _compact_unread(scene: "Scene", random: Random) -> str:
    """The cleaner comes before the reader."""
    partitions = scene.sources()
    if not partitions:
        return ""
    partition, seconds = _focus(scene, random, partitions), random.choice((0.5, 2.0))
    partition.is_hollow = True
    scene.world.after(seconds, lambda: _clean_unread(scene, partition))
    return f"reads of {partition.where} bring nothing for {seconds} s, until it is compacted"


def _clean_unread(scene: "Scene", partition: Partition) -> None:
    if not scene.is_healed and not partition.is_gone:
        _clean(scene, partition)
    partition.is_hollow = False
    scene.source.poke()


def _clean(scene: "Scene", partition: Partition) -> None:
    clean(partition.log)
    kept = {record.value for one in partition.log.batches for record in one.records}
    topic_id = scene.source.topics[partition.where.topic].topic_id
    for one in scene.truth.of(partition.where).records.values():
        if one.topic_id == topic_id and one.value not in kept:
            one.is_compacted = True


def _compact_ledger(scene: "Scene", random: Random) -> str:
    name = random.choice([scene.ledger.offsets, scene.ledger.positions, scene.ledger.offset_map, scene.ledger.gaps])
    topic = scene.target.topics.get(name)
    for partition in topic.partitions if topic else ():
        clean(partition.log)
    return f"{name} is compacted" if topic else ""


def _hollow(scene: "Scene", random: Random) -> str:
    partitions = scene.sources()
    if not partitions:
        return ""
    partition = _focus(scene, random, partitions)
    partition.is_hollow = True
    scene.world.after(4.0 * random.random(), lambda: setattr(partition, "is_hollow", False))
    return f"reads of {partition.where} bring nothing for a while"


# Refusals.


def _refuse_for(scene: "Scene", partition: Partition, codes: tuple[int, ...], seconds: float) -> None:
    partition.refuses = codes
    scene.world.after(seconds, lambda: setattr(partition, "refuses", ()))


def _refuse(partition: Partition, scene: "Scene", random: Random) -> str:
    """With one error or several: replicas that are slow first, and then gone or forbidden."""
    known = _REFUSALS + _TRANSACTION_REFUSALS * scene.script.exactly_once
    codes = tuple(random.sample(known, random.choice((1, 1, 2, 3))))
    seconds = random.choice((0.1, 1.0, 4.0))
    _refuse_for(scene, partition, codes, seconds)
    return f"{partition.where} answers batches with error {' or '.join(map(str, codes))} for {seconds} s"


def _refuse_data(scene: "Scene", random: Random) -> str:
    topic = scene.target.topics.get(scene.remote)
    return _refuse(_focus(scene, random, topic.partitions), scene, random) if topic else ""


def _refuse_ledger(scene: "Scene", random: Random) -> str:
    ledger = scene.ledger
    name = random.choice((*(ledger.offsets, ledger.positions, ledger.gaps) * 2, ledger.offset_map, ledger.status))
    topic = scene.target.topics.get(name)
    return _refuse(_focus(scene, random, _written(topic)), scene, random) if topic else ""


def _written(topic: Topic) -> list[Partition]:
    """Of a ledger topic the partitions that the flow writes to: of three that have positions, most flows need one."""
    return [one for one in topic.partitions if one.log.batches] or topic.partitions


def _refuse_in_order(scene: "Scene", random: Random) -> str:
    """The first batch stands, and nobody says so; all behind it are refused for good, as where a person forbids writes
    at that moment."""
    partition = _of_data_or_ledger(scene, random)
    if partition is None:
        return ""
    seconds = random.choice((0.5, 2.0, 4.0))
    partition.refuses, partition.then_refuses = (random.choice(_DOUBTFUL),), (random.choice(_FINAL),)
    told = f"{partition.where} answers one batch with error {partition.refuses[0]}, then all with "

    def end() -> None:
        if partition.then_refuses and not scene.is_healed:  # no batch has come yet
            scene.world.after(seconds, end)
        else:
            partition.refuses = partition.then_refuses = ()

    scene.world.after(seconds, end)
    return f"{told}{partition.then_refuses[0]} for {seconds} s"


def _refuse_moved(scene: "Scene", random: Random) -> str:
    """A batch is appended, another broker leads, which has it, before it is acknowledged, and the leader before says so
    of itself; then it and all behind it are refused for good."""
    partition = _of_data_or_ledger(scene, random)
    if partition is None:
        return ""
    seconds = random.choice((0.5, 2.0, 4.0))
    refusal, moment, cluster = random.choice(_FINAL), _MOMENT_SECONDS * random.random(), scene.target
    partition.is_stuck = True

    def move() -> None:
        if not partition.waiting:  # it was a batch of another partition
            listen()
        elif partition.is_stuck:
            _refuse_as_next_leader(scene, partition, refusal, seconds)

    def listen() -> None:
        cluster.when(partition.where.topic, lambda: scene.world.after(moment, move))

    listen()
    scene.world.after(_EVENT_SECONDS_MAX, lambda: _follow(scene, partition))
    return f"{partition.where} is led by another broker when a batch has come, which refuses all with error {refusal}"


def _refuse_as_next_leader(scene: "Scene", partition: Partition, refusal: int, seconds: float) -> None:
    """Another broker leads a partition that was stuck, has all of it, and refuses what comes."""
    others = [number for number in _live(scene.target) if number != partition.leader]
    if others and not (partition.is_gone or scene.is_healed):
        _refuse_for(scene, partition, (refusal,), seconds)
        scene.target.move_leader(partition, others[0])
        _follow(scene, partition)


def _follow(scene: "Scene", partition: Partition) -> None:
    """A partition's replicas have all of it again."""
    partition.is_stuck = False
    if not partition.is_gone:
        scene.target.replicate(partition)


def _cut_unmapped(scene: "Scene", random: Random) -> str:
    """The target's log is cut while the target refuses what the offset map has to say of it."""
    maps = scene.target.topics.get(scene.ledger.offset_map)
    if maps is None or scene.remote not in scene.target.topics:
        return ""
    partition, seconds = maps.partitions[0], random.choice((0.5, 2.0, 4.0))
    _refuse_for(scene, partition, (random.choice(_FINAL),), seconds)
    return f"{_unclean_target(scene, random)}, and {partition.where} refuses all for {seconds} s"


def _cut_ledger(scene: "Scene", random: Random) -> str:
    """An unclean election takes positions that were acknowledged. A process that begins before they are stored again
    goes on from older ones, and nothing can know: at least once, records come again. A release that nobody has followed
    up stays: without it the partition waits for the next epoch."""
    topic = scene.target.topics.get(random.choice((scene.ledger.offsets, scene.ledger.positions)))
    if topic is None or scene.script.exactly_once or scene.script.kept is not None:
        return ""
    partition = random.choice([one for one in topic.partitions if one.log.end > one.log.start] or topic.partitions)
    log = partition.log
    cut = max(log.start, log.end - random.choice((1, 2, 5)), _end_of_releases(log))
    scene.target.move_leader(partition, random.choice(_live(scene.target)), cut=cut)
    return f"{partition.where} of the ledger is cut to {log.end} by an unclean election"


def _end_of_releases(log: PartitionLog) -> int:
    """Behind the last one that is the newest record of its key."""
    newest = {record.key: record for one in log.batches if not one.is_control for record in one.records}
    released = [at.offset for at in newest.values() if b'"released":true' in (at.value or b"")]
    return max(released, default=log.start - 1) + 1


def _refuse_turned(scene: "Scene", random: Random) -> str:
    """While a batch waits for the target's replicas, the source's log is cut, and what comes behind the cut is read;
    then the next leader on the target refuses all: the writer goes back before the cut."""
    topic = scene.target.topics.get(scene.remote)
    if topic is None:
        return ""
    partition = _focus(scene, random, topic.partitions)
    refusal, seconds = random.choice(_FINAL), random.choice((0.5, 2.0))
    turns_after, refuses_after = _MOMENT_SECONDS * random.random(), random.choice((0.1, 0.5, 1.0))
    partition.is_stuck = True

    def turn() -> None:
        if not scene.is_healed:
            scene.world.tell(f"at this moment {_unclean_source(scene, random)}")
            scene.world.after(refuses_after, lambda: _refuse_as_next_leader(scene, partition, refusal, seconds))

    scene.target.when(partition.where.topic, lambda: scene.world.after(turns_after, turn))
    scene.world.after(_EVENT_SECONDS_MAX, lambda: _follow(scene, partition))
    return f"{partition.where} waits for its replicas, and refuses all with error {refusal} once the source is cut"


def _lose_doubtful(scene: "Scene", random: Random) -> str:
    """Batches are appended, and replicas do not follow: so their leader says of each. Then another broker leads, which
    lacks them all."""
    partition = _of_data_or_ledger(scene, random)
    if partition is None:
        return ""
    seconds = random.choice((0.1, 1.0, 4.0))
    partition.refuses, partition.is_stuck = (random.choice(_DOUBTFUL),), True
    told = f"{partition.where} answers all batches with error {partition.refuses[0]} for {seconds} s, and loses them"

    def lose() -> None:
        others = [number for number in _live(scene.target) if number != partition.leader]
        if scene.is_healed or partition.is_gone:
            return
        partition.refuses, partition.is_stuck = (), False
        if others:
            scene.target.move_leader(partition, others[0], cut=_replicated(scene, partition))
        else:
            scene.target.replicate(partition)

    scene.world.after(seconds, lose)
    return told


def _of_data_or_ledger(scene: "Scene", random: Random) -> Partition | None:
    """A partition that is written to."""
    ledger = scene.ledger
    name = random.choice((scene.remote, random.choice((ledger.offsets, ledger.positions, ledger.gaps))))
    topic = scene.target.topics.get(name)
    return None if topic is None else _focus(scene, random, _written(topic))


def _withhold(scene: "Scene", random: Random) -> str:
    partitions = scene.sources()
    if not partitions:
        return ""
    partition, seconds = _focus(scene, random, partitions), random.choice((0.3, 2.0, 6.0))
    partition.withholds = random.choice((29, 56, 5, -1))
    scene.world.after(seconds, lambda: setattr(partition, "withholds", 0))
    scene.source.poke()
    return f"reads of {partition.where} are refused with error {partition.withholds} for {seconds} s"


def _limit(scene: "Scene", random: Random) -> str:
    """`max.message.bytes` of the remote topic is made so small that a batch has room for one record or two."""
    topic = scene.target.topics.get(scene.remote)
    if topic is None:
        return ""
    before, seconds = topic.bytes_max, random.choice((1.0, 6.0))
    topic.bytes_max = random.choice((110, 160))
    scene.world.after(seconds, lambda: setattr(topic, "bytes_max", max(before, topic.bytes_max)))
    return f"{topic.name} takes batches of at most {topic.bytes_max} bytes for {seconds} s"


# Processes.


def _pick(scene: "Scene", random: Random, kinds: tuple[str, ...]) -> Process | None:
    found = [process for process in scene.mirror.processes if process.name.endswith(kinds)]
    return random.choice(found) if found else None


def _kill_task(scene: "Scene", random: Random) -> str:
    process = _pick(scene, random, ("reader", "writer"))
    if process is None:
        return ""
    process.kill()
    return f"{process.name} is killed"


def _freeze_process(scene: "Scene", random: Random) -> str:
    return _freeze(scene, random, ("reader", "writer", "driver"), (0.5, 4.0, 15.0))


def _freeze(scene: "Scene", random: Random, roles: tuple[str, ...], seconds_of: tuple[float, ...]) -> str:
    process = _pick(scene, random, roles)
    if process is None:
        return ""
    seconds = random.choice(seconds_of)
    process.freeze(seconds)
    return f"{process.name} stands still for {seconds} s"


def _slow_process(scene: "Scene", random: Random) -> str:
    """It has too little of its machine, or collects garbage for long, again and again; others go on meanwhile."""
    process = _pick(scene, random, ("reader", "writer", "driver"))
    if process is None:
        return ""
    lag, seconds = random.choice((0.003, 0.03, 0.3)), random.choice((1.0, 4.0, 8.0))
    process.slow(seconds, lag)
    return f"{process.name} is slow for {seconds} s, each step up to {lag} s late"


def _hold_transaction(scene: "Scene", random: Random) -> str:
    """Who writes positions next stands still before it commits: what others commit meanwhile lies behind its own."""
    if not scene.script.exactly_once:
        return ""
    seconds = random.choice((0.5, 4.0, 12.0))

    def freeze() -> None:
        if scene.target.asking is not None and not scene.is_healed:
            scene.world.tell(f"{scene.target.asking.name} stands still in its transaction for {seconds} s")
            scene.target.asking.freeze(seconds)

    scene.target.when(scene.ledger.positions, freeze)
    return "who writes positions next stands still before it commits"


def _late_rows(scene: "Scene", random: Random) -> str:
    attempts = list(scene.mirror.attempts.values())
    if not attempts:
        return ""
    attempt, seconds = random.choice(attempts), random.choice((0.3, 3.0))
    attempt.channel.slow_until = scene.world.now + seconds
    return f"rows of {attempt.reader.name} are held up for {seconds} s"


def _kill_mirror(scene: "Scene", random: Random) -> str:
    mirror = scene.mirror
    mirror.kill()
    scene.world.after(0.1 + 2.0 * random.random(), scene.start_missing)
    return f"{mirror.name} is killed and started again"


def _take_over(scene: "Scene", random: Random) -> str:
    """All of the mirror sleeps; another one starts, and then the first wakes up, as a zombie."""
    seconds = random.choice((0.5, 3.0, 8.0))
    mirror = scene.mirror
    name = mirror.name
    for process in mirror.processes:
        process.freeze(seconds + 0.3 * random.random())
    scene.world.after(0.3 * random.random(), scene.start_mirror)
    return f"{name} stands still for {seconds} s, and another one starts"


def _take_over_until(scene: "Scene", random: Random) -> str:
    """As above, and the first wakes up the moment after the next one has done something, or asked."""
    mirror, event = scene.mirror, random.choice((*EVENTS, *REQUEST_EVENTS, *(_events_of(scene) * 4)))
    sleepers, moment = mirror.processes, _MOMENT_SECONDS * random.random() ** 2
    for process in sleepers:
        process.freeze(_SLEEP_SECONDS_MAX)
    begins = 0.3 * random.random()

    def wake() -> None:
        for process in sleepers:
            process.thaw()

    def listen() -> None:
        cluster, what = scene.event(event)
        cluster.when(what, lambda: scene.world.after(moment, wake))

    scene.world.after(begins, scene.start_mirror)
    scene.world.after(begins + random.random(), listen)
    return f"{mirror.name} stands still until the next {event} of another one, which starts"


def _events_of(scene: "Scene") -> tuple[str, ...]:
    """Those of what this flow does beside its data."""
    script = scene.script
    return (
        *JOB_EVENTS * script.jobs, *ACL_EVENTS * bool(script.acls), *SETTINGS_EVENTS * bool(script.settings),
        *GROUP_EVENTS * (script.processes > 1), *KEPT_EVENTS * (script.kept is not None),
    )  # fmt: skip


def _take_over_awake(scene: "Scene", random: Random) -> str:
    scene.start_mirror()
    return f"{scene.mirror.name} starts while the one before still runs"


def _other_program(scene: "Scene", random: Random) -> str:
    """The mirror is stopped, MirrorMaker 2 mirrors for a while, and the mirror starts again."""
    for mirror in scene.mirrors:
        mirror.kill()
    for name in scene.target.coordinator.known:  # it fences their holders
        scene.target.coordinator.initialize(name, 60_000, -1, -1)
    scene.world.after(0.1 + 2.0 * random.random(), scene.start_missing)
    moved = [told for partition in scene.sources() if (told := scene.mirror_elsewhere(partition))]
    return f"all mirrors are killed; MirrorMaker 2 mirrors {' and '.join(moved) or 'nothing'}, and another one starts"


def _other_policy(scene: "Scene", random: Random) -> str:
    """Stopped, and started with another `on.data.loss`."""
    if scene.script.processes > 1:
        return ""
    return _restart_with(scene, random, PAUSE if scene.policy == CONTINUE else CONTINUE)


def _restart_with(scene: "Scene", random: Random, policy: str) -> str:
    for mirror in scene.mirrors:
        mirror.kill()
    scene.set_policy(policy)
    scene.world.after(0.1 + random.random(), scene.start_missing)
    return f"all mirrors are killed, and another one starts with on.data.loss = {policy}"


def _lose_by_policy(scene: "Scene", random: Random) -> str:
    """Stopped, and started with an `on.data.loss` that does not go on; then records are lost, on either side."""
    told = _restart_with(scene, random, random.choice((FAIL, FAIL, PAUSE)))
    lost_after = 4.0 * random.random()
    lose = random.choice((_delete_records, _unclean_source, _recreate_source, _unclean_target, _delete_target))

    def strike_later() -> None:
        if not scene.is_healed:
            scene.world.tell(f"at this moment {lose(scene, random)}")

    scene.world.after(lost_after, strike_later)
    return told


def _step_clock(scene: "Scene", random: Random) -> str:
    seconds = random.choice((-3600.0, -5.0, 5.0, 3600.0))
    scene.world.step_wall(seconds)
    return f"the wall clock goes {seconds:+.0f} s"


# Of the driver's jobs.


def _visit(scene: "Scene", random: Random) -> str:
    return scene.readers.visit_target(random) if scene.readers is not None else ""


def _commit_aside(scene: "Scene", random: Random) -> str:
    return scene.readers.commit_on_target(random) if scene.readers is not None else ""


def _grow_source(scene: "Scene", random: Random) -> str:
    partitions = len(scene.sources())
    if not 0 < partitions < _PARTITIONS_MAX:
        return ""
    scene.source.grow_topic("orders", partitions + random.choice((1, 1, 2)))
    topic_id = scene.source.topics["orders"].topic_id
    for partition in scene.sources():
        scene.causes.note(partition, "grown")
        if partition.where.partition >= partitions:
            scene.truth.of(partition.where).begin_log(topic_id)
    return f"the source's topic has {len(scene.sources())} partitions now"


def _move_groups(scene: "Scene", random: Random) -> str:
    """Another broker coordinates the groups of one side, and reads its log before it answers."""
    cluster = _either(scene, random)
    cluster.coordinator_node = random.choice(_live(cluster) or [0])
    return f"broker {cluster.alias}-{cluster.coordinator_node} coordinates groups"


def _hold_commits(scene: "Scene", random: Random) -> str:
    """The log of commits has too few replicas, and no member is there whose commits would show it."""
    cluster = scene.target if random.random() < _COMMITS_ON_TARGET_SHARE else scene.source
    seconds = random.choice((1.0, 4.0, 10.0))
    cluster.groups.commits_wait_until = scene.world.now + seconds
    return f"{cluster.alias} takes no commits of those that are no members for {seconds} s"


def _freeze_driver(scene: "Scene", random: Random) -> str:
    return _freeze(scene, random, ("driver",), (0.02, 0.2, 2.0))


def _put_out(scene: "Scene", random: Random) -> str:
    """A process that shares a flow sleeps for as long as its group waits for it, or longer."""
    return _freeze(scene, random, ("driver",), (9.0, 11.0, 15.0))


def _visit_frozen(scene: "Scene", random: Random) -> str:
    """The driver has read what the group committed on the target, and stands still; the group goes on by itself."""

    def freeze() -> None:
        if not scene.is_healed:
            scene.world.tell(_freeze_driver(scene, random))
            scene.world.after(0.01 * random.random(), lambda: scene.world.tell(_commit_aside(scene, random)))

    scene.target.when("OffsetFetch", freeze)
    return "the driver will stand still once it has read what the group committed"


def _fail_over(scene: "Scene", random: Random) -> str:
    return scene.person.act(random) if scene.person is not None else ""


def _fail_over_fenced(scene: "Scene", random: Random) -> str:
    """Nobody may write to the source while it drains; later another person lifts the fence."""
    if scene.person is None:
        return ""
    scene.person.fences = True
    scene.world.after(5.0 + 10.0 * random.random(), scene.person.lift)
    return scene.person.act(random)


def _fail_back(scene: "Scene", random: Random) -> str:
    return scene.person.act(random, goes_back=True) if scene.person is not None else ""


def _set_on_source(scene: "Scene", random: Random) -> str:
    return scene.settings.change(scene.source, random) if scene.settings is not None else ""


def _set_on_target(scene: "Scene", random: Random) -> str:
    return scene.settings.change(scene.target, random) if scene.settings is not None else ""


def _refuse_settings(scene: "Scene", random: Random) -> str:
    seconds = random.choice((1.0, 6.0, 12.0))
    scene.target.settings.refuses_until = scene.world.now + seconds
    return f"no settings of the target's topics can be altered for {seconds} s"


def _forbid_setting(scene: "Scene", random: Random) -> str:
    return scene.settings.forbid(random) if scene.settings is not None else ""


def _acl_on_source(scene: "Scene", random: Random) -> str:
    return scene.acls.change(scene.source, random) if scene.acls is not None else ""


def _acl_on_target(scene: "Scene", random: Random) -> str:
    return scene.acls.change(scene.target, random) if scene.acls is not None else ""


def _refuse_acls(scene: "Scene", random: Random) -> str:
    return scene.acls.refuse(random) if scene.acls is not None else ""


def _late_acls(scene: "Scene", random: Random) -> str:
    return scene.acls.delay(random) if scene.acls is not None else ""


def _private_topic(scene: "Scene", random: Random) -> str:
    return scene.acls.add_private() if scene.acls is not None else ""


def _delete_heartbeats(scene: "Scene", _: Random) -> str:
    return scene.heartbeats.delete() if scene.heartbeats is not None else ""


def _hold_heartbeats(scene: "Scene", random: Random) -> str:
    return scene.heartbeats.hold(random) if scene.heartbeats is not None else ""


def _deafen(scene: "Scene", random: Random) -> str:
    """What a reader has open to the target is where it hears commands."""
    sockets = _ears(scene)
    if not sockets:
        return ""
    sock = random.choice(sockets)
    sock.is_silent = True
    return f"{sock.process.name} hears no commands"


def _deafen_all(scene: "Scene", _: Random) -> str:
    sockets = _ears(scene)
    for sock in sockets:
        sock.is_silent = True
    return f"{len(sockets)} readers hear no commands" if sockets else ""


def _ears(scene: "Scene") -> list[SimSocket]:
    return [one for one in scene.net.sockets if one.cluster is scene.target and one.process.name.endswith("reader")]


FaultKind = tuple[int, Callable[["Scene", Random], str]]
FAULTS: dict[str, FaultKind] = {
    "cut": (6, _cut),
    "silence": (3, _silence),
    "slow": (3, _slow),
    "lossy": (1, _lossy),
    "stop in answer": (3, _stop_in_answer),
    "freeze broker": (3, _freeze_broker),
    "wake stale": (2, _wake_stale),
    "isolate leader": (4, _isolate_leader),
    "bounce broker": (5, _bounce_broker),
    "move leader": (5, _move_leader),
    "stick": (5, _stick),
    "coordinator": (2, _coordinator),
    "late markers": (3, _late_markers),
    "unclean source": (4, _unclean_source),
    "unclean target": (2, _unclean_target),
    "delete records": (5, _delete_records),
    "recreate source": (5, _recreate_source),
    "delete target": (2, _delete_target),
    "compact source": (2, _compact_source),
    "compact unread": (2, _compact_unread),
    "compact ledger": (2, _compact_ledger),
    "hollow": (2, _hollow),
    "refuse data": (6, _refuse_data),
    "refuse ledger": (6, _refuse_ledger),
    "refuse in order": (3, _refuse_in_order),
    "refuse moved": (3, _refuse_moved),
    "withhold": (3, _withhold),
    "limit": (3, _limit),
    "other policy": (3, _other_policy),
    "kill task": (8, _kill_task),
    "freeze process": (7, _freeze_process),
    "slow process": (5, _slow_process),
    "late rows": (4, _late_rows),
    "kill mirror": (6, _kill_mirror),
    "take over": (6, _take_over),
    "take over until": (4, _take_over_until),
    "take over awake": (2, _take_over_awake),
    "other program": (3, _other_program),
    "step clock": (2, _step_clock),
    **ORDERS,
    "deafen": (4, _deafen),
    "deafen all": (2, _deafen_all),
    "hold transaction": (3, _hold_transaction),
}
"""How often each comes, and what it does."""
JOB_FAULTS: dict[str, FaultKind] = {
    "visit": (7, _visit),
    "commit aside": (5, _commit_aside),
    "grow source": (3, _grow_source),
    "move groups": (3, _move_groups),
    "hold commits": (3, _hold_commits),
    "freeze driver": (4, _freeze_driver),
    "commit while frozen": (5, _visit_frozen),
    "fail over": (6, _fail_over),
    "fail over fenced": (3, _fail_over_fenced),
    "fail back": (5, _fail_back),
}
"""Of histories in which the driver's jobs run."""
GROUP_FAULTS: dict[str, FaultKind] = {"put out": (6, _put_out)}
"""Of processes that share a flow."""
SETTINGS_FAULTS: dict[str, FaultKind] = {
    "set on source": (9, _set_on_source),
    "set on target": (7, _set_on_target),
    "refuse settings": (3, _refuse_settings),
    "forbid setting": (4, _forbid_setting),
}
"""Of histories in which remote topics follow the source's settings."""
ACL_FAULTS: dict[str, FaultKind] = {
    "ACL on source": (12, _acl_on_source),
    "ACL on target": (5, _acl_on_target),
    "refuse ACLs": (3, _refuse_acls),
    "late ACLs": (3, _late_acls),
    "private topic": (1, _private_topic),
}
"""Of histories in which who may read a topic may read its remote topic."""
HEARTBEAT_FAULTS: dict[str, FaultKind] = {
    "delete heartbeats": (2, _delete_heartbeats),
    "hold heartbeats": (2, _hold_heartbeats),
}
"""Of histories in which the leading process sends heartbeats."""
LATER_FAULTS: dict[str, FaultKind] = {
    "lose doubtful": (1, _lose_doubtful),
    "refuse turned": (1, _refuse_turned),
    "cut unmapped": (1, _cut_unmapped),
    "lose by policy": (1, _lose_by_policy),
    "cut ledger": (1, _cut_ledger),
}
"""These were added later; they come beside others, which stay as they were drawn."""
EVERY_FAULT = (
    FAULTS | JOB_FAULTS | GROUP_FAULTS | SETTINGS_FAULTS | ACL_FAULTS | HEARTBEAT_FAULTS | KEPT_FAULTS | LEFT_OUT_FAULTS
    | ANNOUNCED_FAULTS | DRIVER_FAULTS | LATER_ORDERS | LATER_FAULTS | ROWS_FAULTS | REST_FAULTS
)  # fmt: skip
