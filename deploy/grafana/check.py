"""Reads the dashboard by Grafana's own model of one (grafana-foundation-sdk) and fails where that loses or changes a
field, which Grafana does not know then. `make manifests` runs it."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

_BOARD = Path(__file__).with_name("sparkmirror.json")


def differences(ours: Any, theirs: Any, place: str = "") -> Iterator[str]:
    """The places at which `theirs` lacks or changes what `ours` has."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name, value in ours.items():
            yield from differences(value, theirs.get(name), f"{place}/{name}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(one, other, f"{place}/{number}")
    elif ours != theirs:
        yield f"{place}: {ours!r} became {theirs!r}"


def main() -> int:
    ours = json.loads(_BOARD.read_text())
    theirs = json.loads(JSONEncoder().encode(Dashboard.from_json(ours)))
    lost = list(differences(ours, theirs))
    print("\n".join(lost) or f"{_BOARD.name}: Grafana's model knows all of it, {len(ours['panels'])} panels.")
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(main())
