"""docs/api.md is what the docstrings say, and what it lists is there."""

import importlib
from pathlib import Path

from sparkmirror.api_reference import PUBLIC, reference

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


def test_the_page_says_what_the_docstrings_say() -> None:
    assert PAGE.read_text() == reference(), "write it again: python -m sparkmirror.api_reference > docs/api.md"


def test_everything_public_is_importable_by_its_name() -> None:
    missing = [
        f"{module}.{name}"
        for module, names in PUBLIC.items()
        for name in names
        if not hasattr(importlib.import_module(module), name)
    ]
    assert missing == []


def test_methods_stand_with_their_signatures_and_what_is_said_of_them() -> None:
    page = reference()
    assert "- `replication_hops(upstream_cluster: str) -> int`\n\n  The number of mirrorings from" in page
    assert "- `bootstrap_servers: str`" in page
    assert "class Broker(JavaProcess)" in page
    assert "_checkpoints(" not in page, "private names are private"
