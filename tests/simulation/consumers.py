"""A group that reads the source, and now and then the target, and what that says of the mirror's group offsets.

The group reads on the source and commits without being a member. On the target it joins, reads, commits and leaves, or
commits as a tool does. A record counts as read from the moment it is; what the group has not read, it has to find.
"""

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from kafka.protocol.consumer import JoinGroupRequest, LeaveGroupRequest, OffsetCommitRequest, SyncGroupRequest
from tests.simulation.cluster import Partition
from tests.simulation.commits import Commit
from tests.simulation.groups import COMMIT, JOIN, LEAVE, SYNC
from tests.simulation.scheduler import START_SECONDS

from sparkmirror.ledger.mirror_records import Checkpoint
from sparkmirror.model import TopicPartition

if TYPE_CHECKING:
    from tests.simulation.history import Scene

GROUP = "readers"
_CLIENT = "a-consumer"
_RESTORE_SECONDS = 2.0
"""In which a commit that the mirror's took the place of is restored, where nothing else happens meanwhile."""


@dataclass(slots=True)
class _Crossed:
    """A commit of the group that a lower one of the mirror has taken the place of."""

    offset: int
    at: float
    is_well: bool


class Readers:
    """The group, and the judge of its offsets and checkpoints."""

    def __init__(self, scene: "Scene") -> None:
        self._scene = scene
        self._read: dict[TopicPartition, set[bytes]] = {}
        self._crossed: dict[TopicPartition, _Crossed] = {}
        self._late: dict[TopicPartition, set[int]] = {}
        """What drivers of replaced mirrors have put the group to."""
        self._own: dict[TopicPartition, set[int]] = {}
        """Where consumers have committed on the target."""
        self.visits = 0
        """How often a consumer has joined on the target."""
        self.struck: list[float] = []
        """When something happened to the clusters or the mirror."""
        scene.target.groups.offsets.watchers.append(self._take_commit)
        scene.source.groups.offsets.watchers.append(self._take_commit_home)

    # On the source.

    def read_source(self) -> None:
        scene, random = self._scene, self._scene.world.random
        partitions = scene.sources()
        node = scene.source.nodes[scene.source.coordinator_node]
        is_quiet = 0 < scene.script.reads_until < scene.world.now - START_SECONDS
        is_up = node.is_up and node.frozen_until <= scene.world.now
        if partitions and is_up and not is_quiet and not scene.is_healed:
            self._read_some(random.choice(partitions), random)
        scene.world.after(random.choice((0.2, 0.2, 2.0)) * random.random() + 0.01, self.read_source)

    def _read_some(self, partition: Partition, random: Random) -> None:
        """Where the log was cut below what it has read, it waits: its place in the new records nobody knows."""
        log, where = partition.log, partition.where
        topic_id = self._scene.source.topics[where.topic].topic_id
        begin = max(self.source_place(where), log.start)
        end = self._scene.readable_end(partition)
        if begin >= end:
            return
        to = min(begin + random.choice((1, 3, 10, 1000)), end)
        known = self._read.setdefault(where, set())
        for one in self._scene.truth.of(where).records.values():
            if one.topic_id == topic_id and one.offset < to:
                known.add(one.value)
        note = random.choice(("", "a note"))
        self._scene.source.groups.offsets.take(GROUP, where, to, note, log.epoch, _CLIENT)

    def source_place(self, where: TopicPartition) -> int:
        """0 where it has committed nothing of the topic that is there."""
        found = self._scene.source.groups.offsets.of(GROUP).get(where)
        topic = self._scene.source.topics.get(where.topic)
        return found.offset if found is not None and topic is not None and found.topic_id == topic.topic_id else 0

    # On the target.

    def visit_target(self, random: Random) -> str:
        """A consumer joins the group on the target, reads and commits, and leaves after a while."""
        if self._scene.target.groups.is_active(GROUP):
            return ""
        self.visits += 1
        seconds = random.choice((0.0, 0.3, 3.0))
        _Member(self, self._scene, Random(random.random()), seconds)
        return f"a consumer of {GROUP} reads on the target for {seconds} s"

    def commit_on_target(self, random: Random) -> str:
        """Read and committed by a consumer that is no member."""
        moved = [told for where in self.remotes() if (told := self.read_target(where, random, -1, ""))]
        return f"{GROUP} commits on the target, as no member: {', '.join(moved)}" if moved else ""

    def remotes(self) -> list[TopicPartition]:
        topic = self._scene.target.topics.get(self._scene.remote)
        return [partition.where for partition in topic.partitions] if topic is not None else []

    def read_target(self, where: TopicPartition, random: Random, generation: int, member: str) -> str:
        """Reads on from the group's place, or nothing, and commits; what was read, if the commit was taken."""
        scene = self._scene
        partition = scene.target.partition(where)
        if partition is None or not self._is_coordinated():
            return ""
        stands = scene.target.groups.offsets.of(GROUP).get(where)
        log = partition.log
        begin = max(0 if stands is None else stands.offset, log.start)
        to = min(begin + random.choice((0, 1, 5, 1000)), log.last_stable)
        if to < begin or not to:
            return ""
        arrived = scene.checker.arrived(TopicPartition("orders", where.partition))
        values = {value for value, offset in arrived if begin <= offset < to}
        kind = OffsetCommitRequest.OffsetCommitRequestTopic
        one = kind.OffsetCommitRequestPartition(
            partition_index=where.partition, committed_offset=to, committed_leader_epoch=log.epoch,
            committed_metadata="its own",
        )  # fmt: skip
        asked = OffsetCommitRequest(
            group_id=GROUP, generation_id_or_member_epoch=generation, member_id=member,
            topics=[kind(name=where.topic, partitions=[one])],
        )  # fmt: skip
        self._read.setdefault(TopicPartition("orders", where.partition), set()).update(values)
        codes: list[int] = []
        scene.target.groups.handle(
            COMMIT, asked, _CLIENT, lambda told: codes.append(told.topics[0].partitions[0].error_code)
        )
        return f"{where} {begin} to {to}" if codes == [0] else ""

    def _is_coordinated(self) -> bool:
        cluster = self._scene.target
        node = cluster.nodes[cluster.coordinator_node]
        return node.is_up and node.frozen_until <= self._scene.world.now

    # The judge.

    def bound(self, where: TopicPartition) -> int:
        """The highest place on the target from which the group finds all that it has not read."""
        scene = self._scene
        remote = scene.target.partition(TopicPartition(scene.remote, where.partition))
        if remote is None:
            return 0
        known = self._read.get(where, set())
        truth = scene.truth.of(where)
        topic = scene.source.topics.get(where.topic)
        bound = remote.log.high_watermark
        place = self.source_place(where)
        for value, offset in scene.checker.copies(where, scene.checker.arrived(where)).items():
            one = truth.records.get(value)
            if one is None or topic is None or one.topic_id != topic.topic_id or value in known:
                continue
            is_elsewhere = scene.script.kept is not None and offset != one.offset  # that the partition is FAILED for
            if not (one.is_truncated or one.is_compacted or is_elsewhere) and one.offset >= place:
                bound = min(bound, offset)
        return bound

    def _is_sure(self, where: TopicPartition) -> bool:
        truth = self._scene.truth.of(where)
        return not (truth.target_losses or truth.truncations or truth.is_blind or truth.is_unmapped)

    def _take_commit(self, group: str, remote: TopicPartition, before: Commit | None, after: Commit) -> None:
        if group != GROUP or remote.topic != self._scene.remote:
            return
        where = TopicPartition("orders", remote.partition)
        crossed = self._crossed.get(where)
        if crossed is not None and (after.client_id == _CLIENT or after.offset >= crossed.offset):
            self._judge_crossed(where, self._crossed.pop(where))
        if after.client_id == _CLIENT:
            self._own.setdefault(where, set()).add(after.offset)
            return
        if self._is_sleepers(after):
            self._late.setdefault(where, set()).add(after.offset)
        self._scene.world.tell(f"{GROUP} is put to {after.offset} of {remote} by {after.client_id}")
        bound = self.bound(where) if self._is_sure(where) else self._end(remote, after.client_id)
        if after.offset > bound:
            self._scene.checker.fail(f"{where}: {GROUP} is put to {after.offset} on the target, beyond {bound}")
        if before is not None and before.client_id == _CLIENT and after.offset < before.offset:
            self._note_step_back(where, before, after)

    def _take_commit_home(self, group: str, where: TopicPartition, _: Commit | None, after: Commit) -> None:
        """On the way back a group is put to no place on the source behind which it has not read all."""
        partition = self._scene.source.partition(where)
        if group != GROUP or after.client_id == _CLIENT or partition is None:
            return
        self._scene.world.tell(f"{GROUP} is put to {after.offset} of {where} on the source by {after.client_id}")
        known, truth = self._read.get(where, set()), self._scene.truth.of(where)
        missed = [
            one
            for one in truth.records.values()
            if one.topic_id == after.topic_id and partition.log.start <= one.offset < after.offset
            and not (one.value in known or one.is_truncated or one.is_compacted or one.may_be_passed)
        ]  # fmt: skip
        if missed and self._is_sure(where):
            self._scene.checker.fail(
                f"{where}: {GROUP} is put to {after.offset} on the source, and has not read {missed[0].offset}"
            )

    def _note_step_back(self, where: TopicPartition, before: Commit, after: Commit) -> None:
        """What somebody else committed is left, or restored if that was not seen in time (invariant 7)."""
        scene = self._scene
        read_at = scene.target.groups.offsets.read_at.get((GROUP, after.client_id), 0.0)
        drivers = sum(mirror.driver.is_alive for mirror in scene.mirrors)
        if drivers == 1 and before.topic_id == after.topic_id and before.at < read_at:
            scene.checker.fail(f"{where}: {GROUP} is set back from {before.offset} to {after.offset}")
        nodes = scene.target.nodes.values()
        is_well = drivers == 1 and not scene.net.loss and not scene.net.slow
        is_well &= scene.target.groups.commits_wait_until <= scene.world.now
        is_well &= not any(mirror.driver.slow_until > scene.world.now for mirror in scene.mirrors)
        is_well &= all(node.is_up and node.frozen_until <= scene.world.now for node in nodes)
        self._crossed[where] = _Crossed(before.offset, after.at, is_well)

    def _end(self, remote: TopicPartition, client_id: str) -> int:
        """Where the log ends that the client has been told of; beyond all where it has changed since."""
        cluster = self._scene.target
        partition, told_at = cluster.partition(remote), cluster.ends_told_at.get((client_id, remote), 0.0)
        if partition is None or told_at <= max(cluster.topics[remote.topic].made_at, partition.cut_at):
            return 1 << 62
        return partition.log.high_watermark

    def look(self) -> None:
        """Checkpoints."""
        for one in self._checkpoints():
            where = TopicPartition("orders", one.partition.partition)
            if self._scene.source.partition(where) is not None and self._is_sure(where):
                self._judge_place(where, one.downstream, "a checkpoint says")

    def _judge_place(self, where: TopicPartition, offset: int, who: str) -> None:
        if offset > (bound := self.bound(where)):
            self._scene.checker.fail(f"{where}: {who} {offset} of {GROUP} on the target, beyond {bound}")

    def _checkpoints(self) -> list[Checkpoint]:
        found: dict[TopicPartition, Checkpoint] = {}
        for _, stored in self._scene.checker.stored(self._scene.checkpoints):
            for record in stored.records:
                one = Checkpoint.parse(record.key, record.value)
                if one.group == GROUP:
                    found[one.partition] = one
        return list(found.values())

    def _foreign(self, where: TopicPartition) -> bool:
        """Whether the group's place on the target is what a consumer committed there, which is left as it is."""
        stands = self._on_target(where)
        return stands is not None and stands.client_id == _CLIENT

    def is_own(self, where: TopicPartition, stands: Commit) -> bool:
        """Whether a consumer committed the place on the target, or it was restored there. It stays if the log was cut
        since: the group's own place is not set back."""
        may_stay = self._scene.script.kept is not None or bool(self._scene.truth.of(where).target_losses)
        return stands.client_id == _CLIENT or (may_stay and stands.offset in self._own.get(where, ()))

    def _is_of_sleeper(self, where: TopicPartition, stands: Commit) -> bool:
        """Whether the driver of a mirror that another one has replaced committed it, late: nothing fences that, and the
        other one may restore it, as what somebody else committed."""
        return self._is_sleepers(stands) or stands.offset in self._late.get(where, ())

    def _is_sleepers(self, commit: Commit) -> bool:
        replaced = [mirror.driver for mirror in self._scene.mirrors[:-1] if mirror.driver.was_held]
        return any(commit.client_id.endswith(driver.name) for driver in replaced)

    def _on_target(self, where: TopicPartition) -> Commit | None:
        return self._scene.target.groups.offsets.of(GROUP).get(TopicPartition(self._scene.remote, where.partition))

    def problems(self) -> list[str]:
        """What does not hold now, and has to once all is well."""
        found: list[str] = []
        checkpoints = {one.partition.partition: one for one in self._checkpoints()}
        for partition in self._scene.sources():
            where, truth = partition.where, self._scene.truth.of(partition.where)
            if truth.is_blind or truth.is_unmapped or self._scene.losses.has_unseen_cut(where):
                continue
            bound = self.bound(where)
            one, stands = checkpoints.get(where.partition), self._on_target(where)
            if one is not None and one.downstream > bound:
                found.append(f"{where}: the checkpoint says {one.downstream}, beyond {bound}")
            is_excused = stands is not None and (self.is_own(where, stands) or self._is_of_sleeper(where, stands))
            if stands is not None and stands.offset > bound and not is_excused:
                found.append(f"{where}: {GROUP} stands at {stands.offset} on the target, beyond {bound}")
            found += self._lag(where, one, stands)
        return found

    def _lag(self, where: TopicPartition, checkpoint: Checkpoint | None, stands: Commit | None) -> list[str]:
        """Checkpoints, and a group that commits nothing else, follow to where its place on the source translates."""
        place = self.source_place(where)
        if not place or not self._is_sure(where) or self._is_lost(where):
            return []
        found = self._scene.checker.maps().map_of(where)
        told = None if found is None else found.translate(place)
        if found is None or told is None or not told.exact:
            return []
        wanted = found.records_end(place)
        wanted = told.offset if wanted is None else min(wanted, told.offset)
        if self._scene.script.kept is not None:  # maps go on behind a hole, and behind where a FAILED partition stands
            stored = self._scene.checker.view().position(where)
            wanted = min(wanted, place, 0 if stored is None else stored.offset)
        places = {"the checkpoint": -1 if checkpoint is None else checkpoint.downstream}
        if not self._foreign(where):
            places[f"{GROUP} on the target"] = -1 if stands is None else stands.offset
        return [
            f"{where}: {who} stands at {at}, and {place} on the source translates to {wanted}"
            for who, at in places.items()
            if at < wanted
        ]

    def _is_lost(self, where: TopicPartition) -> bool:
        """Whether offsets were to be kept, and the partition is FAILED with no position: no offset translates."""
        if self._scene.script.kept is None or where in self._scene.checker.view().records:
            return False
        return where in self._scene.causes.failed()

    def judge(self) -> None:
        for problem in self.problems():
            self._scene.checker.fail(problem)
        for where, one in self._crossed.items():
            self._judge_crossed(where, one)

    def _judge_crossed(self, where: TopicPartition, one: _Crossed) -> None:
        """Once the group stands where it did, or has committed again."""
        until = one.at + _RESTORE_SECONDS
        is_quiet = not any(one.at < at < until for at in self.struck)
        if one.is_well and is_quiet and until < self._scene.world.now:
            self._scene.checker.fail(f"{where}: {GROUP} had committed {one.offset}, and that was not restored")


