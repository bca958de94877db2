"""Which offsets a mirror starts from, and which it commits: the group on the source beside the ledger on the target."""

from sparkmirror.kafka.group_answers import Committed
from sparkmirror.model import Position, TopicPartition
from sparkmirror.sync.source_group import mark_of, plan_adoption, plan_commit, plan_mark

OURS = mark_of("east")
WHERE = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)


def adopted(group: Committed | None, ledger: int | None) -> int | None:
    """The offset that the group gives the partition, None where the ledger or `auto.offset.reset` decides."""
    plan = plan_adoption(
        {} if group is None else {WHERE: group}, {} if ledger is None else {WHERE: Position(ledger)}, OURS
    )
    return plan.get(WHERE)


def test_the_first_start_begins_where_mirrormaker_1_stopped() -> None:
    assert adopted(Committed(41), None) == 41
    assert adopted(None, None) is None


def test_our_own_commit_is_older_than_the_ledger_which_goes_on() -> None:
    assert adopted(Committed(41, OURS), 99) is None
    assert adopted(Committed(41, OURS), 12) is None, "a source that was cut off led the ledger back"


def test_our_own_commit_counts_where_the_ledger_is_gone() -> None:
    assert adopted(Committed(41, OURS), None) == 41


def test_our_own_commit_does_not_stand_in_for_a_position_that_cannot_be_read() -> None:
    assert plan_adoption({WHERE: Committed(41, OURS)}, {}, OURS, {WHERE}) == {}
    assert plan_adoption({WHERE: Committed(41)}, {}, OURS, {WHERE}) == {WHERE: 41}, "an operator has said where"


def test_an_operator_who_resets_the_group_is_obeyed_in_both_directions() -> None:
    assert adopted(Committed(0), 99) == 0
    assert adopted(Committed(500), 99) == 500
    assert adopted(Committed(99), 99) is None


def test_another_address_of_the_source_is_another_ledger() -> None:
    assert adopted(Committed(500, mark_of("west")), 99) == 500


def test_what_moved_is_committed_with_our_mark() -> None:
    group = {WHERE: Committed(5, OURS), OTHER: Committed(7, OURS)}
    ledger = {WHERE: Position(9, ((3, 0),)), OTHER: Position(7), TopicPartition("new", 0): Position(0)}
    plan = plan_commit(group, ledger, OURS)
    assert plan.commits == {WHERE: Committed(9, OURS, 3), TopicPartition("new", 0): Committed(0, OURS)}
    assert plan.set_by_others == ()


def test_idle_partitions_are_committed_again_before_brokers_let_them_expire() -> None:
    plan = plan_commit({WHERE: Committed(5, OURS)}, {WHERE: Position(5)}, OURS, renew=True)
    assert plan.commits == {WHERE: Committed(5, OURS)}


def test_a_reset_while_the_mirror_runs_stands_until_the_next_start() -> None:
    plan = plan_commit({WHERE: Committed(0), OTHER: Committed(1, OURS)}, {WHERE: Position(9), OTHER: Position(2)}, OURS)
    assert plan.commits == {OTHER: Committed(2, OURS)}
    assert plan.set_by_others == (WHERE,)


def test_a_start_puts_its_mark_on_what_it_took_over() -> None:
    group = {WHERE: Committed(5, "", 2), OTHER: Committed(7, OURS)}
    assert plan_mark(group, OURS) == {WHERE: Committed(5, OURS, 2)}
