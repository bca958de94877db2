"""Tables: what rich would take for markup or colour stays text, and a narrow terminal loses nothing."""

import io

from rich.console import Console

from sparkmirror.views.table import make_table, page_lines, show_page


def test_cells_are_shown_as_they_are_in_columns_as_wide_as_they_need() -> None:
    table = make_table(
        ("topic", "reason"), [("orders", "[red]not a colour[/red] :smile:"), ("a" * 300, 7), ("x\x1b[2J", "")]
    )
    assert page_lines([table])[1].split("  ")[0] == "orders"
    assert page_lines([table])[1].endswith("[red]not a colour[/red] :smile:")
    assert page_lines([table])[3] == "x\\x1b[2J"
    assert page_lines([table])[2] == "a" * 300 + "  7"


def test_sentences_and_an_indented_table_make_a_page() -> None:
    page = ["A->B: [x] one", make_table(("n",), [(1,)], indent=2)]
    assert page_lines(page) == ["A->B: [x] one", "  n", "  1"]


def test_a_narrow_terminal_folds_cells_and_states_have_colours() -> None:
    shown = io.StringIO()
    console = Console(file=shown, width=30, force_terminal=True, color_system="standard")
    show_page([make_table(("state", "reason"), [("FAILED", "x" * 60)])], console)
    assert shown.getvalue().count("x") == 60
    assert "\x1b[1;31mFAILED" in shown.getvalue()
