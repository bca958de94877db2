"""Lines that stand where their key has an effect, and reach no enabled flow: their cluster is on the other side, their
flow is off, or another line counts before them. Called by `config/flow/flows.py`; `config/recognise.py` judges names.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sparkmirror.config.formats.properties import Entry, Properties
from sparkmirror.config.keys import places
from sparkmirror.config.keys.key import Scope
from sparkmirror.config.keys.places import Place, place_of, places_of
from sparkmirror.config.keys.table import keys_of
from sparkmirror.config.precedence import FlowLayers, flow_layers
from sparkmirror.config.problems import Problems, other_lines
from sparkmirror.model import FlowName

_WORKER = frozenset(key.name for key in keys_of(Scope.WORKER, Scope.STORAGE))
_READER, _WRITER = ("source.consumer.", "source.cluster.", "consumer."), ("producer.override.", "producer.")
_OF_ALL_PAIRS = ("enabled", "emit.heartbeats.", "heartbeats.topic.")
"""What a pair of clusters that mirrors nothing has an effect of: heartbeats."""


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
    """Of a line whose place is right."""
    prefix = next((one for one in (*_READER, *_WRITER) if rest.startswith(one)), "")
    layer = layers.consumer if prefix in _READER else layers.producer if prefix else layers.worker
    winner = layer.get(rest.removeprefix(prefix)) if prefix or rest in _WORKER else None
    if winner is None:
        return None
    where = f"line {winner.line}{f' of {winner.file}' if winner.file else ''}"
    return _Idle(f"`{winner.key}` on {where} counts before it", winner=winner.key)
