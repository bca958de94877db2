"""Puts right what documentation and habit write and Java's `.properties` do not know. Called by `config/flows.py`.

Inline comments (`topics = foo.* # only these`) are part of the value to Java, so that MirrorMaker would match no topic;
`S->T.enable` stands in Kafka's documentation and never worked. Both are read as meant, with a warning.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from sparkmirror.config.key import is_family, name_matcher
from sparkmirror.config.keys import KEYS
from sparkmirror.config.problems import Problems
from sparkmirror.config.properties import Entry, Properties
from sparkmirror.config.secrets import is_secret, shown

_COMMENT = re.compile(r"(?:^|\s+)#.*", re.DOTALL)
_MISSPELT_SWITCH = re.compile(r"(.+->.+)\.enable")
_VERBATIM = tuple(key.name for key in KEYS if key.type.verbatim)


def tidy(properties: Properties, problems: Problems) -> Properties:
    """`properties` as their author meant them, with a warning for each line that says something else to MirrorMaker."""
    entries = {entry.key: entry for entry in _with_switches(properties, problems)}
    return replace(properties, entries={key: _without_comment(entry, problems) for key, entry in entries.items()})


def _with_switches(properties: Properties, problems: Problems) -> Iterator[Entry]:
    for entry in properties.entries.values():
        match = _MISSPELT_SWITCH.fullmatch(entry.key)
        name = f"{match[1]}.enabled" if match else entry.key
        if match and name in properties.entries:
            problems.warn(f"`{entry.key}` has no effect beside `{name}`", entry)
        elif match:
            problems.warn(f"`{entry.key}` is read as `{name}`; to MirrorMaker it says nothing", entry)
            yield replace(entry, key=name)
        else:
            yield entry


def _without_comment(entry: Entry, problems: Problems) -> Entry:
    comment = _COMMENT.search(entry.value)
    if comment is None or _is_verbatim(entry.key):
        return entry
    kept = entry.value[: comment.start()]
    problems.warn(f"`{comment.group().strip()}` is left out of `{entry.key} = {shown(entry.key, kept)}`: {_WHY}", entry)
    return replace(entry, value=kept)


_WHY = "to MirrorMaker it is part of the value, since Java knows no comments behind one"


def _is_verbatim(key: str) -> bool:
    """Whether a `#` may belong to the value: secrets, and what a type of the table says to be free text."""
    return is_secret(key) or any(
        name_matcher(name).search(key) is not None if is_family(name) else key.endswith(name) for name in _VERBATIM
    )
