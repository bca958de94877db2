"""One history: a source that is written to, a mirror, and what happens to them, all by one seed."""

from dataclasses import dataclass, field, replace
from itertools import combinations
from random import Random

from tests.simulation import retained
from tests.simulation.acls_judge import AclJudge
from tests.simulation.checker import Checker
from tests.simulation.cluster import COMPACTED, Cluster, Partition
from tests.simulation.consumers import Readers
from tests.simulation.environment import simulated
from tests.simulation.failing_over import Person
from tests.simulation.faults import SOURCE_EVENTS, strike
from tests.simulation.heartbeats import HeartbeatJudge
from tests.simulation.kept import OLD_SECONDS, double_markers, lose_ledger, rebuild, watch_expiry
from tests.simulation.kept_judge import Causes, KeptChecker
from tests.simulation.mirror import Mirror
from tests.simulation.network import Network
from tests.simulation.orders import lift_orders
from tests.simulation.repeats import Repeats, Standing
from tests.simulation.scheduler import EVENTS_MAX, Process, World
from tests.simulation.scripts import Script
from tests.simulation.settings import ALTER_CONFIGS, BYTES_MAX
from tests.simulation.settings_judge import PROTECTED, SettingsJudge
from tests.simulation.sharing import SharedMirror
from tests.simulation.source_producers import SourceProducers
from tests.simulation.target_losses import TargetLosses
from tests.simulation.truth import CUT, Truth
from tests.simulation.way_home import WayHome
from tests.simulation.wire import KAFKA_3_9, KAFKA_4_3, Known

from sparkmirror.batch.records import encode_batch
from sparkmirror.config.flow.flows import FlowConfig, MirrorConfig, parse_config
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.ledger import connect
from sparkmirror.ledger.setup import mirror_topics
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import TopicPartition
from sparkmirror.policy.partitioner import murmur2_partition

TOPIC = "orders"
_HEAL_SECONDS_MAX = 240.0
_LOOK_SECONDS, _PAIR_SECONDS = 1.5, 2.0
_GROUPS_SECONDS_MAX, _LOOKS_SECONDS = 45.0, 32.0
"""The jobs look at all checkpoints every 30 s, which matters where a log of the target was lost."""
_ACT_SECONDS = 5.0
"""In which who has slept does what it was about to do."""
_SETTLED_SECONDS_MAX = 45.0
"""In which the jobs of settings and ACLs have looked twice, once all is well."""


@dataclass(slots=True)
class Result:
    """`problems` is empty where all that is promised held. `pairs` are faults within two seconds, in order."""

    script: Script
    problems: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    events: int = 0
    simulated_seconds: float = 0.0
    records: int = 0
    pairs: set[tuple[str, str]] = field(default_factory=set)


