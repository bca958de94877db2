"""Is the simulator worth its time? Breaks the product's protocol, one line each, and measures how soon that is found.

`python -m tests.simulation.mutations --page docs/simulation.md` writes the table, search by search, and goes on where
it was ended; a mutation that one search has not found is left alone until `--again`. Each is a module's text with a
piece exchanged while it is imported, in a process of its own; seeds are fresh, the weights of faults as ever. What
breaks only flows that keep offsets is searched for in histories of such flows.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType

SOURCE = Path(__file__).parents[2] / "src" / "sparkmirror"
_BEGIN, _END = "<!-- mutations -->", "<!-- end of mutations -->"


@dataclass(frozen=True, slots=True)
class Mutation:
    """`before`, which `file` has once, becomes `after`. What breaks only flows that keep offsets is `kept`: its
    searches play no other histories. `also` is a second line that guards the same, and what becomes of it: of the same
    file, unless `also_file` names another one."""

    name: str
    file: str
    before: str
    after: str
    kept: bool = False
    also: tuple[str, str] = ("", "")
    also_file: str = ""

    def stands(self) -> bool:
        texts = {file: (SOURCE / file).read_text() for file in self.files}
        return all(texts[file].count(before) == 1 for file in texts for before, _ in self.changes(file))

    @property
    def files(self) -> frozenset[str]:
        return frozenset({self.file, self.also_file or self.file})

    def changes(self, file: str) -> list[tuple[str, str]]:
        first = [(self.before, self.after)] if file == self.file else []
        return [*first, self.also] if self.also[0] and file == (self.also_file or self.file) else first


_PRODUCE, _FETCH = "pipeline/produce", "pipeline/fetch"
MUTATIONS = (
    Mutation("a position before its acknowledgement", f"{_PRODUCE}/progress.py",
             "place = buffer.reach if self._in_transactions else buffer.place", "place = buffer.reach"),
    Mutation("a transaction ends before its answers are in", f"{_PRODUCE}/transaction.py",
             "if unsettled or not self._progress.settled or self._producer.busy:", "if self._producer.busy:"),
    Mutation("a commit though a position of its data is missing", f"{_PRODUCE}/transaction.py",
             "if self._progress.is_untrue(self._contents.sources):", "if False:"),
    Mutation("a time-out taken for success", f"{_PRODUCE}/answers.py",
             "_DONE = frozenset({0, DUPLICATE_SEQUENCE})", "_DONE = frozenset({0, DUPLICATE_SEQUENCE, 7, 20})"),
    Mutation("what a former leader says of a batch leaves no doubt", f"{_PRODUCE}/answers.py",
             "_IN_DOUBT = frozenset({-1, 0, 3, 6, 7, 13, 20, 56})", "_IN_DOUBT = frozenset({-1, 0, 7, 13, 20})"),
    Mutation("what is in doubt is not sent again as it was", f"{_PRODUCE}/isolation.py",
             "if is_in_doubt and self._keeps_doubtful", "if False and self._keeps_doubtful"),
    Mutation("a roll-back does not bring the reader back", f"{_PRODUCE}/isolation.py",
             "        if lost and not self._order(buffer, paused=buffer.is_failed):", "        if False:"),
    Mutation("a roll-back leaves failed ledger partitions alone", f"{_PRODUCE}/produce_task.py",
             "for buffer in (*self._progress.buffers.values(), *self._routing.lanes.values()):\n",
             "for buffer in self._routing.lanes.values():\n"),
    Mutation("records of an aborted transaction are taken", f"{_FETCH}/runs.py",
             "elif header.is_transactional and header.producer_id in open_producers:", "elif False:"),
    Mutation("a marker does not end what is left out", f"{_FETCH}/runs.py",
             "            open_producers.discard(header.producer_id)\n", "            pass\n"),
    Mutation("what is left out at the end of an answer counts for nothing", f"{_FETCH}/runs.py",
             "if left_out_to > _reached(runs, position):", "if False:"),
    Mutation("a batch with holes is sent as it is", "batch/header.py",
             "        and header.records_count == header.last_offset_delta + 1\n", ""),
    Mutation("an answer to a question before a seek is taken", f"{_FETCH}/connection.py",
             "return self.session.offset_of(fetched[:2]) == offset", "return True"),
    Mutation("a seek forgets what turned the log since", f"{_FETCH}/responses.py",
             "if turns >= fetch_state.lineage.turns:", "if True:"),
    Mutation("a position beyond a gap that is not stored", f"{_PRODUCE}/progress.py",
             "[homes.gaps] if where in self._open_gaps else []", "[]"),
    Mutation("a start without the epochs of what was read", "planning/starts.py",
             "return Assigned(partition, position.offset, position.epochs, topic_id, end)",
             "return Assigned(partition, position.offset, (), topic_id, end)"),
    Mutation("a start that does not look at the topic's id", "planning/starts.py",
             "if is_another_topic(position.topic_id, topic_id):", "if False:"),
    Mutation("a reader that does not look at the topic's id", f"{_FETCH}/topic_ids.py",
             "elif is_another_topic(fetch_state.topic_id, found):", "elif False:"),
    Mutation("an id of a topic is believed at once", f"{_FETCH}/topic_ids.py",
             "if not self._is_believed(fetch_state, view):", "if False:"),
    Mutation("an epoch that reads the ledger past open transactions", "planning/planner.py",
             "self._ownership.tell_began()\n        positions = ledger.read_through(target)",
             "self._ownership.tell_began()\n        positions = ledger.read_to_end()"),
    Mutation("a repeated task that takes its plan's positions", "planning/starts.py",
             "    if position is None:\n        return item\n", "    return item\n"),
    Mutation("a dropped fence", "planning/renewal.py",
             "taken = take_over(flow, target, ledger, [plan.task])[plan.task]",
             "from sparkmirror.planning.fencing import Taken; from sparkmirror.kafka.fencing import ProducerIdentity; "
             "taken = Taken(plan.task, ProducerIdentity(plan.producer_id, plan.producer_epoch), plan.spare)"),
    Mutation("a process that its group has put out begins its share", "planning/ownership.py",
             "return any(peer.member_id == share.member for peer in list_peers(target, SHARING_GROUP))", "return True",
             also=("return FencedBy.GROUP if has_others and self._joined_at > lately else FencedBy.OTHERS",
                   "return FencedBy.OTHERS"), also_file="sharing/group.py"),
    Mutation("a task is granted while another process runs it", "sharing/assignment.py",
             "busy = {task for claim in claims.values() for task in claim.held}", "busy = frozenset[int]()"),
    Mutation("an offset translates one record too far", f"{_PRODUCE}/mapping.py",
             "self._enter(partition, base_offset, spans", "self._enter(partition, base_offset + 1, spans"),
    Mutation("a gap that is reported and not stored", f"{_PRODUCE}/progress.py",
             "            if due and can_take:\n", "            if due and can_take and len(self._stored) > 99:\n"),
    Mutation("acknowledged by the leader alone", "kafka/wire/data_requests.py",
             "head += _PRODUCE_HEAD.pack(-1, timeout_ms)", "head += _PRODUCE_HEAD.pack(1, timeout_ms)"),
    Mutation("rows that were under way at a rewind are taken", f"{_PRODUCE}/gate.py",
             "is not State.FLOWING and not (is_same_log and buffer.take_up(delivery.first_offset)):\n"
             "            return False\n",
             "is not State.FLOWING:\n            buffer.take_up(buffer.position)\n"
             "            return delivery.next_offset > buffer.position\n"),
    Mutation("a batch that is read from its middle is taken whole", f"{_PRODUCE}/gate.py",
             "QueuedRecords(delivery.payload, buffer.position,", "QueuedRecords(delivery.payload, 0,"),
    Mutation("an announcement that does not wait for the rows before it", f"{_PRODUCE}/arrivals.py",
             "self._listener.take(self._batches)", "self._listener.take(1 << 62)"),
    Mutation("an announcement that continues nothing", f"{_FETCH}/extents.py",
             "self._ends.get(slot) != (first_offset, leader_epoch, turns)", "slot not in self._ends"),
    Mutation("a roll-back keeps what was not committed", f"{_PRODUCE}/buffer.py",
             "        self.move_to(*self.committed)\n        self.rewind()",
             "        self.rewind()"),
    Mutation("a roll-back keeps the positions of what it drops", f"{_PRODUCE}/progress.py",
             "self.uncommitted.forget()", "self.uncommitted = Uncommitted()"),
    Mutation("a loss that the reader does not report", f"{_FETCH}/responses.py",
             "        self.rows.append(row._replace(payload=encode(told)))\n", "        pass\n"),
    Mutation("a position of Connect's that others wrote keeps our topic id", "ledger/positions.py",
             "return ours.position if ours.position.offset == connect.offset else connect", "return ours.position"),
    Mutation("an acknowledgement counts for all that was sent", f"{_PRODUCE}/buffer.py",
             "self.move_to(done.next_offset, done.lineage)",
             "self.move_to(*(self.reach if sent else (done.next_offset, done.lineage)))"),
    Mutation("a partition is given away before its release is stored", "planning/hand_over.py",
             "leaving.is_released |= _is_released(ledger.get(where), leaving.generation) and is_whole(where)",
             "leaving.is_released = True"),
    Mutation("what was released while its topic was gone is given to nobody", "planning/planner.py",
             "[move.partition for move in released],", "[],"),
    Mutation("a command topic that falls silent is not given up", f"{_FETCH}/command_tail.py",
             "if self.connection is not None and self.connection.is_silent(",
             "if False and self.connection.is_silent("),
    Mutation("a new epoch that keeps the old one's sequences", f"{_PRODUCE}/in_flight.py",
             "self.identity, self._sequence = (producer_id, producer_epoch), sequence",
             "self.identity = (producer_id, producer_epoch)"),
    Mutation("batches of a producer that the log may not know go out together", f"{_PRODUCE}/in_flight.py",
             "return IN_FLIGHT_MAX if self.is_known else 1", "return IN_FLIGHT_MAX"),
    Mutation("a group is put to its checkpoint wherever it stands", "ledger/checkpoints.py",
             "            if is_forward(on_target[group].get(partition), checkpoint.downstream)\n",
             "            if True\n"),
    Mutation("a checkpoint beyond the acknowledged map", "ledger/offset_map.py",
             "return Translation(self.end_target, source_offset ==",
             "return Translation(self.end_target + 1, source_offset =="),
    Mutation("a commit that took the place of a group's own is left", "sync/group_sync.py",
             "            if offsets := self._write(group, lost):\n                self.counts.restored",
             "            if offsets := {}:\n                self.counts.restored"),
    Mutation("a group is put into a log that was made again", "sync/group_sync.py",
             "return not self._is_former(checkpoint, found) and state.now(checkpoint, sources, logs) == offset",
             "return found is not None or offset >= 0"),
    Mutation("a checkpoint of a log that is gone stays", "ledger/checkpoints.py",
             "        if is_beyond or after.downstream < before.downstream:\n", "        if False:\n"),
    Mutation("what others committed for a log that is gone is taken back", "ledger/checkpoints.py",
             "stands == Committed(before.downstream, before.metadata)",
             "(stands is not None and stands.offset > one.end)"),
    Mutation("a remote topic does not grow", "sync/topics.py",
             "    elif remote.partitions < source.partitions:\n", "    elif False:\n"),
    Mutation("a failover that does not drain", "operations/failover_run.py",
             "while behind := plan_lacking(ends,", "while behind := plan_lacking({},"),
    Mutation("a fence that does not wait for all brokers", "operations/failover_run.py",
             "        await_acls(self._source, there=bindings)\n        return f\"nobody", "        return f\"nobody"),
    Mutation("a fence is known by the word of one broker", "kafka/acls.py",
             "for node_id in sorted(admin.brokers())]", "for node_id in sorted(admin.brokers())[:1]]"),
    Mutation("an undoing that is not noted before it begins", "operations/steps.py",
             "        if not taken.undoing:", "        if False:"),
    Mutation("a group goes back by the map of a former log", "operations/failback.py",
             "former = stored.keys() - positions.keys()", "former = frozenset[TopicPartition]()"),
    Mutation("a reverse flow starts where the map ends", "operations/failback.py",
             "if known is None or (known.end_source >= position and where not in outdated):", "if True:"),
    Mutation("an excluded setting is copied", "sync/flow.py",
             "is_copied=own.should_replicate_config_property if own else lambda key: not excluded.accepts(key),",
             "is_copied=own.should_replicate_config_property if own else lambda _: True,"),
    Mutation("a protected setting is altered", "sync/configs.py",
             " or rules.is_protected(pair.name, key) or key in stays:", " or key in stays:"),
    Mutation("a setting that the source deletes stays", "sync/configs.py",
             "        if there.is_override:\n            yield Reset", "        if False:\n            yield Reset"),
    Mutation("settings are compared once", "sync/config_job.py",
             "if seen != self._seen or not self._rules.are_fixed or self._unfilled:", "if not self._seen:"),
    Mutation("a value of a broker's file is a default", "kafka/answers.py",
             "return not (self.read_only or self.sensitive or self.source == ConfigSource.STATIC_BROKER)",
             "return not (self.read_only or self.sensitive)"),
    Mutation("a setting that cannot be altered keeps others back", "kafka/topic_settings.py",
             "if isinstance(problem, RequestRefused) and len(changes[topic]) > 1:", "if False:"),
    Mutation("a setting that the target does not know costs the topic", "sync/topic_job.py",
             "        if not lesser:\n", "        if True:\n"),
    Mutation("who may write may read", "sync/acls.py",
             'operation = "READ" if binding.operation == "ALL"',
             'operation = "READ" if binding.operation in ("ALL", "WRITE")'),
    Mutation("allowances come before denials", "sync/acls.py",
             "    return Plan(tuple(changes))\n", "    return Plan(tuple(reversed(changes)))\n"),
    Mutation("an allowance does not wait for a refused denial", "sync/acl_job.py",
             "return [(one, other) for one, other in behind.items() if other], "
             "[one for one in bindings if not behind[one]]",
             "return [], list(bindings)"),
    Mutation("an ACL that is made is not noted", "sync/acl_job.py",
             "        self._notes.add(bindings)\n", "",
             also=("        self._notes.add(one for one, error in outcome.items() if error is None)\n", "")),
    Mutation("an ACL is noted when it is there", "sync/acl_job.py", "        self._notes.add(bindings)\n", ""),
    Mutation("what others allowed is revoked", "sync/acls.py",
             "sorted((seen.created & seen.target) - wanted)", "sorted(seen.target - wanted)"),
    Mutation("what is noted of an ACL that is revoked stays", "sync/acl_job.py",
             "        self._notes.remove(one for one, error in outcome.items() if error is None)\n", ""),
    Mutation("a note of an ACL is forgotten at once", "sync/acl_job.py",
             "FORGET_SECONDS: Final = 300.0", "FORGET_SECONDS: Final = 0.0",
             also=("        self._notes.add(one for one, error in outcome.items() if error is None)\n", "")),
    Mutation("a fence is copied", "sync/acls.py",
             'if binding._replace(topic="", pattern=LITERAL) == fence_of(""):', "if False:"),
    Mutation("a prefix is copied that covers topics of others", "sync/acls.py",
             'return "" if any(name.startswith(prefix) for name in others) else prefix', "return prefix"),
    Mutation("heartbeats whose topic is gone go on to it", "sync/heartbeat_job.py",
             "            self.close()\n            raise", "            raise"),
    Mutation("a heartbeat of another version", "ledger/mirror_records.py",
             "return _HEARTBEAT.pack(_VERSION, self.timestamp_ms)", "return _HEARTBEAT.pack(1, self.timestamp_ms)"),
    Mutation("the jobs of a process that leads no more go on", "runtime/jobs.py",
             "        self._is_to_close = close\n        self._stopping.set()", "        self._is_to_close = close"),
    Mutation("a group behind what a cut log lacks is left", "ledger/translate.py",
             "return self.at_most is not None and self.at_most < offset", "return False"),
    Mutation("only what the last checkpoint put is taken back", "ledger/checkpoints.py",
             "and stands in places.get((before.group, before.partition), ())", "and False"),
    Mutation("a checkpoint whose own place is not in the map stays", "ledger/checkpoints.py",
             " or _is_overtaken(before, one, logs)", ""),
    Mutation("positions go beyond a cut that the map lacks", f"{_PRODUCE}/mapping.py",
             "        self._cuts[partition] = _Cut(growing)\n", "        pass\n"),
    Mutation("a later attempt is ordered by its clock", f"{_PRODUCE}/progress.py",
             "max(clock.time_ns() // 1_000_000, marks_from // 1_000 + 1)", "clock.time_ns() // 1_000_000"),
    Mutation("the topic of heartbeats is not made", "sync/heartbeat_job.py",
             "            ensure_compacted_topic(admin, HEARTBEATS_TOPIC, settings.replication_factor)\n",
             "            pass\n"),
    Mutation("heartbeats stay with a publisher that has failed", "sync/heartbeat_job.py",
             "            self.close()\n            raise\n", "            raise\n"),
    Mutation("an acknowledgement of another offset counts", f"{_PRODUCE}/aligned_answers.py",
             "produced.error == NO_ERROR and produced.base_offset != _due(batch):", "False:", kept=True),
    Mutation("a batch that the log had already is taken for the one that was sent", f"{_PRODUCE}/aligned_answers.py",
             "buffer.was_there(produced.append_time_ms)", "False", kept=True),
    Mutation("the end of a log is read once", "planning/target_ends.py",
             "            if now.get(where) == end or (", "            if True or (", kept=True),
    Mutation("a hole is filled before the records before it are acknowledged", f"{_PRODUCE}/aligned_offsets.py",
             "        if not buffer.settled or hole.first != buffer.acknowledged:\n", "        if False:\n", kept=True),
    Mutation("the fillers of a process that died are not ended", "planning/offset_starts.py",
             "            self._end_transactions(items)\n            logs", "            logs", kept=True),
    Mutation("what lies beyond the position is not compared", "planning/log_alignment.py",
             "return Prove(Hole(max(stored, facts.begins), facts.ends), then)", "return then", kept=True),
    Mutation("the last offsets of a hole are filled at once", "kafka/offset_fillers.py",
             "stop = hole.stop - _SPARE if hole.stop - begun > _SPARE else hole.stop", "stop = hole.stop", kept=True),
    Mutation("sequence numbers begin with 0 after a take-over", "planning/log_alignment.py",
             "return (self.last_sequence + 1) % SEQUENCES", "return 0", kept=True),
    Mutation("a group beyond what keeps its offsets", "ledger/translate.py",
             "at = min(offset, record.position.offset)", "at = offset", kept=True,
             also=("    if found.offset > log.end:\n", "    if found.offset > log.end and not found.is_kept:\n")),
    Mutation("a hole counts as filled before its markers stand", "kafka/offset_fillers.py",
             "        while known < end:\n", "        while False:\n", kept=True),
    Mutation("records of somebody else in a hole are not looked for", "kafka/offset_fillers.py",
             "if batch.takes_up(filler_ids, self._reader.is_aborted) or (", "if True or (", kept=True),
    Mutation("markers are written without a first one", "kafka/offset_fillers.py",
             "            reached, coordinator_epoch = self._begin(fence, hole, reached)\n",
             "            coordinator_epoch = 1 << 20\n", kept=True),
    Mutation("the last offsets of a hole are written too", "policy/fillers.py",
             "hole.stop - _UNWRITTEN - end", "hole.stop - end", kept=True),
    Mutation("a loss is stored behind the hole that it leaves", f"{_PRODUCE}/aligned_offsets.py",
             "if self._progress.awaits_gap(buffer):", "if False:", kept=True),
    Mutation("of two stored producers the last counts", "ledger/view.py",
             "if value is None or self.offsets_producer is None:", "if True:", kept=True),
    Mutation("who comes to a hole behind another of its flow holds the partition", "kafka/offset_fillers.py",
             "            if not isinstance(moved, EndBehind):\n", "            if True:\n", kept=True),
    Mutation("an announced run with a hole goes out as it is", f"{_PRODUCE}/aligned_buffer.py",
             "header.base_offset == run.first_offset and header.next_offset == run.next_offset", "True", kept=True),
    Mutation("what was meant for a log goes to the one after it", f"{_PRODUCE}/aligned_buffer.py",
             "topic_id is None or topic_id is own or not is_another_topic(own, topic_id)", "True", kept=True),
    Mutation("a position is of no log before anything is appended", f"{_PRODUCE}/aligned_buffer.py",
             "            extent = Extent(self.append.topic, topic_id, 0)\n", "            pass\n", kept=True),
    Mutation("an empty log is gone on with at its end", "planning/log_alignment.py",
             "return Refuse(reason) if reason else then", "return then", kept=True),
    Mutation("a stored start is forgotten where the log is empty", "planning/offset_starts.py",
             "return record is None or (not ends and self._is_of_former_source(item, record))",
             "return record is None or not ends", kept=True,
             also=("if chosen.offset < former.position.offset:", "if True:")),
    Mutation("logs without a record in common are gone on with", "planning/log_alignment.py",
             "if facts.stored is not None or common or first >= facts.begins:",
             "if facts.stored is not None or first >= facts.begins or facts.begins < facts.ends:", kept=True),
    Mutation("a batch that was appended twice counts", "planning/log_proof.py",
             "if before is not None and not _continues(before, batch):", "if False:", kept=True),
    Mutation("a log that was cut and has grown again is taken for whole", "planning/log_alignment.py",
             "return Refuse(_written_again(facts)) if _is_written_again(facts) else then", "return then", kept=True),
    Mutation("a marker of somebody else counts once its record is lost", "planning/log_proof.py",
             "if is_lost and batch.is_filler and batch.producer_id not in filler_ids:", "if False:", kept=True),
    Mutation("what is taken over is not compared", "planning/adoption.py",
             "        lineage = proof.compare(where, remote, known, sample, facts.source_end, common)\n",
             "        lineage, common.count = known, 1\n", kept=True),
    Mutation("a reverse flow goes on where the old primary has more", "operations/kept_return.py",
             "    if ends.home > ends.away:\n", "    if False:\n", kept=True),
    Mutation("a drain goes by a log of the target that is gone", "operations/cluster_pair.py",
             "        if where not in gone\n", "        if True\n", kept=True),
    Mutation("logs are not compared on the way back", "operations/kept_return.py",
             "first_parting(*logs, is_committed=is_committed, common=common, begins=offsets.first)", "None", kept=True),
    Mutation("an order without an answer was not given", "planning/planner.py",
             "            self._is_in_doubt = True  # tasks", "            self._is_in_doubt = False  # tasks"),
    Mutation("what cannot begin again is left out of the epoch", "planning/renewal.py",
             "    if not is_bounded and len(begun) < len(renewed):\n", "    if False:\n", kept=True),
)  # fmt: skip


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, changes: Sequence[tuple[str, str]]) -> None:
        super().__init__(fullname, path)
        self._changes = changes

    def get_code(self, fullname: str) -> CodeType:
        text = Path(self.path).read_text()
        for before, after in self._changes:
            assert text.count(before) == 1, f"{self.path} has not once: {before}"
            text = text.replace(before, after)
        return compile(text, self.path, "exec")


class _Finder(MetaPathFinder):
    def __init__(self, mutation: Mutation) -> None:
        self._mutation = mutation
        self._files = {"sparkmirror." + file.removesuffix(".py").replace("/", "."): file for file in mutation.files}

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if fullname not in self._files:
            return None
        file = str(SOURCE / self._files[fullname])
        loader = _Loader(fullname, file, self._mutation.changes(self._files[fullname]))
        return spec_from_file_location(fullname, file, loader=loader)


def mutate(name: str) -> None:
    """Before the product is imported."""
    sys.meta_path.insert(0, _Finder(next(one for one in MUTATIONS if one.name == name)))


@dataclass(frozen=True, slots=True)
class Search:
    """What one search came to; `seed` is empty where nothing was found."""

    seconds: float
    histories: int
    seed: str
    seen: str


def _search(mutation: Mutation, minutes: float) -> Search:
    """Until a history fails that holds all promises when the protocol is whole."""
    seconds, histories = 0.0, 0
    while seconds < minutes * 60:
        one = _search_once(mutation, minutes - seconds / 60)
        seconds, histories = seconds + one.seconds, histories + one.histories
        if one.seed and _play("--seed", one.seed).returncode:
            print(f"seed {one.seed} fails without a mutation, too", flush=True)
        elif one.seed:
            return Search(seconds, histories, one.seed, one.seen)
    return Search(seconds, histories, "", "")


def _search_once(mutation: Mutation, minutes: float) -> Search:
    kind = ("--kept",) if mutation.kept else ()
    done = _play("--mutation", mutation.name, "--minutes", str(minutes), "--cpu", *kind)
    totals = re.search(r"(\d+) histories, .* in ([\d.]+) s", done.stdout)
    assert totals is not None, done.stdout + done.stderr
    found = re.search(r"seed (\d+): (?:\[[\d.]+ s\] )?(.*)", done.stdout)
    seen = re.sub(r"\s+", " ", found[2].split(";")[0])[:90].replace("|", "/") if found else ""
    return Search(float(totals[2]), int(totals[1]), found[1] if found else "", seen)


def _play(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation", *arguments, "--no-shrink"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="at most, for each search")
    parser.add_argument("--searches", type=int, default=3, help="for each mutation, each with seeds of its own")
    parser.add_argument("--page", type=Path, required=True)
    parser.add_argument("--only", default="", help="a regular expression for names; the other rows stay")
    parser.add_argument("--again", action="store_true", help="forget what the page says of these mutations")
    options = parser.parse_args()
    if lost := [one.name for one in MUTATIONS if not one.stands()]:
        parser.exit(1, f"The code has changed where these break it: {', '.join(lost)}.\n")
    chosen = [one for one in MUTATIONS if re.search(options.only, one.name)]
    if options.again:
        _keep(options.page, {one.name: [] for one in chosen})
    for count in range(options.searches):
        for mutation in chosen:
            searches = _read(options.page).get(mutation.name, [])
            if len(searches) == count and all(one.seed for one in searches):
                searches = [*searches, _search(mutation, options.minutes)]
                print(_row(mutation.name, searches), flush=True)
                _keep(options.page, {mutation.name: searches})


def _row(name: str, searches: Sequence[Search]) -> str:
    found = [one for one in searches if one.seed]
    times = ", ".join(f"{'' if one.seed else 'not in '}{one.seconds:.0f} s" for one in searches)
    histories = ", ".join(str(one.histories) for one in searches)
    seeds = ", ".join(one.seed for one in found)
    return f"| {name} | {times} | {histories} | {seeds} | {found[0].seen if found else ''} |"


def _searches(times: str, histories: str, seeds: str, seen: str) -> Iterator[Search]:
    """What a row says."""
    left = iter(seeds.split(", "))
    for seconds, count in zip(times.split(", "), histories.split(", "), strict=True):
        is_found = not seconds.startswith("not in ")
        spent = float(seconds.removeprefix("not in ").removesuffix(" s"))
        yield Search(spent, int(count), next(left) if is_found else "", seen if is_found else "")


def _read(page: Path) -> dict[str, list[Search]]:
    """The page is all that a run leaves behind, so one that was killed goes on with the search that it lost."""
    table = page.read_text().split(_BEGIN)[1].split(_END)[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[1:]]
    return {name: list(_searches(*rest)) for name, *rest in cells}


def _keep(page: Path, changed: Mapping[str, Sequence[Search]]) -> None:
    """Puts what was found in its place on the page."""
    rows = {**_read(page), **changed}
    table = ["| The protocol broken | Found after | Histories | Seeds | What was seen first |", "|---|---|---|---|---|"]
    table += [_row(one.name, rows[one.name]) for one in MUTATIONS if rows.get(one.name)]
    head, rest = page.read_text().split(_BEGIN)
    text = head + _BEGIN + "\n\n" + "\n".join(table) + "\n\n" + _END + rest.split(_END)[1]
    beside = page.with_suffix(".new")
    beside.write_text(text)
    beside.replace(page)


if __name__ == "__main__":
    main()
