"""Decides which pairs of clusters a file mirrors or gives heartbeats, and refuses impossible choices of flows.

Called by `config/flow/flows.py`.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, permutations
from typing import TYPE_CHECKING, Any, Final

from sparkmirror.config.flow.settings import HeartbeatSettings
from sparkmirror.config.flow.transforms import Transforms
from sparkmirror.config.formats.properties import Entry, Properties
from sparkmirror.config.keys import client_keys, flow_keys, sync_keys
from sparkmirror.config.keys import table as keys
from sparkmirror.config.keys.key import Key
from sparkmirror.config.precedence import connector_properties
from sparkmirror.config.reading import FlowReader, Problems, Reader
from sparkmirror.model import FlowName
from sparkmirror.policy.fillers import ABORTED
from sparkmirror.policy.filters import NameFilter
from sparkmirror.policy.loops import Route, find_loops, may_copy_on, may_overlap
from sparkmirror.policy.naming import DefaultReplicationPolicy

if TYPE_CHECKING:
    from sparkmirror.config.flow.flows import FlowConfig

_BEATS = sync_keys.EMIT_HEARTBEATS.name
_OF_KEPT_OFFSETS: Final[tuple[Key[Any], ...]] = (
    flow_keys.PRESERVE_OFFSETS_TOPICS,
    flow_keys.PRESERVE_OFFSETS_ADOPT,
    flow_keys.PRESERVE_OFFSETS_START,
    flow_keys.PRESERVE_OFFSETS_FILLER,
)


def refuse_unsafe(properties: Properties, flows: "Sequence[FlowConfig]", problems: Problems) -> None:
    """Notes what flows would do to each other."""
    refuse_loops(properties, flows, problems)
    refuse_empty_separators(properties, flows, problems)
    refuse_shared_connectors(properties, flows, problems)
    refuse_shared_topics(properties, flows, problems)
    warn_of_empty_records(properties, flows, problems)


def warn_of_same_brokers(properties: Properties, flows: "Sequence[FlowConfig]", problems: Problems) -> None:
    """Two aliases of one cluster: a remote topic is there a source topic again, and is mirrored without end."""
    for flow in flows:
        source, target = (
            {address.strip() for address in cluster.client.get("bootstrap.servers", "").split(",") if address.strip()}
            for cluster in (flow.source, flow.target)
        )
        entry = properties.get(f"{flow.name.target}.bootstrap.servers")
        if entry is not None and (shared := sorted(source & target)):
            ends = f"`{flow.name.source}` and `{flow.name.target}`"
            problems.warn(
                f"{flow.name} leads from a cluster to itself: {ends} have {', '.join(shared)} in common", entry
            )


def refuse_loops(properties: Properties, flows: "Sequence[FlowConfig]", problems: Problems) -> None:
    """Invariant 8."""
    for loop in find_loops([_route(flow) for flow in flows]):
        path = ", ".join(map(str, loop))
        problems.error(
            f"the flows {path} would copy the same topics round and round: IdentityReplicationPolicy keeps their names",
            "give the flows `topics` lists that share nothing, or use DefaultReplicationPolicy",
            connector_properties(properties, loop[0]).get(keys.POLICY_CLASS.name),
        )


def refuse_empty_separators(properties: Properties, flows: "Sequence[FlowConfig]", problems: Problems) -> None:
    """Without a separator no remote topic tells where it came from, so it would be mirrored back."""
    for flow in flows:
        if type(flow.policy) is DefaultReplicationPolicy and not flow.policy.separator:
            problems.error(
                f"{flow.name}: `{keys.POLICY_SEPARATOR.name}` is empty, so that no remote topic tells its source",
                "leave it out, or keep names by IdentityReplicationPolicy",
                connector_properties(properties, flow.name).get(keys.POLICY_SEPARATOR.name),
            )


def refuse_shared_connectors(properties: Properties, flows: "Sequence[FlowConfig]", problems: Problems) -> None:
    """Their tasks would have the same transactional ids, and fence each other for ever."""
    first: dict[tuple[str, str, str], FlowName] = {}
    for flow in flows:
        target, group = flow.name.target, flow.connector.group
        other = first.setdefault((target, group, flow.connector.name), flow.name)
        if other != flow.name:
            entry = properties.get(f"{target}.group.id") or properties.get(f"{flow.name}.progress.connector")
            problems.error(
                f"{other} and {flow.name} would both be the connector `{flow.connector.name}` of the group `{group}` "
                f"on {target}, and fence each other",
                f"leave `{target}.group.id` out, or give each flow a `progress.connector` of its own",
                entry,
            )


def refuse_shared_topics(properties: Properties, flows: "Sequence[FlowConfig]", problems: Problems) -> None:
    """Records of two sources cannot both have their own offsets in one topic."""
    for first, second in combinations(flows, 2):
        keeping = [flow for flow in (first, second) if flow.preserves_offsets]
        if keeping and first.name.target == second.name.target and _may_share(first, second):
            problems.error(
                f"{first.name} and {second.name} may mirror topics of one name into one topic of {first.name.target}, "
                f"where `{flow_keys.PRESERVE_OFFSETS.name} = true` takes one source",
                f"give the flows `topics` or `{flow_keys.PRESERVE_OFFSETS_TOPICS.name}` lists that share nothing, or "
                "use DefaultReplicationPolicy",
                connector_properties(properties, keeping[0].name).get(flow_keys.PRESERVE_OFFSETS.name),
            )


def warn_of_empty_records(properties: Properties, flows: "Sequence[FlowConfig]", problems: Problems) -> None:
    """What one flow fills holes with, another one that reads uncommitted copies on as records."""
    for one, other in permutations(flows, 2):
        fills = one.preserves_offsets and one.offsets_filler == ABORTED and _may_copy_filled(one, other)
        entry = connector_properties(properties, one.name).get(flow_keys.PRESERVE_OFFSETS_FILLER.name)
        if fills and entry and other.consumer.isolation_level != "read_committed":
            problems.warn(
                f"{other.name} reads uncommitted records, and copies the empty ones by which {one.name} fills holes",
                entry,
                f"add `{other.name.source}.consumer.isolation.level = read_committed`",
            )


def _may_copy_filled(one: "FlowConfig", other: "FlowConfig") -> bool:
    """Whether the other flow may mirror a topic on from the first one's target in which that keeps offsets."""
    kept = Route(one.name, one.policy, NameFilter(one.kept_topics))
    if not may_overlap(kept.topics, one.topics):
        return False
    return all(may_copy_on(first, _route(other)) for first in (kept, _route(one)))


