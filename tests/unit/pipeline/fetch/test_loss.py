"""What a source log that is not where we left it is taken for."""

from uuid import UUID

from sparkmirror.kafka.wire.lookup import Span
from sparkmirror.ledger.lineage import Lineage
from sparkmirror.pipeline.fetch.loss import (
    Loss,
    judge_divergence,
    judge_out_of_range,
    judge_recreated,
    judge_unknown_epoch,
    judge_untaken,
)

OLD, NEW = UUID(int=1), UUID(int=2)
READ = Lineage(OLD, ((0, 0), (2, 100)))


def cut(epochs: tuple[tuple[int, int], ...], turns: int = 1) -> Lineage:
    return Lineage(OLD, epochs, turns)


def test_a_log_that_begins_later_or_ends_earlier_goes_on_at_its_edge() -> None:
    assert judge_out_of_range(50, READ, Span(100, 200)) == Loss("retention", 50, 100, READ, READ)
    ended = Loss("truncated", 250, 90, READ, cut(((0, 0),)))
    assert judge_out_of_range(250, READ, Span(10, 90)) == ended


def test_a_position_inside_the_log_is_fetched_again() -> None:
    assert [judge_out_of_range(position, READ, Span(100, 200)) for position in (100, 150, 200)] == [None] * 3


def test_a_log_that_parted_goes_on_where_the_common_epochs_end_on_either_side() -> None:
    shorter_there = judge_divergence(250, READ, 0, 80)
    assert (shorter_there.resume, shorter_there.after) == (80, cut(((0, 0),)))
    shorter_here = judge_divergence(250, READ, 1, 150)
    assert (shorter_here.resume, shorter_here.after) == (100, cut(((0, 0),))), "we never had anything of epoch 1"
    same_epoch = judge_divergence(250, READ, 2, 200)
    assert (same_epoch.resume, same_epoch.after) == (200, cut(READ.epochs))
    assert judge_divergence(90, READ, 2, 200).resume == 90


def test_nothing_is_lost_with_an_epoch_that_had_no_record_yet() -> None:
    """A start is chosen at a log's end, and the leader is replaced before anything comes."""
    chosen = Lineage(OLD, ((5, 90),))
    assert judge_divergence(90, chosen, 4, 90) == Loss("", 90, 90, chosen, Lineage(OLD, ((4, 90),), 1))
    assert judge_divergence(90, chosen, 4, 80).cause == "truncated"


def test_epochs_that_part_several_times_are_followed_back_one_by_one() -> None:
    """Three unclean elections between two replicas: each step asks with what the step before left over."""
    there = {0: (0, 60), 1: (1, 150), 2: (1, 150), 3: (3, 300)}
    position, lineage, steps = 200, Lineage(OLD, ((0, 0), (2, 100))), []
    while (answer := there[lineage.leader_epoch]) != (lineage.leader_epoch, answer[1]) or answer[1] < position:
        loss = judge_divergence(position, lineage, *answer)
        position, lineage = loss.resume, loss.after
        steps.append(position)
    assert steps == [100, 60]
    assert lineage == Lineage(OLD, ((0, 0),), 2)


def test_where_nothing_of_ours_is_left_the_logs_own_epoch_is_what_to_ask_with() -> None:
    loss = judge_divergence(250, Lineage(OLD, ((5, 90),)), 3, 80)
    assert (loss.resume, loss.after) == (80, cut(((3, 80),)))


def test_an_epoch_that_the_log_does_not_know_is_gone_with_all_that_was_read_of_it() -> None:
    loss = judge_unknown_epoch(250, READ, Span(0, 400))
    assert loss is not None
    assert (loss.resume, loss.after) == (100, cut(((0, 0),)))
    assert judge_unknown_epoch(250, Lineage(OLD), Span(0, 400)) is None, "nothing is known, and nothing said"


def test_a_topic_created_again_is_mirrored_from_its_beginning() -> None:
    assert judge_recreated(500, READ, NEW) == Loss("recreated", 500, 0, READ, Lineage(NEW, (), 1))


def test_what_the_writer_has_not_taken_is_one_loss_from_where_it_stands() -> None:
    first = judge_divergence(250, READ, 2, 200)
    second = judge_divergence(230, first.after.read(3, 200), 0, 80)
    both = judge_untaken(220, [first, second])
    assert both == Loss("truncated", 220, 80, READ, cut(((0, 0),), 2))
    anew = judge_recreated(300, second.after, NEW)
    assert judge_untaken(220, [first, second, anew]) == Loss("recreated", 220, 0, READ, Lineage(NEW, (), 3))
    assert judge_untaken(70, [second]).cause == "", "all of it lies behind where the writer stands"
    assert judge_untaken(70, [second]).after == cut(((0, 0),), 2)


def test_a_new_log_that_was_truncated_since_is_mirrored_from_its_beginning_too() -> None:
    anew = judge_recreated(300, READ, NEW)
    then = judge_divergence(50, anew.after.read(0, 0), 0, 20)
    loss = judge_untaken(300, [anew, then])
    assert (loss.cause, loss.resume, loss.after.topic_id, loss.after.turns) == ("recreated", 0, NEW, 2)
