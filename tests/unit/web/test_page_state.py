"""The picture: a viewer that asks for what has changed is told all of it, and nothing else."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.web.page_state import PageState


class Viewer:
    """What `static/live.js` does with what it is told."""

    def __init__(self) -> None:
        self.life, self.version = "", 0
        self.parts: dict[str, Any] = {}
        self.rows: dict[str, dict[int, list[Any]]] = {}

    def look(self, page_state: PageState) -> dict[str, Any]:
        told = page_state.since(self.version, self.life)
        if told["whole"]:
            self.parts, self.rows = {}, {}
        self.life, self.version = told["life"], told["version"]
        self.parts |= told["parts"]
        for name, rows in told["rows"].items():
            self.rows.setdefault(name, {}).update({number: row for number, *row in rows})
        for name, gone in told["gone"].items():
            for number in gone:
                self.rows.get(name, {}).pop(number, None)  # a row may come and go between two looks
        return told

    def table(self, name: str) -> list[list[Any]]:
        return sorted(self.rows.get(name, {}).values())


def test_a_viewer_that_knows_everything_is_sent_nothing() -> None:
    page_state, viewer = PageState(), Viewer()
    page_state.put("about", {"version": 1})
    page_state.replace_rows("t", {"a": (1,)})
    assert viewer.look(page_state)["whole"]
    page_state.put("about", {"version": 1})
    page_state.replace_rows("t", {"a": (1,)})
    told = viewer.look(page_state)
    assert not told["whole"] and not told["parts"] and not told["rows"] and not told["gone"]


def test_only_changed_and_removed_rows_are_sent() -> None:
    page_state, viewer = PageState(), Viewer()
    page_state.replace_rows("t", {"a": (1,), "b": (2,), "c": (3,)})
    viewer.look(page_state)
    page_state.replace_rows("t", {"a": (1,), "c": (4,), "d": (5,)})
    told = viewer.look(page_state)
    assert told["rows"] == {"t": [[2, 4], [3, 5]]} and told["gone"] == {"t": [1]}
    assert viewer.table("t") == [[1], [4], [5]]


def test_a_row_that_comes_back_has_its_number_again() -> None:
    page_state, viewer = PageState(), Viewer()
    for rows in ({"a": (1,), "b": (2,)}, {"a": (1,)}, {"a": (1,), "b": (9,)}):
        page_state.replace_rows("t", rows)
        viewer.look(page_state)
    assert viewer.rows["t"] == {0: [1], 1: [9]}
    assert page_state.keys_of("t", [1, 7]) == {1: "b"} and page_state.keys_of("other", [1]) == {}


def test_a_viewer_of_another_process_or_of_the_future_is_sent_everything() -> None:
    page_state = PageState()
    page_state.put("about", 1)
    assert page_state.since(1, "another")["whole"]
    assert page_state.since(99, page_state.life)["whole"]
    assert not page_state.since(1, page_state.life)["whole"]


def test_when_too_many_rows_were_removed_everything_is_sent_again() -> None:
    page_state, viewer = PageState(), Viewer()
    page_state.replace_rows("t", {number: (number,) for number in range(3000)})
    viewer.look(page_state)
    page_state.replace_rows("t", {1: (1,)})
    assert viewer.look(page_state)["whole"]
    assert viewer.table("t") == [[1]]


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.dictionaries(st.integers(0, 5), st.integers(0, 2)))))
def test_whenever_a_viewer_looks_it_sees_what_is_there(steps: list[tuple[bool, bool, dict[int, int]]]) -> None:
    page_state, viewer, there = PageState(), Viewer(), dict[int, int]()
    for looks, replaces, rows in steps:
        told = {key: (value,) for key, value in rows.items()}
        if replaces:
            page_state.replace_rows("t", told)
            there = dict(rows)
        else:
            page_state.update_rows("t", told)
            there |= rows
        if looks:
            viewer.look(page_state)
            assert viewer.table("t") == sorted([value] for value in there.values())
