"""Puts right what documentation and habit write and Java's `.properties` do not know. Called by `config/flow/flows.py`.

Inline comments (`topics = foo.* # only these`) are part of the value to Java, so that MirrorMaker would match no topic;
`S->T.enable`, `S->T.emit.heartbeats`, `Us-east.bootstrap.servers` for the cluster `us-east`, and files without
`clusters` stand in Kafka's documentation and never worked. All are read as meant, with a warning.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from sparkmirror.config.formats.properties import Entry, Properties
from sparkmirror.config.keys.key import is_family, name_matcher
from sparkmirror.config.keys.table import KEYS
from sparkmirror.config.reading import Problems
from sparkmirror.config.secrets import is_secret, shown
from sparkmirror.config.spelling import MISPRINTS
from sparkmirror.config.types import split_list

_COMMENT = re.compile(r"(?:^|\s+)(?:#|//\s).*", re.DOTALL)
_FLOW_SWITCH = re.compile(r"(.+->.+)\.enable")
_SWITCH = re.compile(rf"(?:.+->.+\.)?(?:{'|'.join(map(re.escape, MISPRINTS))})")
_SERVERS = ".bootstrap.servers"
_VERBATIM = tuple(key.name for key in KEYS if key.type.verbatim)


def tidy(properties: Properties, problems: Problems) -> Properties:
    """`properties` as their author meant them, with a warning for each line that says something else to MirrorMaker."""
    entries = {key: _without_comment(entry, problems) for key, entry in properties.entries.items()}
    if (clusters := _missing_clusters(entries.values(), problems)) is not None:
        entries = {"clusters": clusters} | entries
    aliases = split_list(entries["clusters"].value) if "clusters" in entries else ()
    renamed: dict[str, Entry] = {}
    names = {key: _with_listed_aliases(_with_switch(key), aliases) for key in entries}
    for entry in entries.values():
        name = names[entry.key]
        if name != entry.key and name in entries:
            problems.warn(f"`{entry.key}` has no effect beside `{name}`", entry)
        elif name != entry.key:
            problems.warn(f"`{entry.key}` is read as `{name}`; to MirrorMaker it says nothing", entry)
            renamed[name] = replace(entry, key=name)
        else:
            renamed[name] = entry
    replaced = tuple(replace(entry, key=names[entry.key]) for entry in properties.replaced)
    return replace(properties, entries=renamed, replaced=replaced)


def _with_switch(key: str) -> str:
    if match := _FLOW_SWITCH.fullmatch(key):
        return f"{match[1]}.enabled"
    return f"{key}.enabled" if _SWITCH.fullmatch(key) else key


def _with_listed_aliases(key: str, aliases: Sequence[str]) -> str:
    """`Us-east.x` as `us-east.x`, when that is the only alias that differs in nothing but capitals."""
    for dot in (at for at, letter in enumerate(key) if letter == "."):  # an alias may hold dots
        parts = key[:dot].split("->")
        listed = [_listed(part, aliases) for part in parts]
        if all(listed):
            return "->".join(listed) + key[dot:]
    return key


def _listed(alias: str | None, aliases: Sequence[str]) -> str:
    alike = [listed for listed in aliases if alias and listed.casefold() == alias.casefold()]
    return alias if alias in alike else alike[0] if len(alike) == 1 else ""


def _missing_clusters(entries: Iterable[Entry], problems: Problems) -> Entry | None:
    """`clusters` for a file that names clusters and flows and does not list them."""
    entries = list(entries)
    named = {alias for entry in entries if "->" in entry.key for alias in _flow_ends(entry.key)}
    addresses = [entry for entry in entries if entry.key.endswith(_SERVERS)]
    aliases = [alias for entry in addresses if (alias := entry.key.removesuffix(_SERVERS)) in named]
    if len(aliases) < 2 or any(entry.key == "clusters" for entry in entries):
        return None
    listed = ", ".join(aliases)
    problems.warn(f"`clusters` is missing, which MirrorMaker refuses; read as `clusters = {listed}`", addresses[0])
    return Entry("clusters", listed, addresses[0].line)


def _flow_ends(key: str) -> Iterator[str]:
    source, _, rest = key.partition("->")
    yield source
    yield from (rest[:at] for at, letter in enumerate(rest) if letter == ".")


def _without_comment(entry: Entry, problems: Problems) -> Entry:
    comment = _COMMENT.search(entry.value)
    if comment is None or _is_verbatim(entry.key):
        return entry
    kept = entry.value[: comment.start()]
    problems.warn(f"`{comment.group().strip()}` is left out of `{entry.key} = {shown(entry.key, kept)}`: {_WHY}", entry)
    return replace(entry, value=kept)


_WHY = "to MirrorMaker it is part of the value, since Java knows no comments behind one"


def _is_verbatim(key: str) -> bool:
    """Whether a `#` may belong to the value: in secrets, and in types that the table says to be free text."""
    return is_secret(key) or any(
        name_matcher(name).search(key) is not None if is_family(name) else key.endswith(name) for name in _VERBATIM
    )
