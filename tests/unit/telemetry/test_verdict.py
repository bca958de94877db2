"""The verdict on a flow: a table of states, what each is called, and what is not known."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from sparkmirror.ledger.gaps import Gap
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.stored_json import encode
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.facts import Facts, HeldPartition, gather
from sparkmirror.telemetry.problems import Level, find_problems, first_line
from sparkmirror.telemetry.records import (
    AcknowledgedRecord,
    CanaryState,
    FlowRecord,
    FlowState,
    JobRecord,
    JobState,
    PartitionState,
    TaskRecord,
    VerifyRecord,
    encode_key,
    encode_record,
)
from sparkmirror.telemetry.verdict import Verdict, judge, sum_up

NOW = 1_800_000_000_000
FLOW = FlowName("west", "backup")
RED, AMBER, GREY, GREEN = Level.RED, Level.AMBER, Level.UNKNOWN, Level.GREEN


def ago(seconds: float) -> int:
    return NOW - round(seconds * 1000)


def process(state: FlowState = FlowState.RUNNING, heard: float = 1, **more: Any) -> FlowRecord:
    known: dict[str, Any] = {"host": "m1", "pid": 7, "started_at_ms": ago(3600)} | more
    return FlowRecord("r", state, at_ms=ago(heard), **known)


def task(heard: float = 1, number: int = 0, **more: Any) -> TaskRecord:
    return TaskRecord("r", number, 1, at_ms=ago(heard), **more)


def held(state: PartitionState, reason: str = "", count: int = 1, since: float = 5, **more: Any) -> Any:
    """`reason` may have {n} for the partition's number."""
    return tuple(
        HeldPartition(TopicPartition("orders", n), state, reason.replace("{n}", str(n)), ago(since), **more)
        for n in range(count)
    )


def job(name: str, reason: str, since: float = 180, heard: float = 1, **more: Any) -> JobRecord:
    state = JobState.FAILED if reason else JobState.RUNNING
    times = {"last_at_ms": ago(heard), "next_at_ms": ago(heard) + 5000, "at_ms": ago(heard)} | more
    return JobRecord(name, "r", state, reason, failing_since_ms=ago(since) if reason else None, **times)


def gap(lost: int, at: float = 60) -> Gap:
    return Gap(TopicPartition("orders", 0), "retention", 100, 100 + lost, "went on", ago(at))


COPIED = process(is_copied=True)
WELL = Facts(flow=FLOW, now_ms=NOW, processes=(process(),), tasks=(task(),), partitions=8, lag_records=0)


def but(**facts: Any) -> Facts:
    return replace(WELL, **facts)


