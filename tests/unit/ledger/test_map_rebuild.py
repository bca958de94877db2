"""A lost offset map, made again from both logs: exact where they agree, never beyond the truth where they do not."""

from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.operations.map_rebuild import Anchor, LogPart, choose_anchors, rebuild_map


def log(*records: tuple[int, str]) -> LogPart:
    found = LogPart()
    for offset, content in records:
        found.add(offset, content)
    return found


def test_where_both_logs_agree_every_offset_is_exact() -> None:
    source = log((0, "a"), (1, "b"), (3, "c"), (4, "d"))  # a transaction marker at 2
    target = log((10, "a"), (11, "b"), (12, "c"), (13, "d"))
    found = rebuild_map([Anchor(0, 10), Anchor(5, 14)], source, target)
    assert found is not None
    answers = [found.translate(at) for at in range(6)]
    assert [(one.offset, one.exact) for one in answers if one] == [
        (10, True), (11, True), (12, True), (12, True), (13, True), (14, True)
    ]  # fmt: skip


def test_where_records_were_sent_again_the_place_before_them_is_the_answer() -> None:
    source = log(*((at, f"{at}") for at in range(6)))
    target = log(*((at, f"{at}") for at in range(4)), (4, "3"), (5, "4"), (6, "5"))
    found = rebuild_map([Anchor(0, 0), Anchor(2, 2), Anchor(6, 7)], source, target)
    assert found is not None
    assert [(one.offset, one.exact) for at in range(6) if (one := found.translate(at))] == [
        (0, True), (1, True), (2, False), (2, False), (2, False), (2, False)
    ]  # fmt: skip
    assert [one.offset for one in [found.translate(6)] if one] == [7]


def test_equally_many_records_of_other_content_do_not_pass_for_the_same() -> None:
    found = rebuild_map([Anchor(0, 0), Anchor(2, 2)], log((0, "a"), (1, "b")), log((0, "a"), (1, "x")))
    assert found is not None
    assert [(one.offset, one.exact) for at in (0, 1) if (one := found.translate(at))] == [(0, False), (0, False)]


def test_syncs_that_go_back_take_those_before_them_away() -> None:
    syncs = [Anchor(0, 0), Anchor(100, 100), Anchor(50, 160), Anchor(90, 200)]
    assert choose_anchors(syncs, None, Anchor(300, 400)) == [
        Anchor(0, 0), Anchor(50, 160), Anchor(90, 200), Anchor(300, 400)
    ]  # fmt: skip
    assert choose_anchors([Anchor(500, 1)], Anchor(0, 0), Anchor(300, 400)) == [Anchor(0, 0), Anchor(300, 400)]
    assert rebuild_map(choose_anchors([], None, Anchor(3, 3)), log(), log()) is None


@given(
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from("ab"), st.integers(1, 3)), min_size=1, max_size=30),
    st.data(),
)
def test_no_answer_lies_beyond_the_truth(steps: list[tuple[int, str, int]], data: st.DataObject) -> None:
    """Records with holes on either side, some sent twice, contents often equal."""
    source, target, places = LogPart(), LogPart(), {}
    here = there = 0
    for source_step, content, target_step in steps:
        here, there = here + source_step, there + target_step
        source.add(here, content)
        target.add(there, content)
        places[here] = there
        if data.draw(st.booleans(), "sent again"):
            there += 1
            target.add(there, content)
            places[here] = there
    known = sorted(data.draw(st.sets(st.sampled_from(sorted(places))), "known"))
    syncs = [Anchor(at, places[at]) for at in known]
    first = Anchor(0, 0) if data.draw(st.booleans(), "from the beginning") else None
    found = rebuild_map(choose_anchors(syncs, first, Anchor(here + 1, there + 1)), source, target)
    for at in range(here + 2) if found is not None else ():
        truth = min((place for offset, place in places.items() if offset >= at), default=there + 1)
        assert found is not None
        if (answer := found.translate(at)) is not None:
            assert answer.offset <= truth