class Scene:
    """The actors of one history, which the faults act on."""

    def __init__(self, script: Script, world: World) -> None:
        self.script = script
        self.world = world
        self.truth = Truth()
        self.source = Cluster(world, "A", 2, _brokers(script, is_old=script.is_old_source))
        self.target = Cluster(world, "B", 2, _brokers(script, is_old=script.is_old_target))
        self.net = Network(world, [self.source, self.target])
        self.policy = "continue"
        self.flow = _flow(script, self.policy)
        self.ledger = ledger_topics("A", self.flow.offset_storage_topic)
        self.mirrors: list[Mirror] = []
        self.is_healed = self.is_ended = False
        self.limited: set[str] = set()
        """Runs of which a person has limited the rate."""
        self.healed_at = self.thaws_at = 0.0
        """When all is well again, and when the last that a broker let wait has been answered."""
        self.struck: list[tuple[float, str]] = []
        """Faults, in the order in which they came."""
        self.focus = script.focus
        self.remote = self.flow.remote_topic(TOPIC)
        self.checkpoints = mirror_topics(self.flow.name, self.flow.policy, "source").checkpoints
        self.causes = Causes(self)
        self.checker = Checker(self) if script.kept is None else KeptChecker(self)
        self.losses = TargetLosses(self)
        self.repeats = None if script.exactly_once or script.kept is not None else Repeats(self)
        self.age_seconds = OLD_SECONDS if script.kept is not None and script.kept.forgets else 0.0
        """Of the source's records, when they are written."""
        self.producers = SourceProducers(self)
        self.readers = Readers(self) if script.jobs else None
        self.person = Person(self) if script.jobs else None
        self.settings = SettingsJudge(self, script.settings) if script.settings else None
        self.acls = AclJudge(self, revokes=script.acls == "revoke") if script.acls else None
        self.heartbeats = HeartbeatJudge(self) if script.heartbeats else None
        if script.kept is not None:
            self.target.appends.append(self.causes.hear)
            self.target.sequences, self.target.leaders_run_ahead = script.kept.sequences, True
        self.create_source()
        for partition in self.sources():
            partition.log.begin_at(0 if script.kept is None else script.kept.begins)
        self.target.leaves_markers_out = script.leaves_markers_out
        self.target.leaves_ledger_open = script.leaves_ledger_open
        self.source.acls.is_on, self.source.rotates = True, bool(script.fetch_bytes)
        if not script.jobs:
            self.target.create_topic(self.remote, script.partitions)
        for name in self.ledger:
            self.target.create_topic(name, 3 if name == self.ledger.offsets else 1, COMPACTED)

    @property
    def mirror(self) -> Mirror:
        """The last one; of several that share the flow, any that lives."""
        living = [one for one in self.mirrors if not one.is_over]
        if self.script.processes == 1 or not living:
            return self.mirrors[-1]
        return self.world.random.choice(living)

    def start_mirror(self) -> None:
        kind = Mirror if self.script.processes == 1 else SharedMirror
        name = f"mirror {len(self.mirrors) + 1}"
        beats = _config(self.script, self.policy).heartbeats if self.script.heartbeats else ()
        own = [one for one in beats if one.flow == self.flow.name]
        mirror = kind(self.world, self.net, self.flow, name, has_jobs=self.script.jobs, heartbeats=own)
        mirror.look_at_ledger = self._look_at_ledger
        self.mirrors.append(mirror)

    def _look_at_ledger(self) -> Standing | None:
        self.losses.note_begin()
        return None if self.repeats is None else self.repeats.standing()

    def set_policy(self, policy: str) -> None:
        """`on.data.loss` of mirrors that are started from here on."""
        self.policy, self.flow = policy, _flow(self.script, policy)

    def has_struck(self, *kinds: str) -> bool:
        """Whether a fault of one of these kinds has struck by now."""
        return any(kind in kinds for _, kind in self.struck)

    def is_replaced(self, process: Process) -> bool:
        """Whether the process is not of the mirror that was started last."""
        return not process.name.startswith(f"{self.mirrors[-1].name} ")

    def end_mirrors(self) -> None:
        """For good: nobody starts one again, and what is looked at now and then is looked at no more."""
        self.is_ended = True
        for mirror in self.mirrors:
            mirror.kill()
        if self.person is not None:
            self.person.end()

    def start_missing(self) -> None:
        if self.is_ended:
            return
        for _ in range(self.script.processes - sum(not mirror.is_over for mirror in self.mirrors)):
            self.start_mirror()

    def sources(self) -> list[Partition]:
        return self.source.topics[TOPIC].partitions if TOPIC in self.source.topics else []

    def create_source(self) -> None:
        """The source's topic is made, or made again."""
        topic = self.source.create_topic(TOPIC, self.script.partitions)
        for partition in topic.partitions:
            self.truth.of(partition.where).begin_log(topic.topic_id)

    def event(self, name: str) -> tuple[Cluster, str]:
        """Where an event of that name happens, and what it is called there."""
        topics = {"data": self.remote} | {one: getattr(self.ledger, one) for one in ("positions", "offsets", "gaps")}
        topics["burst"] = f"burst of {self.remote}"
        what, _, side = name.partition(" of ")
        at_source = side == "source" or name in SOURCE_EVENTS
        return (self.source if at_source else self.target), topics.get(what, what)

    def mirror_elsewhere(self, partition: Partition) -> str:
        """MirrorMaker 2 mirrors all of a partition that is behind the position in the ledger, and stores its own."""
        where, log = partition.where, partition.log
        position = self.checker.view().position(where)
        remote = self.target.partition(TopicPartition(self.remote, where.partition))
        topic_id = self.source.topics[where.topic].topic_id
        if position is None or position.topic_id != topic_id or remote is None:
            return ""
        if CUT in self.truth.of(where).source_losses:
            return ""
        end = self.readable_end(partition)
        if not log.start <= position.offset < end:
            return ""
        key, value = connect.encode_key(self.flow.connector, where), connect.encode_value(end)
        homes = self.target.topics[self.ledger.offsets].partitions
        stored = homes[murmur2_partition(key, len(homes))]
        if any(one.leader is None or one.is_stuck for one in (remote, stored)):
            return ""
        records = [one for one in log.visible(committed=self.script.read_committed) if one.offset >= position.offset]
        for one in records:
            remote.log.append(bytes(encode_batch([(one.key, one.value)])))
        stored.log.append(bytes(encode_batch([(key, value)])))
        self.target.replicate(remote)
        self.target.replicate(stored)
        truth = self.truth.of(where)
        truth.is_unmapped |= bool(truth.target_losses)
        return f"{len(records)} records of {where} up to {end}"

    def note_written_behind_fence(self, where: TopicPartition) -> None:
        if self.person is not None and self.person.fenced:
            self.checker.fail(f"{where} is written to, and {self.person.fenced} said that nobody may")

    def readable_end(self, partition: Partition) -> int:
        """Where the mirror can read to on the source."""
        return partition.log.last_stable if self.script.read_committed else partition.log.high_watermark

    def keep_remote_topic(self) -> None:
        """Stands for the topic job where no jobs run: the remote topic exists."""
        if self.remote not in self.target.topics and any(not mirror.is_over for mirror in self.mirrors):
            self.target.create_topic(self.remote, self.script.partitions)
        self.world.after(1.0, self.keep_remote_topic)

    def unsettled(self) -> list[str]:
        """What the jobs of settings and ACLs have not done yet, whether heartbeats come again, and what is under way
        though all is done."""
        judges = [one for one in (self.settings, self.acls, self.heartbeats) if one is not None]
        return [problem for one in judges for problem in one.problems()] + list(retained.problems(self))

    def is_asleep(self) -> bool:
        """Whether a process stands still, or what a broker let wait is not answered yet: either may still act."""
        living = (one for mirror in self.mirrors for one in mirror.processes)
        return self.world.now < self.thaws_at or any(one.is_held for one in living)

    def keep_mirror(self) -> None:
        """Who runs a mirror starts it again when it has ended: systemd, Kubernetes or a person."""
        self.start_missing()
        self.world.after(5.0, self.keep_mirror)

    def abort_late(self) -> None:
        for cluster in (self.source, self.target):
            cluster.coordinator.abort_late()
        self.world.after(1.0, self.abort_late)

    def look(self) -> None:
        if self.is_ended:
            return
        self.checker.look()
        self.world.after(_LOOK_SECONDS * (0.5 + self.world.random.random()), self.look)

    def heal(self) -> None:
        """All that was broken works again; whether the mirror gets over it is what is looked at now."""
        self.is_healed, self.healed_at = True, self.world.now
        self.world.tell("all heals")
        self.net.loss = 0.0
        self.net.slow.clear()
        self.net.stops.clear()
        for process in (one for mirror in self.mirrors for one in mirror.processes):
            process.slow_until = 0.0
        for cluster in (self.source, self.target):
            cluster.markers_wait_until = cluster.written_late_until = cluster.settings.refuses_until = 0.0
            cluster.acls.refuses_until = cluster.groups.commits_wait_until = cluster.acls.late_until = 0.0
            cluster.quota_until = 0.0
            for node in cluster.nodes.values():
                self.thaws_at = max(self.thaws_at, node.frozen_until)
                node.is_up, node.frozen_until, node.knows_until = True, 0.0, 0.0
            cluster.elect_coordinator()
            cluster.elect()
            for topic in cluster.topics.values():
                topic.bytes_max = BYTES_MAX
                for partition in topic.partitions:
                    partition.refuses, partition.is_stuck, partition.is_hollow = (), False, False
                    partition.withholds, partition.then_refuses = 0, ()
                    cluster.replicate(partition)
        if self.person is not None:
            self.person.lift()
        if TOPIC not in self.source.topics:
            self.create_source()
        if self.script.leaves_markers_out or self.has_struck("cut ledger"):
            for source in self.sources():
                self.producers.write_batch(source)
        self.producers.heal()
        if self.policy != "continue":  # what is held goes on in a run that may
            self.set_policy("continue")
            for mirror in self.mirrors:
                mirror.kill()
        self.start_missing()
        self.world.after(1.0, lambda: lift_orders(self))  # an order that was lost, its person gives again