FAILED, WAITING, PAUSED = PartitionState.FAILED, PartitionState.WAITING, PartitionState.PAUSED
REFUSED = "broker 2 of west (10.0.0.2:9092) refuses the connection"
TABLE: list[tuple[str, Facts, Level, str]] = [
    ("all is well", WELL, GREEN, "west->backup is mirroring"),
    # The eleven that were green.
    ("a worker was killed seven times", but(restarted_at_ms=tuple(map(ago, range(37, 2, -5)))), AMBER, "7 restarts"),
    ("the mirror was killed", but(processes=(process(heard=240),)), RED, "process 7 on m1 was killed"),
    (
        "it has just started, of ends nothing is known",
        but(unknown_ends=8, lag_records=None, processes=(process(started_at_ms=ago(20)),)),
        GREY,
        "8 partitions: where they end on west is not known yet",
    ),
    ("records were lost", but(gaps=(gap(485),)), AMBER, "1 gap that nobody has acknowledged, 485 offsets gone"),
    (
        "group sync fails",
        but(jobs=(job("offsets", "backup refuses: not authorized"),)),
        AMBER,
        "groups and checkpoints are not synced: backup refuses: not authorized",
    ),
    (
        "the target is down",
        but(target_problem="no broker of backup answers"),
        RED,
        "cluster backup: does not answer: no broker of backup answers",
    ),
    (
        "two partitions failed",
        but(held=held(FAILED, "a record of {n} is too large", 2)),
        RED,
        "2 partitions: a record of 0 is too large",
    ),
    ("211 partitions are paused", but(held=held(PAUSED, count=211)), AMBER, "211 partitions: paused by order"),
    (
        "half of the source is down",
        but(held=held(WAITING, REFUSED, 4, since=90), lag_records=None),
        RED,
        f"4 partitions: west does not give it: {REFUSED}",
    ),
    (
        "the JVM was killed while it stopped",
        but(processes=(process(FlowState.STOPPING, heard=20),)),
        GREY,
        "its last word was STOPPING",
    ),
    (
        "what a failover would lose is old: the ends are not known",
        but(source_problem="the lag is not known: west does not answer", lag_records=None),
        AMBER,
        "west: the lag is not known",
    ),
    # Processes.
    ("nobody ever ran it", Facts(flow=FLOW, now_ms=NOW), GREY, "no run has reported"),
    ("this process starts it", but(is_starting=True), GREY, "it is starting"),
    ("it starts", but(processes=(process(FlowState.STARTING, started_at_ms=ago(5)),)), GREY, "it is starting"),
    (
        "it starts for three minutes",
        but(processes=(process(FlowState.STARTING, started_at_ms=ago(180)),), tasks=()),
        GREY,
        "west->backup: it is starting",
    ),
    (
        "a second process starts while the first one mirrors",
        but(processes=(process(), process(FlowState.STARTING, started_at_ms=ago(20), pid=8))),
        AMBER,
        "west->backup is mirroring, but process 8 on m1: it is starting",
    ),
    (
        "one of two processes stops",
        but(processes=(process(), process(FlowState.STOPPING, pid=8))),
        AMBER,
        "west->backup is mirroring, but process 8 on m1: it is stopping",
    ),
    (
        "a second process starts, and nothing is heard of the first",
        but(processes=(process(heard=20), process(FlowState.STARTING, pid=8))),
        GREY,
        "2 problems",
    ),
    ("the query runs, and no task has reported", but(tasks=(), lag_records=None), GREY, "no task has reported yet"),
    (
        "a process is quiet for 13 s",
        but(processes=(process(heard=13),)),
        GREY,
        "nothing was heard of process 7 on m1 for 13 s; its last word was RUNNING",
    ),
    ("a process is silent for 36 s", but(processes=(process(heard=36),)), RED, "was killed, or cannot reach backup"),
    (
        "the query is started again",
        but(processes=(process(FlowState.RESTARTING, reason="the disk is full", retry_at_ms=NOW + 4000),)),
        RED,
        "the query failed and is started again: the disk is full",
    ),
    ("it is stopping", but(processes=(process(FlowState.STOPPING),)), GREY, "it is stopping"),
    ("it was stopped", but(processes=(process(FlowState.STOPPED, heard=9000),)), RED, "it was stopped"),
    (
        "a bounded run has copied this flow, and another flow is still being copied",
        but(processes=(COPIED,), tasks=(task(heard=900),), behind_since_ms=ago(800)),
        GREEN,
        "west->backup: all that was there when the bounded run began is mirrored",
    ),
    (
        "a bounded run that has copied it ends",
        but(processes=(replace(COPIED, state=FlowState.STOPPING),), tasks=(task(heard=900),)),
        GREEN,
        "all that was there when the bounded run began is mirrored",
    ),
    (
        "a bounded run has ended well",
        but(processes=(replace(COPIED, state=FlowState.STOPPED, at_ms=ago(9000)),), tasks=(task(heard=9000),)),
        GREY,
        "all that was there when the bounded run began is mirrored; what came since is not known",
    ),
    (
        "a bounded run has ended with an error",
        but(processes=(replace(COPIED, state=FlowState.FAILED, reason="the disk is full"),)),
        RED,
        "it ended: the disk is full",
    ),
    (
        "a bounded run has left a partition out",
        but(processes=(COPIED,), tasks=(task(heard=900),), held=held(FAILED, "too large")),
        RED,
        "orders-0: too large",
    ),
    (
        "it ended with an error",
        but(processes=(process(FlowState.FAILED, reason="fenced by another instance"),)),
        RED,
        "it ended: fenced by another instance",
    ),
    (
        "one of two processes was killed",
        but(processes=(process(), process(heard=50, pid=8))),
        AMBER,
        "process 8 on m1 was killed, or cannot reach backup; others have its tasks",
    ),
    ("one was killed an hour ago", but(processes=(process(), process(heard=3600, pid=8))), GREEN, "is mirroring"),
    ("tasks report, no process does", but(processes=()), GREY, "no process has said how it stands"),
    # Tasks.
    (
        "nothing is mirrored for 31 s",
        but(tasks=(task(stalled_since_ms=ago(31), lag_records=9),)),
        RED,
        "task 0: nothing was mirrored for 31 s, although 9 records can be read",
    ),
    (
        "nothing is mirrored for 29 s",
        but(tasks=(task(stalled_since_ms=ago(29), lag_records=9),)),
        GREEN,
        "is mirroring",
    ),
    ("a task is quiet", but(tasks=(task(heard=30),)), GREY, "task 0: nothing was heard of it for 30 s"),
    (
        "a task is silent",
        but(tasks=(task(), task(heard=70, number=3))),
        RED,
        "task 3: nothing was heard of it for 70 s",
    ),
    (
        "a task has not reported since the epoch began",
        but(silent={1: ago(2)}, lag_records=None),
        GREY,
        "task 1: it has not reported yet; others of its process began to 2.0 s ago",
    ),
    (
        "a task has not reported for a minute",
        but(silent={1: ago(61)}, lag_records=None),
        RED,
        "task 1: it has not reported yet; others of its process began to 61 s ago",
    ),
    (
        "a task has trouble with the target",
        but(tasks=(task(problem="broker 1 of backup does not answer\nhint: look"),)),
        AMBER,
        "task 0: broker 1 of backup does not answer",
    ),
    ("a restart of five minutes ago", but(restarted_at_ms=(ago(300),)), AMBER, "1 restart of workers"),
    ("a restart of eleven minutes ago", but(restarted_at_ms=(ago(660),)), GREEN, "is mirroring"),
    # Partitions.
    ("one failed", but(held=held(FAILED, "too large", retry_at_ms=NOW + 9)), RED, "orders-0: too large"),
    (
        "a failed one of a mirror that was stopped",
        but(processes=(process(FlowState.STOPPED),), held=held(FAILED, "too large")),
        RED,
        "2 problems",
    ),
    ("one is paused", but(held=held(PAUSED)), AMBER, "orders-0: paused by order"),
    (
        "a source broker restarts",
        but(held=held(WAITING, REFUSED, 4, since=10), lag_records=None),
        AMBER,
        "4 partitions",
    ),
    (
        "ends are not known for long",
        but(unknown_ends=3, lag_records=None),
        AMBER,
        "3 partitions: where they end on west is not known yet",
    ),
    ("far behind", but(behind_since_ms=ago(90), lag_records=5000), AMBER, "up to 90 s behind, 5,000 records"),
    ("a little behind", but(behind_since_ms=ago(5), lag_records=5000), GREEN, "is mirroring"),
    # The rest.
    (
        "a job fails",
        but(jobs=(job("topics", "west does not answer"), job("heartbeats", ""))),
        AMBER,
        "topics, settings and ACLs are not kept in step: west does not answer",
    ),
    (
        "heartbeats fail the other way",
        but(jobs=(job("heartbeats", ""), job("heartbeats of backup->west", "not authorized"))),
        AMBER,
        "no heartbeats are written (backup->west): not authorized",
    ),
    (
        "a round of a job does not end",
        but(jobs=(job("offsets", "", heard=700),)),
        AMBER,
        "nothing was heard of the job offsets for 12 min",
    ),
    (
        "a round takes long, as the last one did",
        but(jobs=(job("topics", "", heard=700, cost_seconds=90.0),)),
        GREEN,
        "",
    ),
    ("a job pauses for an hour", but(jobs=(job("topics", "", heard=3000, next_at_ms=ago(-600)),)), GREEN, ""),
    ("an unknown job fails", but(jobs=(job("tidying", "no"),)), AMBER, "the job tidying fails: no"),
    (
        "the copy differs",
        but(verified=VerifyRecord("different", 10, 1, first_difference="orders-0 at 7", at_ms=ago(5))),
        RED,
        "west and backup were found to differ, first in orders-0 at 7",
    ),
    (
        "the copy differed an hour ago, and a sample since then did not",
        but(verified=VerifyRecord("equal", 10, first_difference="orders-0 at 7", different_at_ms=ago(3600))),
        AMBER,
        "west and backup were found to differ, first in orders-0 at 7; samples since then do not have it",
    ),
    ("the copy was not proven equal", but(verified=VerifyRecord("unproven", 10)), GREEN, "is mirroring"),
    (
        "a probe does not arrive",
        but(canary=CanaryState("r", 5, 4, oldest_sent_ms=ago(130)), jobs=(job("canary", ""),)),
        RED,
        "a probe record is under way for 2 min",
    ),
    (
        "a probe of a canary that is switched off now never arrived",
        but(canary=CanaryState("former", 5, 4, oldest_sent_ms=ago(86_400)), jobs=(job("topics", ""),)),
        GREEN,
        "is mirroring",
    ),
    (
        "the canary cannot look for its probes",
        but(canary=CanaryState("r", 5, 4, oldest_sent_ms=ago(130)), jobs=(job("canary", "west does not answer"),)),
        AMBER,
        "1 problems",
    ),
    (
        "a partition is paused before it was asked for",
        but(held=held(PAUSED, knows_end=False), lag_records=None),
        AMBER,
        "orders-0: paused by order | 1 problems",
    ),
    (
        "two things at once",
        but(gaps=(gap(1), gap(2)), held=held(FAILED, "too large")),
        RED,
        "orders-0: too large; and 1 more problem",
    ),
]


