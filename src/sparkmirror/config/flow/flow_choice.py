"""What a file or a command line may not ask for, once its flows are read. Called by `config/flow/flows.py`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sparkmirror.config.flow.offsets import HeartbeatSettings
from sparkmirror.config.formats.properties import Properties
from sparkmirror.config.keys import table as keys
from sparkmirror.config.precedence import connector_properties
from sparkmirror.config.problems import Problems
from sparkmirror.model import FlowName
from sparkmirror.policy.loops import Route, find_loops
from sparkmirror.policy.naming import DefaultReplicationPolicy

if TYPE_CHECKING:
    from sparkmirror.config.flow.flows import FlowConfig


def refuse_unsafe(properties: Properties, flows: "Sequence[FlowConfig]", problems: Problems) -> None:
    """Notes what flows would do to each other."""
    refuse_loops(properties, flows, problems)
    refuse_empty_separators(properties, flows, problems)
    refuse_shared_connectors(properties, flows, problems)


def refuse_loops(properties: Properties, flows: "Sequence[FlowConfig]", problems: Problems) -> None:
    """Invariant 8."""
    for loop in find_loops([Route(flow.name, flow.policy, flow.topics) for flow in flows]):
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
    """What is written where no topic is mirrored, for a sentence; "" for nothing."""
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
