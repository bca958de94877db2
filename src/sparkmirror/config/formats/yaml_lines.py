"""Reads YAML, keeping the line of every value. Called by `config/formats/strimzi.py`."""

from dataclasses import dataclass, field, replace
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


def scalar_text(value: Branch, key: str, file: str) -> str:
    """The text of a setting, "" where it is null. Raises ConfigError for a list or an object."""
    if value.fields or value.items:
        raise ConfigError(
            f"`{key}` is a list or an object, where a text belongs",
            "write it as one string, with commas between the items of a list",
            key=key,
            line=value.line,
            file=file,
        )
    return "" if value.is_null else value.text


def read_documents(text: str, file: str) -> tuple[Branch, ...]:
    """The documents of `text` that are not empty. Raises ConfigError where it is not YAML."""
    try:
        nodes = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 0
        problem = getattr(error, "problem", None) or "a character that YAML does not allow"
        raise ConfigError(f"this is not YAML: {problem}", line=line, file=file) from None
    except RecursionError:
        raise ConfigError("this YAML is nested too deeply", file=file) from None
    try:
        return tuple(_Reading().branch(node) for node in nodes if node is not None)
    except RecursionError:
        raise ConfigError("an alias (`*name`) of this YAML leads into itself", file=file) from None


class _Reading:
    """Turns PyYAML's nodes into branches. A node with several aliases is read once: aliases may multiply without
    end."""

    def __init__(self) -> None:
        self._branches: dict[Any, Branch] = {}
        self._merged: dict[Any, dict[str, Branch]] = {}

    def branch(self, node: Any) -> Branch:
        if (known := self._branches.get(node)) is None:
            known = self._branches[node] = self._read(node)
        return known

    def _read(self, node: Any) -> Branch:
        line = node.start_mark.line + 1
        if isinstance(node, yaml.MappingNode):
            return Branch(line, fields=self._fields(node))
        if isinstance(node, yaml.SequenceNode):
            return Branch(line, items=tuple(self.branch(item) for item in node.value))
        return Branch(line, text=_scalar(node), is_null=node.tag == "tag:yaml.org,2002:null")

    def _fields(self, node: Any) -> dict[str, Branch]:
        """The fields of a mapping. Merged ones (`<<: *name`) come first, so that the mapping's own fields count."""
        if (known := self._merged.get(node)) is not None:
            return known
        fields: dict[str, Branch] = {}
        for key, value in node.value:
            if key.tag == _MERGE:
                merged = value.value if isinstance(value, yaml.SequenceNode) else [value]
                for other in reversed(merged):
                    fields |= self._fields(other)
        for key, value in node.value:
            if key.tag != _MERGE:
                branch = self.branch(value)
                # A value's own line may be further down; a person looks for the key.
                fields[str(key.value)] = replace(branch, line=key.start_mark.line + 1)
        self._merged[node] = fields
        return fields


def _scalar(node: Any) -> str:
    """Booleans as Java prints them, whatever YAML lets a person write (`yes`, `True`)."""
    if node.tag == "tag:yaml.org,2002:bool":
        return str(yaml.SafeLoader.bool_values[node.value.lower()]).lower()
    return str(node.value)