@pytest.mark.parametrize(("facts", "level", "sentence"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_each_state_has_its_level_and_its_sentence(facts: Facts, level: Level, sentence: str) -> None:
    found = judge(facts)
    shown = " | ".join([found.sentence, f"{len(found.problems)} problems", *(one.sentence for one in found.problems)])
    assert (found.level, sentence in shown) == (level, True), shown
    assert found.sentence.startswith("west->backup")
    assert all(one.level is not GREEN and one.command and one.page for one in found.problems)
    assert found.is_ready == (level in (GREEN, AMBER))


def test_what_is_not_known_is_not_nothing() -> None:
    """The lag is None, wherever any part of it is unknown."""
    unknown = [row for row in TABLE if row[1].lag_records is None or row[1].target_problem or row[1].is_starting]
    assert len(unknown) >= 8
    assert {judge(facts).lag_records for _, facts, _, _ in unknown} == {None}
    assert judge(WELL).lag_records == 0


def test_while_the_target_does_not_answer_nothing_else_is_said() -> None:
    facts = but(target_problem="it is away", held=held(FAILED, "x"), gaps=(gap(5),), processes=(process(heard=60),))
    found = judge(facts)
    assert [one.scope for one in found.problems] == ["cluster backup"]
    assert found.since_ms == ago(60)


def test_equal_trouble_of_many_partitions_is_one_problem_and_brokers_stay_apart() -> None:
    many = held(WAITING, REFUSED, 105) + held(WAITING, REFUSED.replace("broker 2", "broker 3").replace("0.2", "0.3"), 4)
    problems = find_problems(but(held=many))
    assert [(one.count, one.scope) for one in problems] == [(105, "105 partitions"), (4, "4 partitions")]


def test_a_problem_names_the_command_that_mends_it() -> None:
    def mend(**facts: Any) -> str:
        return judge(but(file="/etc/my mirror.properties", **facts)).problems[0].command

    file = "'/etc/my mirror.properties'"
    assert mend(held=held(PAUSED)) == f"sparkmirror resume {file} --topic orders --partition 0"
    assert mend(held=held(FAILED, "x", 3)) == f"sparkmirror retry {file} --topic orders"
    assert mend(gaps=(gap(5),)) == f"sparkmirror gaps {file} --acknowledge"
    assert mend(processes=(process(FlowState.STOPPED),)) == f"sparkmirror run {file}"


def test_every_problem_leads_to_a_page_that_exists() -> None:
    docs = Path(__file__).parents[3] / "docs"
    pages = {one.page for _, facts, _, _ in TABLE for one in judge(facts).problems}
    for page in pages:
        name, _, anchor = page.partition("#")
        text = (docs / name).read_text()
        titles = [line.strip("# ").lower().replace(" ", "-") for line in text.splitlines() if line.startswith("#")]
        assert not anchor or anchor in titles, page


def test_the_cause_of_a_broken_worker_is_its_last_line() -> None:
    told = 'Traceback (most recent call last):\\n  File "x.py", line 1\\nOSError: no space left on device\\n'
    assert first_line(told) == first_line(told.replace("\\n", "\n")) == "OSError: no space left on device"
    assert first_line("It failed.\nhint: look") == "It failed"
    assert first_line("") == ""


def test_the_worst_flow_speaks_for_all() -> None:
    well, bad = judge(WELL), judge(but(target_problem="it is away"))
    assert sum_up([]) == (GREY, "The mirror is starting")
    assert sum_up([well]) == (GREEN, "west->backup is mirroring")
    assert sum_up([well, well]) == (GREEN, "All 2 flows are mirroring")
    level, sentence = sum_up([well, judge(but(gaps=(gap(1),))), bad])
    assert (level, sentence) == (RED, f"{bad.sentence}; and 1 more flow to look at")


# What the status topic makes known of it.


def board_of(*records: tuple[list[Any], dict[str, Any], float]) -> StatusBoard:
    """Of key, value, and how many seconds ago it was written."""
    board = StatusBoard("west")
    hear(board, *records)
    return board


def hear(board: StatusBoard, *records: tuple[list[Any], dict[str, Any], float]) -> None:
    for key, value, seconds in records:
        kind, *name = key
        board.take(encode_key(kind, "west", *name), encode({"run": "r"} | value), ago(seconds))


def flow_told(heard: float = 1, **more: Any) -> tuple[list[Any], dict[str, Any], float]:
    return ["flow", "m1:7"], {"state": "RUNNING", "host": "m1", "pid": 7, "started_at_ms": ago(900)} | more, heard


def task_told(heard: float = 1, **more: Any) -> tuple[list[Any], dict[str, Any], float]:
    return ["task", 0], {"epoch": 1, "partitions": 2} | more, heard


def part_told(heard: float = 1, **more: Any) -> tuple[list[Any], dict[str, Any], float]:
    return ["partition", "orders", 1], {"task": 0, "epoch": 1, "offset": 7, "end": 9} | more, heard


def judged(board: StatusBoard, **more: Any) -> Verdict:
    return judge(gather(FLOW, board, NOW, **more))


REFUSAL: dict[str, Any] = {"state": "FAILED", "reason": "too large", "retry_at_ms": NOW + 1}


def test_a_failure_survives_epochs_attempts_and_runs_until_the_partition_has_moved() -> None:
    begun = [flow_told(), task_told(9), part_told(40, **REFUSAL)]
    again = [task_told(5, epoch=2), part_told(20, epoch=2)]
    later = [flow_told(run="r2"), task_told(run="r2"), part_told(run="r2", end=None)]
    for records in (begun, begun + again, [*begun, *again, *later]):
        found = judged(board_of(*records))
        assert (found.level, found.problems[0].sentence, found.since_ms) == (RED, "orders-1: too large", ago(40))
    assert judged(board_of(*begun, *again, part_told(epoch=2, offset=8))).level is not RED
    assert judged(board_of(*begun, part_told(epoch=2, end=7), flow_told(), task_told())).level is GREEN


def test_the_history_tells_of_failures_and_restarts_that_compaction_has_taken() -> None:
    failing = {"topic": "orders", "partition": 1, "since_ms": ago(500), "offset": 7, "reason": "too large"}
    history = (["history"], {"failing": [failing], "restarts": [ago(90), ago(80)]}, 50)
    for records in ([history, part_told(5, epoch=3)], [part_told(5, epoch=3), history]):
        found = judged(board_of(flow_told(), task_told(), *records))
        assert (found.problems[0].sentence, found.since_ms) == ("orders-1: too large", ago(500))
        assert found.problems[1].count == 2
    moved = judged(board_of(flow_told(), task_told(), history, part_told(5, epoch=3, offset=8)))
    assert moved.level is AMBER


def test_the_history_tells_what_the_source_is_waited_for_that_compaction_has_taken() -> None:
    waiting = {"topic": "orders", "partition": 1, "since_ms": ago(500), "reason": REFUSED}
    history = (["history"], {"waiting": [waiting]}, 50)
    asked = [task_told(unknown_ends=1), part_told(5, epoch=3, end=None)]
    refused = [task_told(), part_told(5, epoch=3, state="WAITING", reason=REFUSED)]
    for records in ([history, *asked], [*asked, history], [history, *refused], [*refused, history]):
        found = judged(board_of(flow_told(), *records))
        assert (found.level, len(found.problems), found.since_ms, found.lag_records) == (RED, 1, ago(500), None)
        assert "west does not give it" in found.sentence
    answered = part_told(5, epoch=3, end=9)
    for records in ([history, answered], [answered, history]):
        assert judged(board_of(flow_told(), task_told(), *records)).level is GREEN


def test_every_attempt_of_a_task_and_every_start_of_a_query_is_a_restart() -> None:
    attempts = [task_told(40 - 5 * n, producer_epoch=n) for n in range(8)]
    assert judged(board_of(flow_told(), *attempts)).problems[0].count == 7
    starts = [flow_told(30 - n, restarts=n) for n in range(3)]
    assert judged(board_of(*starts, flow_told(restarts=2), task_told())).problems[0].count == 2
    epochs = [task_told(40 - 5 * n, producer_epoch=n, epoch=n) for n in range(8)]
    assert judged(board_of(flow_told(), *epochs)).level is GREEN


def test_a_gap_holds_amber_until_it_is_acknowledged_and_again_where_it_is_found_again() -> None:
    lost = replace(gap(485), topic_id=UUID(int=5))
    board = board_of(flow_told(), task_told())
    assert judged(board, gaps=[lost]).level is AMBER
    board.take(*encode_record("west", AcknowledgedRecord.of(lost, "me")), NOW)
    assert judged(board, gaps=[lost]).level is GREEN
    assert judged(board, gaps=[lost, gap(3)]).problems[0].count == 1
    assert judged(board, gaps=[replace(lost, at_ms=lost.at_ms + 1)]).level is AMBER


def test_the_lag_is_not_known_until_every_partition_was_answered() -> None:
    board = board_of(flow_told(started_at_ms=ago(5)), task_told(unknown_ends=2, lag_records=0))
    assert (judged(board).level, judged(board).lag_records) == (GREY, None)
    waits: dict[str, Any] = {"state": "WAITING", "reason": REFUSED}
    board = board_of(flow_told(), task_told(lag_records=0), part_told(**waits))
    assert (judged(board).level, judged(board).lag_records) == (AMBER, None)
    paused = part_told(state="PAUSED", end=None)
    board = board_of(flow_told(started_at_ms=ago(5)), task_told(unknown_ends=1, lag_records=0), paused)
    assert (judged(board).level, judged(board).lag_records) == (AMBER, None), "why it is not known is said"


def test_a_partition_waits_through_the_ends_of_epochs_until_the_source_has_answered() -> None:
    waits: dict[str, Any] = {"state": "WAITING", "reason": REFUSED, "epoch": 1}
    board = board_of(flow_told(), task_told(), part_told(heard=70, **waits))
    hear(board, task_told(epoch=2, unknown_ends=1), part_told(heard=30, epoch=2, end=None))
    verdict = judged(board)
    assert (verdict.level, verdict.lag_records, len(verdict.problems)) == (RED, None, 1), verdict
    assert "west does not give it" in verdict.problems[0].cause
    hear(board, task_told(epoch=2), part_told(epoch=2, end=9))
    assert judged(board).level is GREEN


def test_the_lag_is_not_known_while_a_partition_is_paused_for_nobody_asks_where_it_ends() -> None:
    board = board_of(flow_told(), task_told(lag_records=0), part_told(state="PAUSED", offset=9, end=9))
    verdict = judged(board)
    assert (verdict.level, verdict.lag_records) == (AMBER, None)
    assert [problem.cause for problem in verdict.problems] == ["paused by order"]
    assert board.partitions[TopicPartition("orders", 1)].lag_records is None


def test_the_lag_is_not_known_while_a_partition_failed_before_the_source_answered_or_its_place_cannot_be_read() -> None:
    """Its task counts it neither in its lag nor among those of which the end is not known."""
    unreadable: list[dict[str, Any]] = [{"end": None}, {"offset": None}]
    for unread in unreadable:
        verdict = judged(board_of(flow_told(), task_told(lag_records=0), part_told(**REFUSAL, **unread)))
        assert (verdict.level, verdict.lag_records, len(verdict.problems)) == (RED, None, 1), unread
    begun = [flow_told(), task_told(9), part_told(40, **REFUSAL, end=None)]
    again = [task_told(5, epoch=2, unknown_ends=1), part_told(20, epoch=2, end=None)]
    verdict = judged(board_of(*begun, *again))
    assert (verdict.level, verdict.lag_records, len(verdict.problems)) == (RED, None, 1), "its state says why"
    assert judged(board_of(flow_told(), task_told(lag_records=2), part_told(**REFUSAL))).lag_records == 2


def test_the_lag_of_a_partition_that_waits_for_the_source_is_not_known() -> None:
    board = board_of(flow_told(), task_told(), part_told(state="WAITING", reason=REFUSED, offset=9, end=9))
    assert board.partitions[TopicPartition("orders", 1)].lag_records is None
