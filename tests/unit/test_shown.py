"""Names and messages of others reach a terminal, a log and the page without what these would obey."""

import ast
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

import sparkmirror
from sparkmirror.errors import ClusterUnreachable
from sparkmirror.shown import dump_shown, show_lines, show_text
from sparkmirror.views.table import page_lines, show_page

CLI = Path(sparkmirror.__file__).with_name("cli")
HOSTILE = "a\x1b[2J\x07\rb\u202ec\u200b\x9bd\x00"
SEEN = r"a\x1b[2J\x07\rb\u202ec\u200b\x9bd\x00"


def test_what_cannot_be_seen_is_spelt_out_and_the_rest_stays() -> None:
    assert show_text(HOSTILE) == SEEN
    assert show_text("größer → 日本 'x' \\n") == "größer → 日本 'x' \\n"
    assert show_text("a\nb") == r"a\nb" and show_lines("a\nb\r\n") == "a\nb\\r\n"


@pytest.mark.parametrize(
    "text", [HOSTILE, "\\" + HOSTILE, "\\\\" + HOSTILE, "\\u001b", "\\\\u001b", "plain \\", "日本"]
)
def test_json_for_the_page_has_the_same_and_no_control_character(text: str) -> None:
    (told,) = json.loads(dump_shown({text: text})).values()
    assert all(one.isprintable() or one in "\r\n\t" for one in told)
    if text.isprintable():
        assert told == text
    else:
        assert r"\u001b" in told and "\x1b" not in told


def test_sentences_of_pages_are_shown_so_too() -> None:
    screen = io.StringIO()
    show_page([HOSTILE], Console(file=screen, width=200, force_terminal=True))
    assert "\x1b[2J" not in screen.getvalue() and SEEN in screen.getvalue()
    assert page_lines([HOSTILE, "two\nlines"]) == [SEEN, "two", "lines"]


def test_errors_hide_the_log_ins_of_urls() -> None:
    assert (
        str(ClusterUnreachable("no answer of http://me:pa55@proxy:1/x.")) == "no answer of http://[hidden]@proxy:1/x."
    )


def test_verbs_print_by_the_functions_that_show() -> None:
    """Else somebody's name would be printed as it is."""
    said = []
    for file in sorted(CLI.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                said.append(f"{file.name}: {ast.unparse(node.args[0])}")
    safe = ("json.dumps(", "show_lines(", "_CLEAR")  # JSON in ASCII has no control characters
    made_by_us = {
        "completion.py: completion_script(all_parsers(), args.shell)",
        "reference.py: reference(all_commands())",
        "output.py: '\\n'.join(page_lines(page))",
        "tail.py: '\\n'.join(sample_lines(sample, args.bytes))",
    }
    # Files in the formats of other programs: a properties file or a resource, and Prometheus' text, which escape.
    written = {"config.py: text", "metrics.py: expose(sights, chosen).decode()"}
    rest = {one for one in said if not one.partition(": ")[2].startswith(safe)}
    assert rest == made_by_us | written
