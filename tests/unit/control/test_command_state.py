"""What a planner takes from all commands so far."""

import time
from types import SimpleNamespace

import pytest
from msgspec.structs import replace
from tests.flows import flow_of

from sparkmirror.control import command_state
from sparkmirror.control.command_state import CommandState
from sparkmirror.control.commands import (
    Assign,
    Command,
    Pause,
    Resume,
    Share,
    Throttle,
    command_key,
    command_record,
    decode_command,
)
from sparkmirror.kafka.tail import TailRecord
from sparkmirror.model import Cluster, TopicPartition

WHERE = TopicPartition("commands", 0)


def read(monkeypatch: pytest.MonkeyPatch, *commands: Command) -> CommandState:
    now_ms = time.time_ns() // 1_000_000
    records = [TailRecord(WHERE, at, now_ms, *command_record(one)) for at, one in enumerate(commands)]
    tail = SimpleNamespace(read_to_end=lambda _: records)
    monkeypatch.setattr(CommandState, "_follow", lambda _: tail)
    state = CommandState(flow_of("A->B.enabled = true"), "run", "p")
    state.read()
    return state


def test_the_generation_of_any_runs_orders_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that sleeps obeys them when it wakes, and the ledger may have nothing of it."""
    state = read(monkeypatch, Assign("run", 3, 0), Assign("another run", 7, 0), Assign("run", 5, 1))
    assert state.ordered_generation == 7


def test_no_order_makes_generations_end(monkeypatch: pytest.MonkeyPatch) -> None:
    state = read(monkeypatch, Assign("run", (1 << 63) - 1, 0))
    assert state.ordered_generation == command_state._GENERATION_MAX


def test_what_was_read_is_not_heard_again_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hearing begins at the topic's beginning, and an epoch may begin before it has come to what was read."""
    throttles = [Throttle("run", "", rate) for rate in (1000, 5000, 7000)]
    records = [TailRecord(WHERE, at, 0, *command_record(one)) for at, one in enumerate(throttles)]
    state = read(monkeypatch, *throttles[:2])
    heard = iter([records[:1], records[1:]])
    monkeypatch.setattr(state, "_ear", SimpleNamespace(poll=lambda _: next(heard)))
    state.hear(0.0)
    assert state.orders == (throttles[1],)
    state.hear(0.0)
    assert state.orders == (throttles[2],)


def test_throttles_are_known_in_the_order_in_which_they_were_given_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last that matches a topic counts, in a task that hears them and in one that begins later."""
    all_of_it, few = Throttle("run", ".*", 1), Throttle("run", "a.*", 3)
    state = read(monkeypatch, Throttle("run", "a.*", 2), all_of_it, Pause("run", 5, "", None), few)
    assert state.orders == (Pause("run", 5, "", None), all_of_it, few)


def test_orders_that_the_topic_would_forget_are_written_again_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that starts again, or a process that joins, reads what a person has ordered since the run began."""
    pause, resume, rate = Pause("run", 1, "", None), Resume("run", 2, "a", None), Throttle("run", "", 7)
    now_ms = time.time_ns() // 1_000_000
    old: list[tuple[Command, int]] = [
        (Share("run", "p", 1, frozenset(), "m"), 99),
        (pause, 13),
        (Pause("another", 1, "", None), 99),
        (resume, 1),
        (rate, 1),
    ]
    ages = [TailRecord(WHERE, 0, now_ms - hours * 3_600_000, *command_record(one)) for one, hours in old]
    written: list[tuple[bytes, bytes]] = []

    def publish(_cluster: Cluster, topic: str, some: list[tuple[bytes, bytes]]) -> None:
        assert topic == "mm2-sparkmirror-commands.A.internal"
        written.extend(some)

    unread = [ages[:1], ages[1:]]

    def read_to_end(_: float) -> list[TailRecord]:
        return unread.pop(0) if unread else [TailRecord(WHERE, 0, now_ms, *one) for one in written]

    tail = SimpleNamespace(read_to_end=read_to_end)
    monkeypatch.setattr(CommandState, "_follow", lambda _: tail)
    monkeypatch.setattr(command_state, "publish", publish)
    state = CommandState(flow_of("A->B.enabled = true"), "run", "p")
    state.read()
    assert written == [], "shares are written when they change"
    state.read()
    assert [(decode_command(value), key) for key, value in written] == [
        (replace(one, since_ms=now_ms - 13 * 3_600_000 + at), command_key(one))
        for one, at in ((pause, 0), (resume, 12 * 3_600_000), (rate, 12 * 3_600_000 + 1))
    ]
    state.read()
    state.read()
    assert len(written) == 3 and state.orders == (pause, resume, rate), "their last records are young"


def test_orders_are_written_again_once_where_the_topic_gives_its_records_no_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two processes that wait for commands woke each other without end: each record that one wrote was too old, too."""
    pause = Pause("run", 1, "", None)
    written: list[object] = []
    tail = SimpleNamespace(read_to_end=lambda _: [TailRecord(WHERE, 0, -1, *command_record(pause))])
    monkeypatch.setattr(CommandState, "_follow", lambda _: tail)
    monkeypatch.setattr(command_state, "publish", lambda *_: written.append(_))
    state = CommandState(flow_of("A->B.enabled = true"), "run", "p")
    for _ in range(3):
        state.read()
    assert len(written) == 1


def test_what_a_process_that_slept_writes_again_comes_before_what_was_ordered_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a partition that was resumed meanwhile would stand still, and a rate that was lifted would hold."""
    pause, resume = Pause("run", 1, "", None), Resume("run", 2, "", None)
    slow, fast = Throttle("run", "", 5), Throttle("run", "", 9)
    began = read(monkeypatch, pause, slow)
    (since, rate_since) = (began._since_ms[one] for one in (pause, slow))
    late = (replace(pause, since_ms=since), replace(slow, since_ms=rate_since))
    assert read(monkeypatch, pause, slow, resume, fast, *late).orders == (pause, resume, fast)
    compacted = read(monkeypatch, resume, fast, *late)
    assert compacted.orders == (pause, resume, fast)


def test_an_order_that_is_given_again_counts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, fast = Throttle("run", "", 5), Throttle("run", "", 9)
    assert read(monkeypatch, slow, fast, slow).orders == (slow,)
    again = Pause("run", 3, "", None)
    assert read(monkeypatch, Pause("run", 1, "", None), Resume("run", 2, "", None), again).orders[-1] == again


def test_a_person_s_order_is_later_than_those_before_it_whatever_a_broker_s_clock_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pause, resume = Pause("run", 9, "", None), Resume("run", 2, "", None)
    records = [TailRecord(WHERE, 0, 5000, *command_record(pause)), TailRecord(WHERE, 1, 4000, *command_record(resume))]
    monkeypatch.setattr(CommandState, "_follow", lambda _: SimpleNamespace(read_to_end=lambda _: records))
    monkeypatch.setattr(command_state, "publish", lambda *_: None)
    state = CommandState(flow_of("A->B.enabled = true"), "run", "p")
    state.read()
    assert state.orders == (pause, resume)
