"""The table of keys and the page written from it."""

from collections import Counter
from pathlib import Path

from sparkmirror.config.foreign import HARMLESS_VALUES, REFUSED, SECURITY_NAMES, UNUSED
from sparkmirror.config.keys import KEYS, Scope
from sparkmirror.config.reference import render_reference

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_page_is_what_the_table_says() -> None:
    fresh = "python -m sparkmirror.config.keys > docs/configuration.md"
    assert PAGE.read_text() == render_reference(), f"docs/configuration.md is out of date: run {fresh}"


def test_every_key_stands_on_the_page() -> None:
    page = render_reference()
    assert [key.name for key in KEYS if f"| `{key.name}` |" not in page] == []


def test_a_key_stands_once_in_its_scope() -> None:
    assert [entry for entry, count in Counter((key.scope, key.name) for key in KEYS).items() if count > 1] == []


def test_every_default_is_a_value_of_its_type() -> None:
    for key in KEYS:
        if key.default not in ("", ()) and key.name != "replication.policy.class":
            text = ", ".join(key.default) if isinstance(key.default, tuple) else str(key.default)
            assert key.type.parse(text) == key.default, key.name


def test_a_name_is_either_used_or_foreign() -> None:
    used = {key.name for key in KEYS if key.scope is not Scope.PAIR}
    assert used & (UNUSED | REFUSED.keys() | set(SECURITY_NAMES)) == set()
    assert UNUSED & REFUSED.keys() == set()
    assert HARMLESS_VALUES.keys() <= REFUSED.keys()
