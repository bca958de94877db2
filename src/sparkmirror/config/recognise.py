"""Judges every line of a file: known here, known elsewhere, of no effect, refused or a slip of the pen.

MirrorMaker 2 ignores what it does not know without a word; here each such line gives a warning that says where to write
it. Called by `config/flows.py`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import permutations

from sparkmirror.config import foreign
from sparkmirror.config.keys import KEYS, Scope
from sparkmirror.config.problems import Problems
from sparkmirror.config.properties import Entry, Properties
from sparkmirror.model import FlowName

_FLOW_KEY = re.compile(r"(?P<source>.+?)->(?P<target>[^.]*)(?:\.(?P<rest>.*))?")
_ROLE = re.compile(r"(?:(?:source|target)\.)?(?:(?:consumer|producer|admin)\.|cluster\.)?(?:override\.)?")
_CLIENT_PREFIXES = ("", "consumer.", "producer.", "admin.")
_FLOW_CLIENT_PREFIXES = ("consumer.", "source.consumer.", "producer.override.", "source.cluster.")

# What stands before a key at the top level, after `X.` and after `S->T.`; absent where the key has no effect.
_TOP: dict[Scope, tuple[str, ...]] = {
    Scope.FILE: ("",),
    Scope.FLOW: ("",),
    Scope.STORAGE: ("",),
    Scope.CLIENT: ("",),
}
_CLUSTER: dict[Scope, tuple[str, ...]] = {
    Scope.CLIENT: _CLIENT_PREFIXES,
    Scope.WORKER: ("",),
    Scope.STORAGE: ("",),
    Scope.CONSUMER: ("consumer.",),
    Scope.PRODUCER: ("producer.",),
    Scope.ADMIN: ("admin.",),
}
_FLOW: dict[Scope, tuple[str, ...]] = {
    Scope.PAIR: ("",),
    Scope.FLOW: ("",),
    Scope.CLIENT: _FLOW_CLIENT_PREFIXES,
    Scope.CONSUMER: ("consumer.", "source.consumer."),
    Scope.PRODUCER: ("producer.override.",),
}


_NAMED = [*((key.scope, key.name) for key in KEYS), *((Scope.CLIENT, name) for name in foreign.SECURITY_NAMES)]


def _spellings(prefixes: dict[Scope, tuple[str, ...]]) -> frozenset[str]:
    return frozenset(f"{prefix}{name}" for scope, name in _NAMED for prefix in prefixes.get(scope, ()))


_KNOWN_TOP, _KNOWN_CLUSTER, _KNOWN_FLOW = _spellings(_TOP), _spellings(_CLUSTER), _spellings(_FLOW)


@dataclass(frozen=True, slots=True)
class Place:
    """The part of a key that names a cluster or flow (`A.`, `A->B.`, "" at the top level), and what may follow it."""

    prefix: str
    known: frozenset[str]


_TOP_LEVEL = Place("", _KNOWN_TOP)


def recognise(properties: Properties, aliases: Sequence[str], problems: Problems) -> None:
    """Notes a problem for each line that is not read as its author may expect."""
    places = tuple(_places(aliases))
    for entry in properties.entries.values():
        place = _place_of(entry.key, places)
        if place is _TOP_LEVEL and (match := _FLOW_KEY.fullmatch(entry.key)):
            _judge_flow(entry, match, aliases, problems)
        elif (rest := entry.key.removeprefix(place.prefix)) not in place.known:
            _judge(entry, rest, place, places, problems)
    for entry in properties.replaced:
        line = properties.entries[entry.key].line
        problems.warn(f"`{entry.key}` is given again on line {line}, which counts", entry)


def _places(aliases: Sequence[str]) -> Iterator[Place]:
    """Flows first and longer aliases first, since an alias may hold dots."""
    flows = [f"{FlowName(source, target)}." for source, target in permutations(aliases, 2)]
    yield from (Place(prefix, _KNOWN_FLOW) for prefix in sorted(flows, key=len, reverse=True))
    yield from (Place(f"{alias}.", _KNOWN_CLUSTER) for alias in sorted(aliases, key=len, reverse=True))


def _place_of(key: str, places: Sequence[Place]) -> Place:
    if key in _KNOWN_TOP:
        return _TOP_LEVEL
    return next((place for place in places if key.startswith(place.prefix)), _TOP_LEVEL)


def _judge_flow(entry: Entry, match: re.Match[str], aliases: Sequence[str], problems: Problems) -> None:
    """A key that speaks of no possible flow. Without `clusters` there is nothing to compare with, and that is said."""
    source, target = match["source"], match["target"]
    flow = FlowName(source, target)
    if not target or entry.value.startswith("->"):
        _warn_of_unknown(entry, _TOP_LEVEL, (), problems)
    elif source == target:
        problems.error(f"the flow `{flow}` leads from a cluster to itself", entry=entry)
    elif match["rest"] is None:
        problems.warn(f"`{entry.key}` has no effect; write `{flow}.enabled` to turn the flow on", entry)
    for alias in dict.fromkeys((source, target)):
        if alias and aliases and alias not in aliases:
            message = f"the flow `{flow}` names the cluster `{alias}`, which `clusters` does not list"
            problems.error(message, _did_you_mean(alias, aliases), entry)


def _judge(entry: Entry, rest: str, place: Place, places: Sequence[Place], problems: Problems) -> None:
    bare = rest.removeprefix(role.group()) if (role := _ROLE.match(rest)) else rest
    family = next((name for name in foreign.REFUSED if rest == name or rest.startswith(f"{name}.")), None)
    if family is not None:
        _refuse(entry, family, problems)
    elif rest in foreign.UNUSED or bare in foreign.UNUSED:
        problems.warn(f"`{entry.key}` has no effect: SparkMirror does not use it in this version", entry)
    elif where := _elsewhere(rest) or _elsewhere(bare):
        problems.warn(f"`{entry.key}` has no effect there, as in MirrorMaker; write {where}", entry)
    else:
        _warn_of_unknown(entry, place, places, problems)


def _elsewhere(name: str) -> str:
    scopes = dict.fromkeys(scope for scope, known in _NAMED if known == name)
    return ", ".join(scope.places(name) for scope in scopes)


def _warn_of_unknown(entry: Entry, place: Place, places: Sequence[Place], problems: Problems) -> None:
    if entry.key.endswith("->") or entry.value.startswith("->"):
        problems.warn(f"`{entry.key}` has no effect: a blank ends a key, so write `A->B` without blanks", entry)
    elif not place.prefix and (alias := _unlisted_alias(entry.key)):
        problems.warn(f"`{entry.key}` has no effect: `clusters` does not list `{alias}`", entry)
    else:
        others = (f"{other.prefix}{name}" for other in places for name in other.known)
        near = [f"{place.prefix}{name}" for name in place.known] if place.prefix else [*_KNOWN_TOP, *others]
        problems.warn(f"`{entry.key}` is not a known key and has no effect{_suffix(entry.key, near)}", entry)


def _unlisted_alias(key: str) -> str:
    ends = [name for name in _KNOWN_CLUSTER if key.endswith(f".{name}")]
    return key.removesuffix(f".{max(ends, key=len)}") if ends else ""


def _refuse(entry: Entry, family: str, problems: Problems) -> None:
    if foreign.HARMLESS_VALUES.get(family) != entry.value.strip():
        message = f"`{entry.key}` is not supported yet: without it {foreign.REFUSED[family]}"
        problems.error(message, "remove the line if that is what you want", entry)


def _suffix(key: str, known: Sequence[str]) -> str:
    return f"; {suggestion}" if (suggestion := _did_you_mean(key, known)) else ""


def _did_you_mean(text: str, known: Sequence[str]) -> str:
    near = get_close_matches(text, known, n=1, cutoff=0.75 if len(text) > 3 else 0.5)
    return f"did you mean `{near[0]}`?" if near else ""
