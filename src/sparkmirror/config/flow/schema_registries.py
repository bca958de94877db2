"""Reads the `transforms.schemas.…` lines of a file: the schema registries of both sides of a flow.

Called by `config.flow.transforms`. `spark.schema_ids` makes functions of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sparkmirror.config.flow.source_line import Source
from sparkmirror.config.formats.properties import Entry
from sparkmirror.config.reading import Problems

PREFIX: Final = "transforms.schemas."
_SETTINGS: Final = ("source.url", "source.user.info", "target.url", "target.user.info")


@dataclass(frozen=True, slots=True)
class Registry:
    """Where a schema registry is; `user_info` is `name:password` for HTTP's basic authentication, or ""."""

    url: str
    user_info: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class SchemaRegistries:
    """Those of the two clusters of a flow; `line` names the target's."""

    source: Registry
    target: Registry
    line: Source


def read_registries(entries: Mapping[str, Entry], problems: Problems) -> SchemaRegistries | None:
    """None where the file names none."""
    given = {name.removeprefix(PREFIX): entry for name, entry in entries.items() if name.startswith(PREFIX)}
    for setting, entry in given.items():
        if setting not in _SETTINGS:
            hint = f"after {PREFIX} comes {', '.join(_SETTINGS)}"
            problems.error(f"`{entry.key}` is no setting of a schema registry", hint, entry)
    if not given:
        return None
    values = {name: given[name].value.strip() if name in given else "" for name in _SETTINGS}
    for side in ("source", "target"):
        if not values[f"{side}.url"].startswith(("http://", "https://")):
            some = given.get(f"{side}.url", next(iter(given.values())))
            problems.error(f"`{PREFIX}{side}.url` must be an http:// or https:// address", entry=some)
            return None
    line = given["target.url"]
    source, target = (
        Registry(values[f"{side}.url"].rstrip("/"), values[f"{side}.user.info"]) for side in ("source", "target")
    )
    return SchemaRegistries(source, target, Source(line.key, line.line, line.file or problems.file))
