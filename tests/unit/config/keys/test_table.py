"""The table of keys and the page written from it."""

import re
from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest

from sparkmirror.config import types
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.config.flow.settings import (
    ConsumerSettings,
    OffsetSettings,
    ProducerSettings,
    StatusSettings,
    SyncSettings,
)
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.config.keys.client_keys import SECURITY_NAMES
from sparkmirror.config.keys.key import Key, Scope, is_family
from sparkmirror.config.keys.table import KEYS
from sparkmirror.config.keys.unused import UNUSED
from sparkmirror.config.precedence import flow_layers
from sparkmirror.config.reading import FlowReader, Problems
from sparkmirror.config.reference import render_reference, section_of
from sparkmirror.model import FlowName

BESIDE = {"Defaults that differ from MirrorMaker's", "TLS and SASL", "Keys without effect", "Other spellings"}
PAGE = Path(__file__).parents[4] / "docs" / "keys.md"


def test_the_page_is_what_the_table_says() -> None:
    fresh = "python -m sparkmirror.config.keys.table > docs/keys.md"
    assert PAGE.read_text() == render_reference(), f"docs/keys.md is out of date: run {fresh}"


def test_every_key_stands_on_the_page() -> None:
    page = render_reference()
    assert [key.name for key in KEYS if f"| `{key.name}` |" not in page] == []


def test_every_key_has_a_task_and_every_default_that_differs_stands_first() -> None:
    assert {section_of(key) for key in KEYS} == set(re.findall(r"^## (.+)$", render_reference(), re.MULTILINE)) - BESIDE
    first = render_reference().split("## Clusters and log-ins")[0]
    differing = {"batch.size", "compression.type", "fetch.max.bytes", "offset.flush.interval.ms", "linger.ms"}
    assert {name for name in differing if f".{name}` |" in first} == differing
    assert "`T.offset.flush.interval.ms` | `1000` | `60000` |" in first and "tasks.max" not in first


def test_a_key_stands_once_in_its_scope() -> None:
    assert [entry for entry, count in Counter((key.scope, key.name) for key in KEYS).items() if count > 1] == []


def test_every_default_is_a_value_of_its_type() -> None:
    for key in KEYS:
        if key.default not in ("", ()) and key.name != "replication.policy.class":
            text = ", ".join(key.default) if isinstance(key.default, tuple) else str(key.default)
            assert key.type.parse(text) == key.default, key.name


def test_a_key_fills_one_field_which_has_its_default() -> None:
    filled = [
        (one.metadata["key"].scope, one.metadata["key"].name, one.default == one.metadata["key"].default)
        for kind in (FlowConfig, ConsumerSettings, ProducerSettings, OffsetSettings, SyncSettings, StatusSettings)
        for one in fields(kind)
        if "key" in one.metadata
    ]
    assert {(scope, name, True) for scope, name, _ in filled} == set(filled)
    assert [entry for entry, count in Counter(filled).items() if count > 1] == []
    assert {(scope, name) for scope, name, _ in filled} <= {(key.scope, key.name) for key in KEYS}


def test_the_scope_of_a_key_tells_the_layer_of_its_value() -> None:
    lines = b"clusters = A, B\nsession.timeout.ms = 7000\nA->B.session.timeout.ms = 8000\nB.session.timeout.ms = 9000\n"
    reader = FlowReader(flow_layers(parse_properties(lines, "mm2.properties"), FlowName("A", "B")), Problems("f"))
    assert reader.settings(FlowConfig)["session_timeout_ms"] == 9000


def test_a_name_is_either_used_or_without_effect() -> None:
    used = {(key.scope, key.name) for key in KEYS} | {(Scope.CLIENT, name) for name in SECURITY_NAMES}
    assert used & {(key.scope, key.name) for key in UNUSED} == set()


def test_a_name_without_effect_stands_once_in_its_scope() -> None:
    assert [entry for entry, count in Counter((key.scope, key.name) for key in UNUSED).items() if count > 1] == []


@pytest.mark.parametrize(
    ("pattern", "name", "parts"),
    [
        ("topics", "topics", ()),
        ("topics", "topicsx", None),
        ("a.<x>", "a.b", ("b",)),
        ("a.<x>", "a.b.c", ("b.c",)),
        ("a.<x>", "a.", None),
        ("a.<x>", "a", None),
        ("a.<x>.b.<y>", "a.1.b.2.3", ("1", "2.3")),
        ("a.<x>.b", "a.1.2.b", ("1.2",)),
        ("a.<x>.b", "aX1.b", None),
    ],
)
def test_a_key_with_placeholders_stands_for_a_family(pattern: str, name: str, parts: tuple[str, ...] | None) -> None:
    key = Key(pattern, Scope.FLOW, types.STRING, "", "")
    assert key.parts(name) == parts
    assert is_family(pattern) == ("<" in pattern)
