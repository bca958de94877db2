"""Judges every line of a file: known here, known elsewhere, of no effect, or a slip of the pen.

MirrorMaker 2 ignores what it does not know without a word; here each such line gives a warning that says where to write
it. Called by `config/flow/flows.py`.
"""

import re
from collections.abc import Mapping, Sequence

from sparkmirror.config.formats.properties import Entry, Properties
from sparkmirror.config.keys import places
from sparkmirror.config.keys.key import Unused, name_parts
from sparkmirror.config.keys.places import NAMED, Place, place_of, places_of
from sparkmirror.config.keys.unused import UNUSED
from sparkmirror.config.problems import Problems, other_lines
from sparkmirror.config.spelling import RENAMED, did_you_mean
from sparkmirror.model import FlowName

_FLOW_KEY = re.compile(r"(?P<source>.+?)->(?P<rest>.*)")
_ROLE = re.compile(r"(?:(?:source|target)\.)?(?:(?:consumer|producer|admin)\.|cluster\.)?(?:override\.)?")
_NAMES_OWN_CLASS = re.compile(r".*(?:filter|policy)\.class").fullmatch
_IS_BUILT_IN = re.compile(r"\s*org\.apache\.kafka\.connect\.mirror\..*").fullmatch


def recognise(properties: Properties, aliases: Sequence[str], problems: Problems) -> None:
    """Notes a warning for each line that is not read as its author may expect."""
    known_places = tuple(places_of(aliases))
    unused: dict[Unused, list[Entry]] = {}
    own = any(_NAMES_OWN_CLASS(entry.key) and not _IS_BUILT_IN(entry.value) for entry in properties.entries.values())
    for entry in properties.entries.values():
        place = place_of(entry.key, known_places)
        rest = entry.key.removeprefix(place.prefix)
        if place is places.TOP_LEVEL and (match := _FLOW_KEY.fullmatch(entry.key)):
            _judge_flow(entry, match, aliases, problems)
        elif place.level.knows(rest):
            continue
        elif (without_effect := place.level.unused(rest)) or (without_effect := _unused_anywhere(rest)):
            unused.setdefault(without_effect, []).append(entry)
        else:
            _judge(entry, rest, place, known_places, problems, own=own)
    _tell_unused(unused, problems)
    _tell_replaced(properties, problems)


def _unused_anywhere(rest: str) -> Unused | None:
    """The key as one of another place, unless its name takes effect in one: then that is what to say."""
    if _elsewhere(rest) or _elsewhere(_bare(rest)):
        return None
    names = (rest, _bare(rest))
    return next((entry for entry in UNUSED for name in names if name_parts(entry.name, name) is not None), None)


def _bare(rest: str) -> str:
    role = _ROLE.match(rest)
    return rest.removeprefix(role.group()) if role else rest


def _elsewhere(name: str) -> str:
    scopes = dict.fromkeys(scope for scope, known in NAMED if name_parts(known, name) is not None)
    return ", ".join(scope.places(name) for scope in scopes)


def _tell_unused(unused: Mapping[Unused, Sequence[Entry]], problems: Problems) -> None:
    """Each key once, however many clusters and flows have it."""
    for key, (first, *others) in unused.items():
        problems.warn(f"`{first.key}` has no effect{other_lines(first, others)}: {key.reason}", first)


def _tell_replaced(properties: Properties, problems: Problems) -> None:
    for entry in properties.replaced:
        line = properties.entries[entry.key].line
        problems.warn(f"`{entry.key}` is given again on line {line}, which counts", entry)


def _judge_flow(entry: Entry, match: re.Match[str], aliases: Sequence[str], problems: Problems) -> None:
    """A key that speaks of no possible flow. Without `clusters` there is nothing to compare with, and that is said."""
    source, rest = match["source"], match["rest"]
    key = places.FLOW.key_at_end(rest)
    target = rest.removesuffix(f".{key}") if key else rest.partition(".")[0]
    flow = FlowName(source, target)
    unlisted = [alias for alias in dict.fromkeys((source, target)) if alias and alias not in aliases]
    if not target or entry.value.startswith("->"):
        problems.warn(f"`{entry.key}` has no effect: a blank ends a key, so write `A->B` without blanks", entry)
    elif source == target:
        problems.warn(f"`{entry.key}` has no effect: the flow leads from a cluster to itself", entry)
    elif unlisted and aliases:
        named = " and ".join(f"`{alias}`" for alias in unlisted)
        hints = ", ".join(filter(None, (did_you_mean(alias, aliases) for alias in unlisted)))
        problems.warn(f"`{entry.key}` has no effect: `clusters` does not list {named}{_suffix(hints)}", entry)
    elif "." not in rest:
        problems.warn(f"`{entry.key}` has no effect; write `{flow}.enabled` to turn the flow on", entry)


def _judge(entry: Entry, rest: str, place: Place, others: Sequence[Place], problems: Problems, *, own: bool) -> None:
    bare = _bare(rest)
    if renamed := RENAMED.get(rest) or RENAMED.get(bare):
        problems.warn(f"`{entry.key}` has no effect: {renamed}", entry)
    elif where := _elsewhere(rest) or _elsewhere(bare):
        problems.warn(f"`{entry.key}` has no effect there, as in MirrorMaker; write {where}", entry)
    else:
        _tell_unknown(entry, place, others, problems, own=own)


def _tell_unknown(entry: Entry, place: Place, others: Sequence[Place], problems: Problems, *, own: bool) -> None:
    """With `own`, a flow's unknown key may be meant for a class of the user's: only a likely slip is told."""
    if entry.key.endswith("->") or entry.value.startswith("->"):
        problems.warn(f"`{entry.key}` has no effect: a blank ends a key, so write `A->B` without blanks", entry)
    elif not place.prefix and (name := places.CLUSTER.key_at_end(entry.key)):
        alias = entry.key.removesuffix(f".{name}")
        hint = did_you_mean(alias, [other.prefix.removesuffix(".") for other in others if "->" not in other.prefix])
        problems.warn(f"`{entry.key}` has no effect: `clusters` does not list `{alias}`{_suffix(hint)}", entry)
    else:
        rest = entry.key.removeprefix(place.prefix)
        if own and place.level is places.FLOW and not did_you_mean(rest, place.level.names):
            return
        hint = did_you_mean(entry.key, _spelled_out(place, others))
        problems.warn(f"`{entry.key}` is not a known key and has no effect{_suffix(hint)}", entry)


def _spelled_out(place: Place, others: Sequence[Place]) -> list[str]:
    if place.prefix:
        return [f"{place.prefix}{name}" for name in place.level.names]
    return [*places.TOP.names, *(f"{other.prefix}{name}" for other in others for name in other.level.names)]


def _suffix(hint: str) -> str:
    return f"; {hint}" if hint else ""


def aliases_alike(aliases: Sequence[str]) -> list[tuple[str, str]]:
    """The aliases that differ in case only, by pairs."""
    return [
        (first, second)
        for index, first in enumerate(aliases)
        for second in aliases[index + 1 :]
        if first.casefold() == second.casefold() and first != second
    ]