def _may_share(first: "FlowConfig", second: "FlowConfig") -> bool:
    """Whether some topic whose offsets are kept may be the target of both, as `policy.loops` judges lists."""
    if not (_route(first).keeps_names and _route(second).keeps_names and may_overlap(first.topics, second.topics)):
        return False
    return any(
        one.preserves_offsets and may_overlap(NameFilter(one.kept_topics), other.topics)
        for one, other in ((first, second), (second, first))
    )


def _route(flow: "FlowConfig") -> Route:
    return Route(flow.name, flow.policy, flow.topics)


def choose_flows(
    flows: "Sequence[FlowConfig]",
    aliases: Sequence[str],
    targets: Sequence[str],
    names: Sequence[str],
    problems: Problems,
) -> "tuple[FlowConfig, ...]":
    """The flows that `--clusters` and `--flow` ask for; notes names that the file does not have."""
    enabled = [str(flow.name) for flow in flows]
    for target in targets:
        if target not in aliases:
            problems.error(f"`--clusters {target}`: `clusters` does not list it", f"known are {', '.join(aliases)}")
    for name in names:
        if name not in enabled:
            problems.error(f"`--flow {name}`: there is no such enabled flow", f"enabled are {', '.join(enabled)}")
    return tuple(flow for flow in flows if is_asked_for(flow.name, targets, names))


def is_asked_for(flow: FlowName, targets: Sequence[str], names: Sequence[str]) -> bool:
    """Whether `--clusters` and `--flow` leave the pair."""
    return (not targets or flow.target in targets) and (not names or str(flow) in names)


def name_others(heartbeats: Sequence[HeartbeatSettings], checkpoints: "Sequence[FlowConfig]") -> str:
    """The work of a file that mirrors no topic, for a sentence; "" for none."""
    named = (
        ("checkpoints", [str(flow.name) for flow in checkpoints]),
        ("heartbeats", [str(beat.flow) for beat in heartbeats]),
    )
    return " and ".join(f"the {what} of {', '.join(pairs)}" for what, pairs in named if pairs)


def note_no_flow(
    properties: Properties,
    aliases: Sequence[str],
    enabled: "Sequence[FlowConfig]",
    others: str,
    problems: Problems,
) -> None:
    """Notes that no flow is left. A warning where there is something else to write, `others`: MirrorMaker's
    documentation has one process per cluster.
    """
    what = "no enabled flow is left by `--clusters` and `--flow`" if enabled else "no flow is enabled"
    entry = properties.entries["clusters"]
    if others:
        problems.warn(f"{what}: no topic is mirrored, only {others} are written", entry)
    elif enabled and not problems.errors:
        problems.error(what, f"enabled are {', '.join(str(flow.name) for flow in enabled)}")
    elif not enabled:
        hint = f"add the line `{aliases[0]}->{aliases[1]}.enabled = true`"
        problems.error(f"{what}, so there is nothing to mirror", hint, entry)


