"""One history: a source that is written to, a mirror, and what happens to them, all by one seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from random import Random

import msgspec
from tests.simulation.acls_judge import AclJudge
from tests.simulation.checker import Checker
from tests.simulation.cluster import COMPACTED, Cluster, Partition
from tests.simulation.consumers import Readers
from tests.simulation.environment import simulated
from tests.simulation.failing_over import Person
from tests.simulation.faults import (
    ACL_EVENTS,
    ACL_FAULTS,
    EVENTS,
    FAULTS,
    FREQUENT_EVENTS,
    GROUP_EVENTS,
    GROUP_FAULTS,
    HEARTBEAT_FAULTS,
    JOB_EVENTS,
    JOB_FAULTS,
    SETTINGS_EVENTS,
    SETTINGS_FAULTS,
    SOURCE_EVENTS,
    Fault,
    FaultKind,
    order_resume,
    strike,
)
from tests.simulation.heartbeats import HeartbeatJudge
from tests.simulation.kept import (
    KEPT_EVENTS,
    KEPT_FAULTS,
    LEFT_OUT,
    OLD_SECONDS,
    SELDOM,
    Kept,
    draw_kept,
    lose_ledger,
    rebuild,
    watch_expiry,
)
from tests.simulation.kept_judge import Causes, KeptChecker
from tests.simulation.mirror import Mirror
from tests.simulation.network import Network
from tests.simulation.scheduler import EVENTS_MAX, World
from tests.simulation.settings import ALTER_CONFIGS, BYTES_MAX
from tests.simulation.settings_judge import PROTECTED, SettingsJudge
from tests.simulation.sharing import SharedMirror
from tests.simulation.source_producers import SourceProducers
from tests.simulation.truth import Truth
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
_AT_EVENT_SHARE = 0.5
_JOBS_SHARE = 0.4
_GROUPS_SECONDS_MAX, _LOOKS_SECONDS = 45.0, 32.0
"""The jobs look at all checkpoints every 30 s, which matters where a log of the target was lost."""
_NAMES_STAY_SHARE = 0.4
_ACLS_SHARE, _REVOKES_SHARE = 0.4, 0.7
_HEARTBEATS_SHARE = 0.4
_SETTINGS_SHARE, _SOURCE_DEFAULTS_SHARE = 0.4, 0.3
_SETTLED_SECONDS_MAX = 45.0
"""In which the jobs of settings and ACLs have looked twice, once all is well."""
_FLOODS_SHARE, _LARGE_SHARE, _TRANSACTIONS_SHARE, _RESIZES_SHARE = 0.2, 0.12, 0.3, 0.3
_RHYTHMS = ("steady", "calm", "bursts")
_KEPT_SHARE, _KEPT_JOBS_SHARE, _KEPT_TRANSACTIONS_SHARE, _KEPT_COMMITTED_SHARE = 0.2, 0.35, 0.6, 0.75
_LARGE_KEY_BYTES = 16_000
"""So large records fill the memory that readers lend to writers."""


@dataclass(frozen=True, slots=True)
class Script:
    """All that decides a history: its seed, what kind of flow it is, and the faults in their order.

    `rhythm` is how its source is written to; `focus` is the place that most faults strike, where they have a choice.
    More than one of `processes` share the flow as a group. With `jobs` the driver's jobs run, and a group reads.
    Records have keys of some `key_bytes` more than they need. With `has_transactions` most are written in transactions,
    and batches are compressed; `read_committed` is what the mirror reads. Where it `resizes`, epochs begin with another
    number of tasks, and end for more. With `names_stay` topics keep their names on the target. `settings` says that
    remote topics follow the source's settings, and where the defaults come from: `target` or `source`. `acls`
    says that ACLs are copied, and what becomes of those that the source has no more: `keep` or `revoke`.
    With `heartbeats` the leading process sends them. With `kept` the flow keeps offsets.
    """

    seed: int
    exactly_once: bool
    is_old_target: bool
    is_old_source: bool
    partitions: int
    tasks: int
    epoch_seconds: int
    seconds: float
    faults: tuple[Fault, ...]
    rhythm: str = "steady"
    focus: int = 0
    processes: int = 1
    jobs: bool = False
    key_bytes: int = 0
    has_transactions: bool = False
    read_committed: bool = False
    resizes: bool = False
    names_stay: bool = False
    settings: str = ""
    acls: str = ""
    heartbeats: bool = False
    kept: Kept | None = None


def read_scripts(text: str) -> list[Script]:
    """Histories kept as JSON: they stay what they are when the weights of faults change."""
    return msgspec.json.decode(text, type=list[Script])


def write_scripts(scripts: Sequence[Script]) -> str:
    return "[\n" + ",\n".join(msgspec.json.encode(script).decode() for script in scripts) + "\n]\n"


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


def plan(seed: int) -> Script:
    """What the seed says: one fault to sixteen, often close together."""
    if Random(f"kept offsets of {seed}").random() < _KEPT_SHARE:
        return _plan_kept(seed)
    random = Random(seed)
    more = Random(f"more of {seed}")
    has_jobs, processes = more.random() < _JOBS_SHARE, more.choice((1, 1, 1, 2))
    is_flooded, is_large = more.random() < _FLOODS_SHARE, more.random() < _LARGE_SHARE
    has_transactions, read_committed = more.random() < _TRANSACTIONS_SHARE, more.random() < 0.6
    resizes, names_stay = more.random() < _RESIZES_SHARE, more.random() < _NAMES_STAY_SHARE
    has_settings = more.random() < _SETTINGS_SHARE and has_jobs
    settings = "source" if more.random() < _SOURCE_DEFAULTS_SHARE else "target"
    has_acls = more.random() < _ACLS_SHARE and has_jobs
    acls = "revoke" if more.random() < _REVOKES_SHARE else "keep"
    has_heartbeats = more.random() < _HEARTBEATS_SHARE and has_jobs
    seconds = random.choice((8.0, 15.0, 25.0))
    names, events, faults_max = _swarm(
        random, FAULTS | (JOB_FAULTS if has_jobs else {}) | (GROUP_FAULTS if processes > 1 else {})
        | (SETTINGS_FAULTS if has_settings else {}) | (ACL_FAULTS if has_acls else {})
        | (HEARTBEAT_FAULTS if has_heartbeats else {}),
        (*EVENTS, *JOB_EVENTS * has_jobs, *GROUP_EVENTS * (processes > 1), *SETTINGS_EVENTS * has_settings,
         *ACL_EVENTS * has_acls),
    )  # fmt: skip
    faults = _draw_faults(random, names, events, faults_max, seconds)
    return Script(
        seed, random.random() < 0.5, random.random() < 0.4, random.random() < 0.3, random.choice((1, 2, 3)),
        random.choice((1, 1, 2)) + 2 * resizes, random.choice((4, 10, 600, 600)), seconds,
        faults,
        random.choice(_RHYTHMS if not is_flooded else ("floods",)), random.randrange(6),
        processes, has_jobs, _LARGE_KEY_BYTES * is_large, has_transactions, read_committed, resizes,
        names_stay and has_jobs, settings if has_settings else "",
        acls if has_acls else "", has_heartbeats,
    )  # fmt: skip


def _draw_faults(
    random: Random, names: Sequence[str], events: Sequence[str], faults_max: int, seconds: float
) -> tuple[Fault, ...]:
    at, faults = 0.5, []
    for _ in range(random.randint(1, faults_max)):
        at += random.choice((0.02, 0.2, 0.7, 2.0, 5.0)) * random.random()
        at_event = random.choice((" @ ", " @ ", " @ ", " after ")) + random.choice(events)
        event = at_event if random.random() < _AT_EVENT_SHARE else ""
        faults.append(Fault(round(at % seconds, 4), random.choice(names) + event, random.getrandbits(32)))
    return tuple(sorted(faults, key=lambda f: f.at))


def _plan_kept(seed: int) -> Script:
    """A flow that keeps offsets. Nothing of it is drawn from the numbers of other histories."""
    random = Random(f"a flow that keeps offsets {seed}")
    has_jobs, processes = random.random() < _KEPT_JOBS_SHARE, random.choice((1, 1, 1, 2))
    known = FAULTS | (JOB_FAULTS if has_jobs else {}) | (GROUP_FAULTS if processes > 1 else {}) | KEPT_FAULTS
    weights = {name: (1 if name in SELDOM else kind[0], kind[1]) for name, kind in known.items()}
    names, events, faults_max = _swarm(
        random, {name: kind for name, kind in weights.items() if name not in LEFT_OUT},
        (*EVENTS, *KEPT_EVENTS, *JOB_EVENTS * has_jobs, *GROUP_EVENTS * (processes > 1)),
    )  # fmt: skip
    seconds = random.choice((8.0, 15.0, 25.0))
    faults = _draw_faults(random, names, events, faults_max, seconds)
    return Script(
        seed, exactly_once=False, is_old_target=random.random() < 0.4, is_old_source=random.random() < 0.3,
        partitions=random.choice((1, 2, 3)), tasks=random.choice((1, 1, 2)), epoch_seconds=random.choice((4, 10, 600)),
        seconds=seconds, faults=faults, rhythm=random.choice((*_RHYTHMS, "floods")), focus=random.randrange(6),
        processes=processes, jobs=has_jobs, has_transactions=random.random() < _KEPT_TRANSACTIONS_SHARE,
        read_committed=random.random() < _KEPT_COMMITTED_SHARE, resizes=random.random() < _RESIZES_SHARE,
        names_stay=has_jobs and random.random() < _NAMES_STAY_SHARE, kept=draw_kept(random),
    )  # fmt: skip


def _swarm(
    random: Random, faults: Mapping[str, FaultKind], events: Sequence[str]
) -> tuple[list[str], Sequence[str], int]:
    """The faults to choose from, as often as they weigh, the events that they strike at, and how many at most.

    Two of three histories draw from a few kinds of faults and of events only, so that these meet each other more often
    (swarm testing; Groce et al., ISSTA 2012). In half of them all kinds weigh the same.
    """
    names = [name for name, (weight, _) in faults.items() for _ in range(weight)]
    if random.random() < 1 / 3:
        return names, events, 8
    kinds = list(faults) if random.random() < 1 / 2 else names
    chosen = {random.choice(kinds) for _ in range(random.randint(2, 5))}
    few = [random.choice(FREQUENT_EVENTS), *(random.choice(events) for _ in range(random.randint(0, 3)))]
    return [name for name in kinds if name in chosen], few, 16


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
        self.is_healed = False
        self.healed_at = 0.0
        self.struck: list[tuple[float, str]] = []
        """Faults, in the order in which they came."""
        self.focus = script.focus
        self.remote = self.flow.remote_topic(TOPIC)
        self.checkpoints = mirror_topics(self.flow.name, self.flow.policy, "source").checkpoints
        self.causes = Causes(self)
        self.checker = Checker(self) if script.kept is None else KeptChecker(self)
        self.age_seconds = OLD_SECONDS if script.kept is not None and script.kept.forgets else 0.0
        """Of the source's records, when they are written."""
        self.producers = SourceProducers(self)
        self.readers = Readers(self) if script.jobs else None
        self.person = Person(self) if script.jobs else None
        self.settings = SettingsJudge(self, script.settings) if script.settings else None
        self.acls = AclJudge(self, revokes=script.acls == "revoke") if script.acls else None
        self.heartbeats = HeartbeatJudge(self) if script.heartbeats else None
        if script.kept is not None:
            self.target.sequences, self.target.leaders_run_ahead = script.kept.sequences, True
        for partition in self.source.create_topic(TOPIC, script.partitions).partitions:
            partition.log.begin_at(0 if script.kept is None else script.kept.begins)
        self.source.acls.is_on = True
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
        self.mirrors.append(kind(self.world, self.net, self.flow, name, has_jobs=self.script.jobs, heartbeats=own))

    def set_policy(self, policy: str) -> str:
        """`on.data.loss` of mirrors that are started from here on."""
        self.policy, self.flow = policy, _flow(self.script, policy)
        return policy

    def start_missing(self) -> None:
        for _ in range(self.script.processes - sum(not mirror.is_over for mirror in self.mirrors)):
            self.start_mirror()

    def sources(self) -> list[Partition]:
        return self.source.topics[TOPIC].partitions if TOPIC in self.source.topics else []

    def event(self, name: str) -> tuple[Cluster, str]:
        """Where an event of that name happens, and what it is called there."""
        topics = {"data": self.remote} | {one: getattr(self.ledger, one) for one in ("positions", "offsets", "gaps")}
        topics["burst"] = f"burst of {self.remote}"
        return (self.source if name in SOURCE_EVENTS else self.target), topics.get(name, name)

    def mirror_elsewhere(self, partition: Partition) -> str:
        """MirrorMaker 2 mirrors all of a partition that is behind the position in the ledger, and stores its own."""
        where, log = partition.where, partition.log
        position = self.checker.view().position(where)
        remote = self.target.partition(TopicPartition(self.remote, where.partition))
        topic_id = self.source.topics[where.topic].topic_id
        if position is None or position.topic_id != topic_id or remote is None or self.truth.of(where).truncations:
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
        """What the jobs of settings and ACLs have not done yet, and whether heartbeats come again."""
        judges = [one for one in (self.settings, self.acls, self.heartbeats) if one is not None]
        return [problem for one in judges for problem in one.problems()]

    def keep_mirror(self) -> None:
        """Who runs a mirror starts it again when it has ended: systemd, Kubernetes or a person."""
        self.start_missing()
        self.world.after(5.0, self.keep_mirror)

    def abort_late(self) -> None:
        for cluster in (self.source, self.target):
            cluster.coordinator.abort_late()
        self.world.after(1.0, self.abort_late)

    def look(self) -> None:
        self.checker.look()
        self.world.after(_LOOK_SECONDS * (0.5 + self.world.random.random()), self.look)

    def heal(self) -> None:
        """All that was broken works again; whether the mirror gets over it is what is looked at now."""
        self.is_healed, self.healed_at = True, self.world.now
        self.world.tell("all heals")
        self.net.loss = 0.0
        self.net.slow.clear()
        for cluster in (self.source, self.target):
            cluster.markers_wait_until = cluster.settings.refuses_until = cluster.acls.refuses_until = 0.0
            for node in cluster.nodes.values():
                node.is_up, node.frozen_until = True, 0.0
            cluster.elect_coordinator()
            cluster.elect()
            for topic in cluster.topics.values():
                topic.bytes_max = BYTES_MAX
                for partition in topic.partitions:
                    partition.refuses, partition.is_stuck, partition.is_hollow = (), False, False
                    partition.withholds = 0
                    cluster.replicate(partition)
        if self.person is not None:
            self.person.lift()
        if TOPIC not in self.source.topics:
            self.source.create_topic(TOPIC, self.script.partitions)
        self.producers.heal()
        if self.policy != "continue":  # what is held goes on in a run that may
            self.set_policy("continue")
            for mirror in self.mirrors:
                mirror.kill()
        self.start_missing()
        self.world.after(1.0, lambda: order_resume(self))  # an order that was lost, its person gives again


