"""Which tasks a process may run, and what it may take on while its epoch goes on."""

from typing import cast

import pytest
from tests.flows import flow_of

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.command_state import CommandState
from sparkmirror.control.commands import Began, Share, Slots
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.membership import Peer
from sparkmirror.planning import ownership as duty
from sparkmirror.planning.ownership import TaskOwnership

TARGET = cast(Admin, None)


class Group:
    """The group of processes on a target, and what was told on its command topic."""

    def __init__(self) -> None:
        self.members = {"m"}
        self.told: list[Began] = []

    def list_peers(self, _target: Admin, _group: str) -> list[Peer]:
        return [Peer(member, "c", "h", b"", b"") for member in self.members]


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Group:
    group = Group()
    monkeypatch.setattr(duty, "list_peers", group.list_peers)
    return group


@pytest.fixture
def flow() -> FlowConfig:
    return flow_of("tasks.max = 4")


def share(number: int, *tasks: int, at_once: bool = True) -> Share:
    return Share("run", "p", number, frozenset(tasks), "m", at_once)


def working(flow: FlowConfig, *tasks: int, group: Group | None = None) -> tuple[TaskOwnership, CommandState]:
    """In an epoch with these tasks."""
    book = CommandState(flow, "run", "p")
    book.share = share(1, *tasks)
    one = TaskOwnership(flow, "run", "p", book, (group or Group()).told.append)
    one.take(TARGET)
    return one, book


def test_who_shares_with_nobody_runs_everything(flow: FlowConfig) -> None:
    one = TaskOwnership(flow, "run", "", CommandState(flow, "run", ""), Group().told.append)
    one.take(TARGET)
    assert one.tasks == {0, 1, 2, 3} and one.has_work(TARGET)
    assert not one.can_grow and not one.growth(TARGET)


def test_who_shares_runs_what_it_was_granted_as_long_as_it_is_in_the_group(flow: FlowConfig, group: Group) -> None:
    one, _ = working(flow, 0, 2)
    assert one.tasks == {0, 2} and one.has_work(TARGET)
    group.members = {"another"}
    one.take(TARGET)
    assert one.tasks == frozenset() and not one.has_work(TARGET)


@pytest.mark.usefixtures("group")
def test_what_others_leave_is_taken_beside_what_runs(flow: FlowConfig) -> None:
    one, book = working(flow, 0, 2)
    assert one.can_grow and not one.growth(TARGET), "nothing was left yet"
    book.share = share(2, 0, 1, 2, 3)
    assert one.growth(TARGET) == {1, 3}
    one.tasks |= {1, 3}
    assert not one.can_grow and not one.growth(TARGET)


@pytest.mark.parametrize(
    "granted", [share(2, 0), share(2, 0, 1, 3), share(2), share(2, 0, 2), share(2, 0, 1, 2, at_once=False)]
)
@pytest.mark.usefixtures("group")
def test_what_takes_something_away_or_is_not_free_yet_waits_for_the_next_epoch(
    flow: FlowConfig, granted: Share
) -> None:
    one, book = working(flow, 0, 2)
    book.share = granted
    assert not one.growth(TARGET)
    assert one.can_grow == (granted.tasks == {0, 2}), "nothing is to be heard of before"


def test_nothing_is_taken_by_who_is_out_of_the_group_ends_or_runs_nothing(flow: FlowConfig, group: Group) -> None:
    one, book = working(flow, 0, 2)
    book.share = share(2, 0, 1, 2, 3)
    book.is_stopped = True
    assert not one.growth(TARGET), "it would be fenced a moment later"
    book.is_stopped = False
    group.members = {"another"}
    assert not one.growth(TARGET), "it would fence those who work"
    group.members = {"m"}
    resting, book = working(flow)
    book.share = share(2, 0, 1)
    assert not resting.can_grow and not resting.growth(TARGET), "no task is there that could mirror them"


def test_the_others_are_reported_once_that_a_share_is_kept(flow: FlowConfig, group: Group) -> None:
    one, book = working(flow, 0, 2, group=group)
    one.tell_began()
    one.tell_began()
    assert group.told == [Began("run", "p", 1)]
    book.share = share(2)
    one.back_off()
    assert group.told[1:] == [Began("run", "p", 2)] and not one.tasks
    book.share, book.is_stopped = share(3), True
    one.back_off()
    assert len(group.told) == 2, "it ends, and its group is told by its leaving"


@pytest.mark.usefixtures("group")
def test_slots_limit_how_many_tasks_run_and_how_long(flow: FlowConfig) -> None:
    one, book = working(flow)
    assert (one.granted_slots, one.epoch_seconds) == (None, flow.epoch_seconds)
    book.slots = Slots("run", "p", 2, 10)
    assert (one.granted_slots, one.epoch_seconds) == (2, 10.0)
