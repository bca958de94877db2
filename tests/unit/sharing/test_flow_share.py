"""What a process tells its planner and its group: a task counts as running until its planner has let go of it."""

from tests.flows import flow_of

from sparkmirror.control.commands import Began, Share
from sparkmirror.sharing.assignment import MemberAssignment
from sparkmirror.sharing.flow_share import FlowShare


def flow_share() -> FlowShare:
    return FlowShare(flow_of("tasks.max = 4"), "f", 7)


def granted(*tasks: int, run: str = "run", rival: str = "", is_obeyed: bool = True) -> MemberAssignment:
    return MemberAssignment("A->B", run, frozenset(tasks), rival, is_obeyed)


def begun(one: FlowShare) -> FlowShare:
    """Its query is there."""
    one.on_began(Began("run", "p", sent(one).number))
    return one


def sent(one: FlowShare, member: str = "m") -> Share:
    share = one.next_share(member)
    assert share is not None
    one.mark_sent(share)
    return share


def test_a_planner_is_sent_its_share_once_and_again_when_that_changes() -> None:
    one = flow_share()
    one.on_assignment(granted(0, 1, 2, 3))
    assert one.next_share("m") is None, "no query waits for it"
    one.begin_query("run", "p")
    assert sent(one).tasks == {0, 1, 2, 3}
    assert one.next_share("m") is None
    one.on_assignment(granted(0, 1))
    assert sent(one) == Share("run", "p", 2, frozenset({0, 1}), "m")
    one.begin_query("run", "p-again")
    assert sent(one).process == "p-again", "a query that was started again knows nothing"


def test_tasks_count_as_running_until_the_planner_has_begun_without_them() -> None:
    one = flow_share()
    one.on_assignment(granted(0, 1, 2, 3))
    one.begin_query("run", "p")
    begun(one)
    one.on_assignment(granted(0, 1))
    number = sent(one).number
    assert one.awaits_planner and one.claim().held == {0, 1, 2, 3}
    assert not one.on_began(Began("run", "p", number - 1)), "of an earlier share"
    assert not one.on_began(Began("run", "other", number))
    assert one.on_began(Began("run", "p", number))
    assert one.claim().held == {0, 1} and not one.awaits_planner


def test_a_share_that_may_not_have_arrived_counts_as_running() -> None:
    one = flow_share()
    one.on_assignment(granted(3))
    one.begin_query("run", "p")
    lost = one.next_share("m")
    assert one.claim().held == {3}
    again = one.next_share("m")
    assert lost and again and again.number > lost.number, "else the planner would take the second for the first"


def test_an_old_word_of_the_planner_does_not_let_go_of_tasks_that_it_is_being_given() -> None:
    """Who takes over from a sleeper reads the command topic, and finds what its own planner said before."""
    one = flow_share()
    one.on_assignment(granted(1))
    one.begin_query("run", "p")
    begun(one)
    one.on_assignment(granted(0, 1))
    on_its_way = one.next_share("m")
    assert on_its_way is not None
    assert not one.on_began(Began("run", "p", on_its_way.number - 1))
    assert one.claim().held == {0, 1}, "or another would be granted task 0, and fence it here"
    one.mark_sent(on_its_way)
    one.on_began(Began("run", "p", on_its_way.number))
    assert one.claim().held == {0, 1}


def test_who_is_out_of_the_group_tells_its_planner_to_run_nothing_and_claims_nothing() -> None:
    one = flow_share()
    one.on_assignment(granted(0, 1))
    one.begin_query("run", "p")
    sent(one)
    one.on_membership_lost(now=5.0)
    assert sent(one, member="").tasks == frozenset()
    one.on_assignment(granted(1, run="another"))
    assert one.next_share("new") is not None, "it is a member of another name"
    assert sent(one, "new").tasks == frozenset(), "a query of the old run gets nothing of the new one"
    assert one.claim().held == frozenset()


def test_after_a_loss_the_group_fences_until_the_tasks_have_begun_again() -> None:
    one = flow_share()
    one.on_assignment(granted(0, 1, 2, 3))
    one.begin_query("run", "p")
    before = sent(one).number
    one.on_began(Began("run", "p", before))
    one.on_membership_lost(now=5.0)
    assert one.lost_at == 5.0
    one.on_began(Began("run", "p", before))
    assert one.lost_at == 5.0, "begun before the loss"
    number = sent(one, member="").number
    assert one.awaits_planner
    one.on_began(Began("run", "p", number))
    assert one.lost_at == 0.0, "whoever fences it now is somebody else"


def test_a_process_that_gets_everything_at_once_says_nothing_of_sharing() -> None:
    one = flow_share()
    assert one.on_assignment(granted(0, 1, 2, 3)) == []
    assert one.on_assignment(granted(0, 1)) == ["this process runs tasks 0, 1 of 4"]
    assert one.on_assignment(granted(0, 1, 2, 3)) == ["this process runs tasks 0, 1, 2, 3 of 4"]


def test_a_person_hears_what_runs_here_and_whose_file_says_something_else() -> None:
    one = flow_share()
    assert one.on_assignment(granted(0, 2)) == ["this process runs tasks 0, 2 of 4"]
    assert one.on_assignment(granted(0, 2)) == []
    (said,) = one.on_assignment(granted(0, 2, rival="process 9 on h"))
    assert said.startswith("process 9 on h has a file that says something else of this flow; this process's")
    less, lost = one.on_assignment(granted(rival="process 9 on h", is_obeyed=False))
    assert less == "this process runs tasks none of 4"
    assert lost.endswith("so this process runs nothing of the flow")


def test_a_process_is_ready_when_its_query_has_said_so_and_the_group_is_to_know() -> None:
    one = flow_share()
    one.on_assignment(granted())
    assert not one.claim().is_ready
    one.begin_query("run", "p")
    share = sent(one)
    assert one.awaits_planner and share.tasks == frozenset()
    assert one.on_began(Began("run", "p", share.number)), "others may give it tasks now"
    assert one.claim().is_ready and not one.awaits_planner


def test_tasks_that_are_added_to_the_share_that_the_planner_has_may_be_taken_at_once() -> None:
    one = flow_share()
    one.on_assignment(granted(0, 1))
    one.begin_query("run", "p")
    first = one.next_share("m")
    assert first is not None and one.added(first) == frozenset(), "no task runs yet that could take them"
    one.mark_sent(first)
    one.on_assignment(granted(0, 1, 3))
    grown = one.next_share("m")
    assert grown is not None and one.added(grown) == {3}
    one.mark_sent(grown)
    one.on_assignment(granted(0, 2, 3))
    moved = one.next_share("m")
    assert moved is not None and one.added(moved) == frozenset(), "1 has to end first"


def test_who_ends_tells_the_others_that_it_runs_nothing() -> None:
    one = flow_share()
    assert one.final_share("m") is None, "nothing has begun"
    one.on_assignment(granted(0, 1))
    one.begin_query("run", "p")
    number = sent(one).number
    assert one.final_share("m") == Share("run", "p", number + 1, frozenset(), "m", has_ended=True)
