"""What a planner takes from all commands so far."""

from types import SimpleNamespace

import pytest
from tests.flows import flow_of

from sparkmirror.control import command_state
from sparkmirror.control.command_state import CommandState
from sparkmirror.control.commands import Assign, Command, command_record
from sparkmirror.kafka.tail import TailRecord
from sparkmirror.model import TopicPartition

WHERE = TopicPartition("commands", 0)


def read(monkeypatch: pytest.MonkeyPatch, *commands: Command) -> CommandState:
    records = [TailRecord(WHERE, at, 0, *command_record(one)) for at, one in enumerate(commands)]
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