def enabled_pairs(properties: Properties, aliases: Sequence[str], problems: Problems) -> list[FlowName]:
    """The flows of the file; notes a file with a single cluster."""
    pairs = [_pair(two) for two in permutations(aliases, 2)]
    if len(aliases) == 1:
        problems.error("`clusters` lists one cluster; a mirror needs two", entry=properties.get("clusters"))
    return [pair for pair in pairs if _is_enabled(properties, pair, problems)]


def beating_pairs(properties: Properties, aliases: Sequence[str]) -> Iterator[FlowName]:
    """Every ordered pair of clusters, mirrored or not, as in MirrorMaker; but for those that are configured not to."""
    pairs = map(_pair, permutations(aliases, 2))
    return (pair for pair in pairs if _emits_heartbeats(properties, pair))


def checkpoint_pairs(properties: Properties, aliases: Sequence[str], problems: Problems) -> list[FlowName]:
    """Pairs with checkpoints of their own where something else mirrors the topics."""
    layers = ((pair, properties.below(f"{pair}.")) for pair in map(_pair, permutations(aliases, 2)))
    return [pair for pair, layer in layers if Reader(layer, problems).read(sync_keys.CHECKPOINTS_ALONE)]


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
    if not enabled and entry.value.strip().lower() != "false":
        problems.warn(f"`{entry.key}` is `{entry.value}`, which counts as false: only `true` turns a flow on", entry)
    beats = _switch_of_heartbeats(properties, pair)
    if enabled and all(one and one.value.lower() != "true" for one in (entry, beats)):
        message = f"`{entry.key}` ends with a blank: MirrorMaker, without heartbeats of {pair}, takes it for false"
        problems.warn(message, entry, "remove the blank")
    if enabled and own is None:
        problems.warn(f"`enabled` at the top level turns on {pair}", entry)
    return enabled


def _emits_heartbeats(properties: Properties, pair: FlowName) -> bool:
    entry = _switch_of_heartbeats(properties, pair)
    return entry is None or entry.value.strip().lower() == "true"


def _switch_of_heartbeats(properties: Properties, pair: FlowName) -> Entry | None:
    return properties.get(f"{pair}.{_BEATS}") or properties.get(_BEATS)


def warn_of_uncommitted_source(flow: FlowReader, name: FlowName, problems: Problems) -> None:
    """Warns that neither exactly-once, as in MirrorMaker, which does not warn, nor kept offsets turn read_committed on:
    what was aborted on the source is a record on the target."""
    if flow.read(client_keys.ISOLATION_LEVEL) == "read_committed":
        return
    keeps_offsets = flow.read(flow_keys.PRESERVE_OFFSETS)
    entry = flow.entry(flow_keys.PRESERVE_OFFSETS) if keeps_offsets else flow.entry(keys.EXACTLY_ONCE)
    if entry and (keeps_offsets or flow.read(keys.EXACTLY_ONCE) == "enabled"):
        problems.warn(
            f"{name} copies records of aborted transactions of {name.source} too; "
            f"add `{name.source}.consumer.isolation.level = read_committed` unless it has none",
            entry,
        )


def refuse_crossed_tasks(flow: FlowReader, name: FlowName, problems: Problems) -> None:
    """Refuses more tasks at least than at most."""
    least, most = flow.read(keys.TASKS_MIN), flow.read(keys.TASKS_MAX)
    if least > most:
        message = f"{name}: `{keys.TASKS_MIN.name}` is {least}, and `{keys.TASKS_MAX.name}` is {most}"
        problems.error(message, f"raise {keys.TASKS_MAX.name} too", flow.entry(keys.TASKS_MIN))


def refuse_moved_offsets(flow: FlowReader, name: FlowName, transforms: Transforms, problems: Problems) -> None:
    """Refuses to keep offsets where records are dropped or go to other partitions, and in transactions, whose markers
    would take offsets. Warns of what says nothing where no offsets are kept."""
    if not flow.read(flow_keys.PRESERVE_OFFSETS):
        for key in _OF_KEPT_OFFSETS:
            if (entry := flow.entry(key)) is not None:
                message = f"{name}: `{key.name}` has no effect without `{flow_keys.PRESERVE_OFFSETS.name} = true`"
                problems.warn(message, entry)
        return
    moving = ["transforms"] if transforms.steps else []
    if flow.read(flow_keys.PARTITIONING) == "key":
        moving.append(f"`{flow_keys.PARTITIONING.name} = key`")
    if flow.read(keys.EXACTLY_ONCE) == "enabled":
        moving.append(f"`{keys.EXACTLY_ONCE.name} = enabled`")
    hint = "turn one of them off for this flow; records come once, at their own offsets, without transactions"
    for what in moving:
        message = f"{name}: {what} and `{flow_keys.PRESERVE_OFFSETS.name} = true` do not go together"
        problems.error(message, hint, flow.entry(flow_keys.PRESERVE_OFFSETS))
