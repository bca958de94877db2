"""Which log a position lies in, and where another one parts from it."""

from uuid import UUID

import pytest

from sparkmirror.errors import ProtocolError
from sparkmirror.ledger.lineage import EPOCHS_MAX, Lineage, StoredEpochs
from sparkmirror.model import NO_EPOCH, Position
from sparkmirror.stored_json import decode

OLD, NEW = UUID(int=1), UUID(int=2)
READ = Lineage(OLD, ((0, 0), (2, 100), (5, 180)))


def test_an_epoch_is_remembered_from_where_it_was_first_read() -> None:
    lineage = Lineage(OLD).read(0, 10).read(0, 20).read(3, 50)
    assert lineage.epochs == ((0, 10), (3, 50))
    assert (lineage.leader_epoch, Lineage().leader_epoch) == (3, NO_EPOCH)


def test_what_is_not_known_hides_nothing_that_is() -> None:
    assert READ.read(NO_EPOCH, 300) is READ
    assert READ.read(5, 300) is READ, "no object is made for a batch that brings no news"


def test_an_epoch_without_records_is_dropped_when_the_next_begins_at_its_place() -> None:
    """A log that lost all its records, and was read again by a writer that stayed and a reader that went back."""
    cut = Lineage(OLD, ((0, 0),)).truncated(0, 0)
    stayed, went_back = cut.read(1, 0), cut.up_to(0).read(1, 0)
    assert stayed.epochs == went_back.epochs == ((1, 0),)
    assert READ.read(7, 180).epochs == ((0, 0), (2, 100), (7, 180))


def test_the_oldest_epochs_are_forgotten() -> None:
    lineage = Lineage(OLD)
    for epoch in range(EPOCHS_MAX + 2):
        lineage = lineage.read(epoch, 10 * epoch)
    assert len(lineage.epochs) == EPOCHS_MAX
    assert lineage.epochs[0] == (2, 20)


def test_what_was_read_behind_an_offset_is_left_out() -> None:
    assert READ.up_to(200) is READ
    assert READ.up_to(180).epochs == ((0, 0), (2, 100))
    assert READ.up_to(0).epochs == ()


@pytest.mark.parametrize(
    ("epoch", "end", "parts_at"),
    [(5, 190, 190), (2, 150, 150), (2, 300, 180), (3, 250, 180), (1, 250, 100), (0, 60, 60)],
)
def test_logs_part_where_the_last_common_epoch_ends_on_either_side(epoch: int, end: int, parts_at: int) -> None:
    assert READ.parts_at(epoch, end) == parts_at


def test_each_rewriting_counts_and_a_new_log_has_no_epochs_yet() -> None:
    cut = READ.truncated(100)
    assert (cut.epochs, cut.turns, cut.topic_id) == (((0, 0),), 1, OLD)
    assert cut.recreated(NEW) == Lineage(NEW, (), 2)
    assert Lineage.of(cut.at(100)) == Lineage(OLD, ((0, 0),)), "a position knows nothing of turns"


def test_json_has_lists_for_tuples() -> None:
    assert decode(b"[[0,0],[2,100]]", StoredEpochs, "") == ((0, 0), (2, 100))
    assert Position(7, ((0, 0), (2, 100))).leader_epoch == 2
    with pytest.raises(ProtocolError):
        decode(b"[[0]]", StoredEpochs, "")
