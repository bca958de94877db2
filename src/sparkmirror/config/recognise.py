"""Judges every line of a file: known here, known elsewhere, without effect, misspelt, or without a flow to act on.

MirrorMaker 2 ignores unknown lines silently; here each such line gives a warning that says where to write it. A known
line reaches no enabled flow where its cluster is on the other side, its flow is off, or another line takes precedence.
Called by `config/flow/flows.py`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sparkmirror.config.formats.properties import Entry, Properties
from sparkmirror.config.keys import places
from sparkmirror.config.keys.key import Scope, Unused, name_parts
from sparkmirror.config.keys.places import NAMED, Place, place_of, places_of
from sparkmirror.config.keys.table import keys_of
from sparkmirror.config.keys.unused import UNUSED
from sparkmirror.config.precedence import FlowLayers, flow_layers
from sparkmirror.config.reading import Problems, other_lines
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
    """Judges a key below an alias or pair that cannot be a flow. Without `clusters` there is nothing to compare with,
    and the warning says that."""
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
        problems.warn(f"`{entry.key}` has no effect: `clusters` does not list {named}", entry, hints)
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
    """Reports an unknown key. With `own`, a flow's unknown key may be meant for a class of the user's: only a likely
    slip is reported."""
    if entry.key.endswith("->") or entry.value.startswith("->"):
        problems.warn(f"`{entry.key}` has no effect: a blank ends a key, so write `A->B` without blanks", entry)
    elif not place.prefix and (name := places.CLUSTER.key_at_end(entry.key)):
        alias = entry.key.removesuffix(f".{name}")
        hint = did_you_mean(alias, [other.prefix.removesuffix(".") for other in others if "->" not in other.prefix])
        problems.warn(f"`{entry.key}` has no effect: `clusters` does not list `{alias}`", entry, hint)
    else:
        rest = entry.key.removeprefix(place.prefix)
        if own and place.level is places.FLOW and not did_you_mean(rest, place.level.names):
            return
        hint = did_you_mean(entry.key, _spelled_out(place, others))
        problems.warn(f"`{entry.key}` is not a known key and has no effect", entry, hint)


def _spelled_out(place: Place, others: Sequence[Place]) -> list[str]:
    if place.prefix:
        return [f"{place.prefix}{name}" for name in place.level.names]
    return [*places.TOP.names, *(f"{other.prefix}{name}" for other in others for name in other.level.names)]


def aliases_alike(aliases: Sequence[str]) -> list[tuple[str, str]]:
    """The aliases that differ in case only, by pairs."""
    return [
        (first, second)
        for index, first in enumerate(aliases)
        for second in aliases[index + 1 :]
        if first.casefold() == second.casefold() and first != second
    ]


_WORKER = frozenset(key.name for key in keys_of(Scope.WORKER, Scope.STORAGE))
_READER, _WRITER = ("source.consumer.", "source.cluster.", "consumer."), ("producer.override.", "producer.")
_OF_ALL_PAIRS = ("enabled", "emit.heartbeats.", "heartbeats.topic.")
"""The keys that have an effect for a pair of clusters that mirrors nothing: heartbeats."""


@dataclass(slots=True)
class _Idle:
    """Lines without effect for one reason. `remedy` says what to write for the first, `winner` is what counts."""

    reason: str
    remedy: str = ""
    winner: str = ""
    entries: list[Entry] = field(default_factory=list)


def note_idle(properties: Properties, aliases: Sequence[str], enabled: Sequence[FlowName], problems: Problems) -> None:
    """Notes each such line; without any enabled flow that alone is to be said, and nothing is noted."""
    if not enabled:
        return
    layers = {flow: flow_layers(properties, flow) for flow in enabled}
    reached = {entry.key for of_flow in layers.values() for entry in _counting(of_flow)}
    known_places = tuple(places_of(aliases))
    found: dict[str, _Idle] = {}
    for entry in properties.entries.values():
        place = place_of(entry.key, known_places)
        rest = entry.key.removeprefix(place.prefix)
        if place is places.TOP_LEVEL or entry.key in reached or not place.level.knows(rest):
            continue
        idle = _of_flow(properties, place, rest, layers) if "->" in place.prefix else _of_cluster(place, rest, layers)
        if idle:
            found.setdefault(idle.reason, idle).entries.append(entry)
    for idle in found.values():
        first, *others = idle.entries
        problems.warn(f"`{first.key}` has no effect{other_lines(first, others)}: {idle.reason}{idle.remedy}", first)


def _counting(layers: FlowLayers) -> Iterator[Entry]:
    """The lines that a flow's clients and its worker read."""
    yield from layers.consumer.values()
    yield from layers.producer.values()
    yield from (entry for name, entry in layers.worker.items() if name in _WORKER)


def _of_flow(properties: Properties, place: Place, rest: str, layers: dict[FlowName, FlowLayers]) -> _Idle | None:
    flow = next((flow for flow in layers if f"{flow}." == place.prefix), None)
    if flow is not None:
        return _beaten(rest, layers[flow])
    name = place.prefix.removesuffix(".")
    if rest.startswith(_OF_ALL_PAIRS) or properties.get(f"{name}.enabled") is not None:
        return None  # a flow that is switched off may keep its lines
    return _Idle(f"{name} is not enabled", f"; add `{name}.enabled = true` if it is to be")


def _of_cluster(place: Place, rest: str, layers: dict[FlowName, FlowLayers]) -> _Idle | None:
    alias = place.prefix.removesuffix(".")
    into, out_of = [flow for flow in layers if flow.target == alias], [flow for flow in layers if flow.source == alias]
    if rest.startswith(_READER):
        own, others, way = out_of, {f"{flow.source}": flow for flow in into}, "out of"
    elif rest.startswith(_WRITER) or rest in _WORKER:
        own, others, way = into, {f"{flow.target}": flow for flow in out_of}, "into"
    else:
        return None
    if own:
        beaten = _beaten(rest, layers[own[0]])
        return (
            None if beaten is None or "->" in beaten.winner else beaten
        )  # a flow's own line may well beat a cluster's
    remedy = "".join(f"; for {flow} write `{other}.{rest}`" for other, flow in others.items() if len(others) == 1)
    return _Idle(f"it is about flows {way} {alias}, and none is enabled", remedy)


def _beaten(rest: str, layers: FlowLayers) -> _Idle | None:
    """Why a line in the right place has no effect: the line that takes precedence; None if none does."""
    prefix = next((one for one in (*_READER, *_WRITER) if rest.startswith(one)), "")
    layer = layers.consumer if prefix in _READER else layers.producer if prefix else layers.worker
    winner = layer.get(rest.removeprefix(prefix)) if prefix or rest in _WORKER else None
    if winner is None:
        return None
    where = f"line {winner.line}{f' of {winner.file}' if winner.file else ''}"
    return _Idle(f"`{winner.key}` on {where} counts before it", winner=winner.key)