class _Member:
    """A consumer in the group on the target, from its joining to its leaving."""

    def __init__(self, readers: Readers, scene: "Scene", random: Random, seconds: float) -> None:
        self._readers = readers
        self._scene = scene
        self._random = random
        self._seconds = seconds
        self._member = ""
        self._generation = -1
        self._join()

    def _ask(self, api: int, request: Any, answer: Any) -> None:
        self._scene.target.groups.handle(api, request, _CLIENT, answer)

    def _join(self) -> None:
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
        asked = JoinGroupRequest(
            group_id=GROUP, session_timeout_ms=30_000, rebalance_timeout_ms=30_000, member_id=self._member,
            group_instance_id=None, protocol_type="consumer", protocols=[protocol],
        )  # fmt: skip
        self._ask(JOIN, asked, self._joined)

    def _joined(self, told: Any) -> None:
        self._member = told.member_id
        if told.error_code:
            self._join()
            return
        self._generation = told.generation_id
        one = SyncGroupRequest.SyncGroupRequestAssignment(member_id=self._member, assignment=b"")
        asked = SyncGroupRequest(
            group_id=GROUP, generation_id=self._generation, member_id=self._member, group_instance_id=None,
            protocol_type="consumer", protocol_name="range", assignments=[one],
        )  # fmt: skip
        self._ask(SYNC, asked, lambda _: None)
        self._read()
        self._scene.world.after(self._seconds, self._leave)

    def _read(self) -> None:
        for where in self._readers.remotes():
            if told := self._readers.read_target(where, self._random, self._generation, self._member):
                self._scene.world.tell(f"{GROUP} reads on the target: {told}")

    def _leave(self) -> None:
        self._read()
        one = LeaveGroupRequest.MemberIdentity(member_id=self._member, group_instance_id=None)
        self._ask(LEAVE, LeaveGroupRequest(group_id=GROUP, members=[one]), lambda _: None)