def _brokers(script: Script, *, is_old: bool) -> Known:
    """They tell of IncrementalAlterConfigs only where it is needed: kept histories have drawn their numbers without."""
    known = KAFKA_3_9 if is_old else KAFKA_4_3
    return replace(known, versions=known.versions | {ALTER_CONFIGS: (0, 1)}) if script.settings else known


def _flow(script: Script, policy: str) -> FlowConfig:
    (flow,) = _config(script, policy).flows
    return flow


def _await_caught_up(scene: Scene) -> bool:
    """And until all have woken up and have had time to act, and for a moment more. Where a person rebuilds what is
    FAILED meanwhile, until it is caught up again."""
    world, kept = scene.world, scene.script.kept
    ends_at = world.now + _HEAL_SECONDS_MAX
    is_done = world.run(ends_at, scene.checker.is_caught_up)
    if scene.is_asleep():
        world.run(world.now + _HEAL_SECONDS_MAX, lambda: not scene.is_asleep())
        world.run(world.now + _ACT_SECONDS)
        world.run(world.now + _SETTLED_SECONDS_MAX, scene.checker.is_caught_up)
    world.run(world.now + 3.0)
    if is_done and kept is not None and kept.rebuilds and not scene.checker.is_caught_up():
        is_done = world.run(ends_at, scene.checker.is_caught_up)
        world.run(world.now + 3.0)
    return is_done


