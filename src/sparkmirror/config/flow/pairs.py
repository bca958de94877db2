"""Which pairs of clusters mirror data, and which announce themselves by heartbeats. Called by
`config/flow/flows.py`."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations

from sparkmirror.config.formats.properties import Properties
from sparkmirror.config.keys import offset_keys
from sparkmirror.config.keys import table as keys
from sparkmirror.config.problems import Problems
from sparkmirror.config.reading import Reader
from sparkmirror.model import FlowName


def enabled_pairs(properties: Properties, aliases: Sequence[str], problems: Problems) -> list[FlowName]:
    """The flows of the file; notes a file with a single cluster."""
    pairs = [_pair(two) for two in permutations(aliases, 2)]
    if len(aliases) == 1:
        problems.error("`clusters` lists one cluster; a mirror needs two", entry=properties.get("clusters"))
    return [pair for pair in pairs if _is_enabled(properties, pair, problems)]


def beating_pairs(properties: Properties, aliases: Sequence[str]) -> Iterator[FlowName]:
    """Every ordered pair of clusters, mirrored or not, as in MirrorMaker; but for those that are told not to."""
    pairs = map(_pair, permutations(aliases, 2))
    return (pair for pair in pairs if _emits_heartbeats(properties, pair))


def checkpoint_pairs(properties: Properties, aliases: Sequence[str], problems: Problems) -> list[FlowName]:
    """Pairs with checkpoints of their own where something else mirrors the topics."""
    layers = ((pair, properties.below(f"{pair}.")) for pair in map(_pair, permutations(aliases, 2)))
    return [pair for pair, layer in layers if Reader(layer, problems).read(offset_keys.CHECKPOINTS_ALONE)]


def need_address(properties: Properties, aliases: Sequence[str], flows: Iterable[FlowName]) -> set[str]:
    """The clusters that are asked or written to: all but those that do nothing but stand in heartbeats of others."""
    beating = list(beating_pairs(properties, aliases))
    asked = {alias for flow in flows for alias in (flow.source, flow.target)} | {pair.target for pair in beating}
    return set(aliases) - ({pair.source for pair in beating} - asked)


def _pair(aliases: tuple[str, str]) -> FlowName:
    return FlowName(*aliases)


def _is_enabled(properties: Properties, pair: FlowName, problems: Problems) -> bool:
    """The pair's own switch; without it the top level's, where the pair runs for its heartbeats as in MirrorMaker."""
    own, top = properties.get(f"{pair}.enabled"), properties.get("enabled")
    entry = own or (top if _emits_heartbeats(properties, pair) else None)
    if entry is None:
        return False
    enabled = Reader({"enabled": entry}, problems).read(keys.ENABLED)
    if not enabled and entry.value.lower() != "false":
        problems.warn(f"`{entry.key}` is `{entry.value}`, which counts as false: only `true` turns a flow on", entry)
    if enabled and own is None:
        problems.warn(f"`enabled` at the top level turns on {pair}", entry)
    return enabled


def _emits_heartbeats(properties: Properties, pair: FlowName) -> bool:
    entry = properties.get(f"{pair}.emit.heartbeats.enabled") or properties.get("emit.heartbeats.enabled")
    return entry is None or entry.value.lower() == "true"
