"""Reads YAML, keeping the line of every value. Called by `config/strimzi.py`."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from sparkmirror.errors import ConfigError

_MERGE = "tag:yaml.org,2002:merge"


@dataclass(frozen=True, slots=True)
class Branch:
    """One value: `text` of a scalar, `fields` of a mapping, `items` of a list. `line` counts from 1."""

    line: int
    text: str = ""
    fields: dict[str, "Branch"] = field(default_factory=dict)
    items: tuple["Branch", ...] = ()
    is_null: bool = False

    def get(self, *path: str) -> "Branch | None":
        """The value at `path`; None where a part is missing or null."""
        found: Branch | None = self
        for name in path:
            found = found.fields.get(name) if found is not None else None
        return None if found is None or found.is_null else found

    def text_at(self, *path: str) -> str:
        """The scalar at `path`, "" without."""
        found = self.get(*path)
        return found.text if found is not None else ""

    def items_at(self, *path: str) -> tuple["Branch", ...]:
        """The list at `path`, empty without."""
        found = self.get(*path)
        return found.items if found is not None else ()


def read_documents(text: str, file: str) -> tuple[Branch, ...]:
    """The documents of `text` that are not empty. Raises ConfigError where it is not YAML."""
    try:
        nodes = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 0
        problem = getattr(error, "problem", None) or "a character that YAML does not allow"
        raise ConfigError(f"this is not YAML: {problem}", line=line, file=file) from None
    try:
        return tuple(_branch(node) for node in nodes if node is not None)
    except RecursionError:
        raise ConfigError("an alias (`*name`) of this YAML leads into itself", file=file) from None


def _branch(node: Any) -> Branch:
    line = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        return Branch(line, fields=dict(_fields(node)))
    if isinstance(node, yaml.SequenceNode):
        return Branch(line, items=tuple(_branch(item) for item in node.value))
    return Branch(line, text=_scalar(node), is_null=node.tag == "tag:yaml.org,2002:null")


def _fields(node: Any) -> Iterator[tuple[str, Branch]]:
    """What is merged in (`<<: *name`) comes first, so that the mapping's own fields count."""
    for key, value in node.value:
        if key.tag == _MERGE:
            merged = value.value if isinstance(value, yaml.SequenceNode) else [value]
            yield from (field for other in reversed(merged) for field in _fields(other))
    for key, value in node.value:
        if key.tag == _MERGE:
            continue
        branch = _branch(value)
        # A value's own line may be further down; a person looks for the key.
        yield str(key.value), Branch(key.start_mark.line + 1, branch.text, branch.fields, branch.items, branch.is_null)


def _scalar(node: Any) -> str:
    """Booleans as Java prints them, whatever YAML lets a person write (`yes`, `True`)."""
    if node.tag == "tag:yaml.org,2002:bool":
        return str(yaml.SafeLoader.bool_values[node.value.lower()]).lower()
    return str(node.value)