def _brokers(script: Script, *, is_old: bool) -> Known:
    """They tell of IncrementalAlterConfigs only where it is needed: kept histories have drawn their numbers without."""
    known = KAFKA_3_9 if is_old else KAFKA_4_3
    return replace(known, versions=known.versions | {ALTER_CONFIGS: (0, 1)}) if script.settings else known


def _flow(script: Script, policy: str) -> FlowConfig:
    (flow,) = _config(script, policy).flows
    return flow


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
    world = World(script.seed)
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
            if script.kept is not None and script.kept.forgets:
                world.after(1.0, lambda: watch_expiry(scene))
            world.after(2.0, scene.look)
            if scene.heartbeats is not None:
                scene.heartbeats.look()
            for judge in (scene.settings, scene.acls):
                if judge is not None:
                    judge.begin(Random(f"persons of {script.seed}"))
            for fault in script.faults:
                world.at(begin + fault.at, lambda fault=fault: strike(scene, fault))
            world.run(begin + script.seconds)
            scene.heal()
            if script.kept is not None and script.kept.rebuilds:
                world.after(5.0, lambda: rebuild(scene))
            is_done = world.run(world.now + _HEAL_SECONDS_MAX, scene.checker.is_caught_up)
            world.run(world.now + 3.0)
            if scene.readers is not None and is_done:
                readers = scene.readers
                world.run(world.now + _GROUPS_SECONDS_MAX, lambda: not readers.problems())
                if any(one.target_losses for one in scene.truth.partitions.values()):
                    world.run(world.now + _LOOKS_SECONDS)
            if is_done:
                world.run(world.now + _SETTLED_SECONDS_MAX * bool(scene.unsettled()), lambda: not scene.unsettled())
            scene.checker.judge(is_done=is_done)
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
