"""Tasks are free at once when whoever ran them has said that it does not, or is known to be dead."""

import pytest

from sparkmirror.control.commands import Share
from sparkmirror.sharing import same_machine
from sparkmirror.sharing.same_machine import Predecessors

TOPIC = "commands of A"
DEAD = "member of a dead process"


@pytest.fixture(autouse=True)
def _dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same_machine, "is_dead_neighbour", lambda member: member == DEAD)


def share(process: str, number: int, *tasks: int, member: str = "", run: str = "run") -> Share:
    return Share(run, process, number, frozenset(tasks), member or f"member of {process}")


def noted(*shares: Share) -> Predecessors:
    found = Predecessors()
    for one in shares:
        found.note(TOPIC, one)
    return found


def test_who_ran_a_task_of_which_the_topic_says_nothing_may_only_sleep() -> None:
    """Its share was written before the topic's retention, and it has run the task ever since."""
    found = noted(share("p", 1, 0, 1), share("q", 1, 2), share("r", 1, 2, 3, run="an earlier one"), share("s", 1, 4))
    found.note(TOPIC, share("s", 2))
    found.note(TOPIC, share("r", 2, run="an earlier one"))
    wanted = share("p", 2, 0, 1, 3, 4)
    assert found.have_ended(TOPIC, wanted, {4}), "s has let go of it"
    assert not found.have_ended(TOPIC, wanted, {3}), "of this run nobody is known who ran it"
    assert not found.have_ended(TOPIC, wanted, {3, 4})
    assert not found.have_ended(TOPIC, wanted, {2, 4}), "q may only sleep"
    assert not found.have_ended("commands of C", wanted, {4}), "another flow's"
    assert not Predecessors().have_ended(TOPIC, wanted, {4})


def test_who_leaves_or_lets_go_of_tasks_has_said_so() -> None:
    found = noted(share("q", 1, 2, 3), share("q", 2, 2))
    assert found.have_ended(TOPIC, share("p", 2, 0, 3), {3})
    assert not found.have_ended(TOPIC, share("p", 2, 0, 2), {2})
    found.note(TOPIC, share("q", 3))
    assert found.have_ended(TOPIC, share("p", 2, 0, 2), {2})


def test_what_a_dead_process_of_this_machine_ran_is_free() -> None:
    assert noted(share("q", 1, 2, 3, member=DEAD)).have_ended(TOPIC, share("p", 2, 0, 2, 3), {2, 3})


def test_a_process_counts_once_whatever_its_queries_and_memberships() -> None:
    found = noted(share("q", 1, 2, 3), share("q again", 1, 2, 3, member="member of q"), share("q again", 2, member=""))
    assert found.have_ended(TOPIC, share("p", 2, 0, 2), {2}), "its first query ended, its second was told to"
    own = noted(share("p", 1, 2, 3), share("p again", 1, 0, member="member of p"))
    assert own.have_ended(TOPIC, share("p again", 2, 0, 2, member="member of p"), {2}), "it ran that itself"


def test_the_same_member_in_another_flow_is_another_matter() -> None:
    found = noted(share("q", 1, 2))
    found.note("commands of C", share("q of C", 1, member="member of q"))
    assert not found.have_ended(TOPIC, share("p", 2, 0, 2), {2})
