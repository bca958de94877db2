"""Tasks are free at once when whoever ran them has said that it does not, or is known to be dead."""

import pytest

from sparkmirror.control.commands import Began, Share
from sparkmirror.sharing import same_machine
from sparkmirror.sharing.same_machine import Predecessors

TOPIC = "commands of A"
DEAD = "member of a dead process"


@pytest.fixture(autouse=True)
def _dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same_machine, "is_dead_neighbour", lambda member: member == DEAD)


def share(process: str, number: int, *tasks: int, member: str = "", run: str = "run") -> Share:
    return Share(run, process, number, frozenset(tasks), member or f"member of {process}")


def last(process: str, number: int, run: str = "run") -> Share:
    return Share(run, process, number, frozenset(), f"member of {process}", has_ended=True)


def noted(*commands: Share | Began) -> Predecessors:
    found = Predecessors()
    for one in commands:
        if isinstance(one, Share):
            found.note(TOPIC, one)
        else:
            found.note_began(TOPIC, one)
    return found


def test_who_ran_a_task_of_which_the_topic_says_nothing_may_only_sleep() -> None:
    """Its share was written before the topic's retention, and it has run the task ever since."""
    found = noted(share("p", 1, 0, 1), share("q", 1, 2), share("r", 1, 2, 3, run="an earlier one"), share("s", 1, 4))
    found.note(TOPIC, last("s", 2))
    found.note(TOPIC, last("r", 2, run="an earlier one"))
    wanted = share("p", 2, 0, 1, 3, 4)
    assert found.have_ended(TOPIC, wanted, {4}), "s has let go of it"
    assert not found.have_ended(TOPIC, wanted, {3}), "of this run nobody is known who ran it"
    assert not found.have_ended(TOPIC, wanted, {3, 4})
    assert not found.have_ended(TOPIC, wanted, {2, 4}), "q may only sleep"
    assert not found.have_ended("commands of C", wanted, {4}), "another flow's"
    assert not Predecessors().have_ended(TOPIC, wanted, {4})


def test_who_leaves_or_keeps_to_a_share_without_a_task_has_ended_it() -> None:
    found = noted(share("q", 1, 2, 3), share("q", 2, 2), Began("run", "q", 2))
    assert found.have_ended(TOPIC, share("p", 2, 0, 3), {3})
    assert not found.have_ended(TOPIC, share("p", 2, 0, 2), {2})
    found.note(TOPIC, last("q", 3))
    assert found.have_ended(TOPIC, share("p", 2, 0, 2), {2})


def test_who_wakes_and_says_that_it_may_run_nothing_has_yet_to_end_what_it_runs() -> None:
    """The group has put it out meanwhile, and its first share says so; batches are still under way."""
    found, wanted = noted(share("q", 1, 2, 3), Began("run", "q", 1), Share("run", "q", 2, frozenset(), "")), {2, 3}
    assert not found.have_ended(TOPIC, share("p", 2, 0, 2, 3), wanted)
    found.note(TOPIC, share("q", 3, member="another member"))
    found.note_began(TOPIC, Began("run", "q", 2))
    assert not found.have_ended(TOPIC, share("p", 2, 0, 2, 3), wanted), "that was an earlier share"
    found.note_began(TOPIC, Began("run", "q", 3))
    assert found.have_ended(TOPIC, share("p", 2, 0, 2, 3), wanted)


def test_a_process_that_joined_again_with_another_query_is_known_by_its_mark() -> None:
    mark = "sparkmirror-share-0a1b2c3d-4711-99-"
    first, second = mark + "11111111-1111-1111-1111-111111111111", mark + "22222222-2222-2222-2222-222222222222"
    found = noted(share("q", 1, 2, 3, member=first), share("q again", 2, 3, member=second), Began("run", "q again", 2))
    assert found.have_ended(TOPIC, share("p", 2, 0, 2), {2})
    found.note(TOPIC, share("r", 1, 2, member=mark.replace("4711", "4712")))
    assert not found.have_ended(TOPIC, share("p", 2, 0, 2), {2}), "its neighbour has it since"


def test_what_a_dead_process_of_this_machine_ran_is_free() -> None:
    assert noted(share("q", 1, 2, 3, member=DEAD)).have_ended(TOPIC, share("p", 2, 0, 2, 3), {2, 3})


def test_a_process_counts_once_whatever_its_queries_and_memberships() -> None:
    again = share("q again", 1, 2, 3, member="member of q"), share("q again", 2, member=""), Began("run", "q again", 2)
    found = noted(share("q", 1, 2, 3), *again)
    assert found.have_ended(TOPIC, share("p", 2, 0, 2), {2}), "its first query ended, and its second"
    own = noted(share("p", 1, 2, 3), share("p again", 1, 0, member="member of p"), Began("run", "p again", 1))
    assert own.have_ended(TOPIC, share("p again", 2, 0, 2, member="member of p"), {2}), "it ran that itself"


def test_the_same_member_in_another_flow_is_another_matter() -> None:
    found = noted(share("q", 1, 2))
    found.note("commands of C", share("q of C", 1, member="member of q"))
    assert not found.have_ended(TOPIC, share("p", 2, 0, 2), {2})