def _await_settled(scene: Scene) -> None:
    """Until groups stand where they go on, and the jobs have done their work, both at one moment: groups move on."""
    world, readers = scene.world, scene.readers

    def is_followed() -> bool:
        return readers is None or not readers.problems()

    world.run(world.now + _GROUPS_SECONDS_MAX, is_followed)
    if readers is not None and any(one.target_losses for one in scene.truth.partitions.values()):
        world.run(world.now + _LOOKS_SECONDS)
    world.run(world.now + _SETTLED_SECONDS_MAX, lambda: not scene.unsettled() and is_followed())


def _config(script: Script, policy: str) -> MirrorConfig:
    lines = [
        "clusters = A, B",
        "A.bootstrap.servers = A-0:9092, A-1:9092",
        "B.bootstrap.servers = B-0:9092, B-1:9092",
        "A->B.enabled = true",
        f"A->B.topics = {TOPIC}",
        f"tasks.max = {max(script.tasks, script.processes)}",
        f"tasks.min = {1 if script.resizes else max(script.tasks, script.processes)}",
        f"A->B.epoch.seconds = {script.epoch_seconds}",
        "A->B.balance.interval.seconds = 2",
        f"A->B.on.data.loss = {policy}",
        "A->B.lease.ring.bytes = 1048576",
        "A->B.offset.flush.interval.ms = 1000",
        f"B.exactly.once.source.support = {'enabled' if script.exactly_once else 'disabled'}",
    ]
    if script.read_committed:
        lines.append("A.consumer.isolation.level = read_committed")
    if script.fetch_bytes:
        lines.append(f"A.consumer.max.partition.fetch.bytes = {script.fetch_bytes}")
    if script.kept is not None:
        lines += ["A->B.preserve.offsets.enabled = true", f"A->B.preserve.offsets.filler = {script.kept.filler}"]
    if script.kept is not None and script.kept.adopts_at:
        lines.append(f"A->B.preserve.offsets.adopt = {TOPIC}")
    if script.names_stay:
        lines.append("replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy")
    if script.jobs:
        lines += [
            "sync.group.offsets.enabled = true",
            f"sync.topic.configs.enabled = {'true' if script.settings else 'false'}",
            f"sync.topic.acls.enabled = {'true' if script.acls else 'false'}",
            f"sync.topic.acls.revoke = {'true' if script.acls == 'revoke' else 'false'}",
        ]
    if script.settings:
        lines += [f"A->B.use.defaults.from = {script.settings}", f"sync.topic.configs.protect = {PROTECTED}"]
    return parse_config(parse_properties("\n".join([*lines, ""]).encode(), "mm2"))


