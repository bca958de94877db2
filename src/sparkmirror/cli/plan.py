"""`sparkmirror plan FILE`: what a mirror would change on its targets now. `sparkmirror run --dry-run` is the same."""

import argparse
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.file import add_file_arguments, add_verb, read_file
from sparkmirror.cli.output import add_format, show

if TYPE_CHECKING:
    from sparkmirror.config.flow.flows import FlowConfig, MirrorConfig

DESCRIPTION = (
    "Print the topics, settings and ACLs that a mirror would create or change on its targets now, and what it mirrors. "
    "Changes nothing."
)


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    parser = add_verb(verbs, "plan", "print what a mirror would change", DESCRIPTION, execute)
    add_file_arguments(parser)
    add_format(parser)


def execute(args: argparse.Namespace) -> int:
    """Reads the file and prints the plan. Raises ConfigError and ClusterError."""
    return show_plan(read_file(args), args)


def show_plan(config: "MirrorConfig", args: argparse.Namespace) -> int:
    """Asks the clusters and prints as `args` say; the exit status. Raises ClusterError."""
    plans = {str(flow.name): _describe(flow) for flow in config.flows}
    show(args, plans, lambda: [line for name, plan in plans.items() for line in _page(name, plan)])
    return 0


def _page(name: str, plan: dict[str, Any]) -> list[str]:
    return [f"{name}: {_counted(plan)}", *(f"  {line}" for line in _lines(plan))]


def _describe(flow: "FlowConfig") -> dict[str, Any]:
    """A flow for JSON: `tasks` at most, `topics` to mirror, pending `changes`, and `warnings`. `kept_offsets` has what
    is to be filled where offsets are kept, and the `lines` about it."""
    from sparkmirror.operations.kept_starts import look_at_kept_starts
    from sparkmirror.sync.change import describe_change
    from sparkmirror.sync.flow import mirrored_topics, plan_flow

    plan = plan_flow(flow)
    topics = [
        {"topic": name, "remote_topic": flow.remote_topic(name), "partitions": partitions}
        for name, partitions in sorted(mirrored_topics(flow).items())
    ]
    changes = [{**describe_change(change), "sentence": change.sentence} for change in plan.changes]
    found = {"tasks": flow.tasks_max, "topics": topics, "changes": changes}
    if not flow.preserves_offsets:
        return {**found, "warnings": list(plan.warnings)}
    kept = look_at_kept_starts(flow)
    told = {**kept.as_json(), "lines": list(kept.lines())}
    return {**found, "warnings": [*plan.warnings, *kept.warnings], "kept_offsets": told}


def _counted(plan: dict[str, Any]) -> str:
    changes, topics, tasks = len(plan["changes"]), len(plan["topics"]), plan["tasks"]
    return f"{changes or 'no'} {_plural('change', changes)}, {topics} {_plural('topic', topics)}, up to {tasks} tasks"


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"


def _lines(plan: dict[str, Any]) -> list[str]:
    return [
        *(change["sentence"] for change in plan["changes"]),
        *(f"warning: {warning}" for warning in plan["warnings"]),
        *plan.get("kept_offsets", {}).get("lines", ()),
        *(f"mirror {one['topic']} to {one['remote_topic']}, {one['partitions']} partitions" for one in plan["topics"]),
    ]