def run(script: Script, *, is_told: bool = False) -> Result:
    """Plays a history and judges it."""
    world = World(script.world_seed)
    world.is_told = is_told
    scene = Scene(script, world)
    result = Result(script)
    begin = world.now
    with simulated(world, scene.net, script.kept):
        try:
            scene.start_missing()
            world.after(0.1, scene.producers.write)
            if scene.readers is None:
                world.after(1.0, scene.keep_remote_topic)
            else:
                world.after(0.5, scene.readers.read_source)
            world.after(1.0, scene.abort_late)
            world.after(5.0, scene.keep_mirror)
            if script.kept is not None and script.kept.adopts_at:
                world.after(script.kept.adopts_at, lambda: lose_ledger(scene))
            if script.doubles_markers:
                double_markers(scene, Random(f"double markers of {script.world_seed}"), script.seconds)
            if script.kept is not None and script.kept.forgets:
                world.after(1.0, lambda: watch_expiry(scene))
            world.after(2.0, scene.look)
            if scene.heartbeats is not None:
                scene.heartbeats.look()
            for judge in (scene.settings, scene.acls):
                if judge is not None:
                    judge.begin(Random(f"persons of {script.world_seed}"))
            for fault in script.faults:
                world.at(begin + fault.at, lambda fault=fault: strike(scene, fault))
            world.run(begin + script.seconds)
            scene.heal()
            if script.kept is not None and script.kept.rebuilds:
                world.after(5.0, lambda: rebuild(scene))
            is_done = _await_caught_up(scene)
            if is_done:
                _await_settled(scene)
            scene.checker.judge(is_done=is_done)
            if script.kept is not None and script.names_stay and is_done and not scene.checker.problems:
                WayHome(scene).play()
            if world.events >= EVENTS_MAX:
                scene.checker.problems.append(f"the mirror goes round in circles: {world.events} events")
        finally:
            for mirror in scene.mirrors:
                mirror.kill()
            if scene.person is not None:
                scene.person.end()
    result.problems = (
        scene.checker.problems + world.wrongs + [f"an error that is no error of its own: {bug!r}" for bug in world.bugs]
    )
    result.story = world.log
    result.pairs = {
        (before, after) for (at, before), (then, after) in combinations(scene.struck, 2) if then - at <= _PAIR_SECONDS
    }
    result.events = world.events
    result.simulated_seconds = world.now - begin
    result.records = sum(len(one.records) for one in scene.truth.partitions.values())
    return result
