"""`sparkmirror plan FILE`: what a mirror would change on its targets now. `sparkmirror run --dry-run` is the same."""

import argparse
import json
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.file import add_file_arguments, read_file

if TYPE_CHECKING:
    from sparkmirror.config.flows import FlowConfig, MirrorConfig

DESCRIPTION = (
    "Print the topics, settings and ACLs that a mirror would create or change on its targets now, and what it mirrors. "
    "Changes nothing."
)


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    parser = verbs.add_parser("plan", help="print what a mirror would change", description=DESCRIPTION)
    add_file_arguments(parser)
    parser.add_argument("--format", choices=("table", "json"), default="table", help="how to print (default: table)")
    parser.set_defaults(command=execute, takes_rest=False)


def execute(args: argparse.Namespace) -> int:
    """Reads the file and prints the plan. Raises ConfigError and ClusterError."""
    return show_plan(read_file(args), args.format)


def show_plan(config: "MirrorConfig", how: str) -> int:
    """Asks the clusters and prints, as a `table` or `json`; the exit status. Raises ClusterError."""
    plans = {str(flow.name): _describe(flow) for flow in config.flows}
    if how == "json":
        print(json.dumps(plans, indent=2))
    else:
        for name, plan in plans.items():
            print("\n".join([f"{name}: {_counted(plan)}", *(f"  {line}" for line in _lines(plan))]))
    return 0


def _describe(flow: "FlowConfig") -> dict[str, Any]:
    """A flow for JSON: `tasks` at most, `topics` to mirror, pending `changes`, and `warnings`."""
    from sparkmirror.sync.change import describe_change
    from sparkmirror.sync.flow import mirrored_topics, plan_flow

    plan = plan_flow(flow)
    topics = [
        {"topic": name, "remote_topic": flow.remote_topic(name), "partitions": partitions}
        for name, partitions in sorted(mirrored_topics(flow).items())
    ]
    changes = [{**describe_change(change), "sentence": change.sentence} for change in plan.changes]
    return {"tasks": flow.tasks_max, "topics": topics, "changes": changes, "warnings": list(plan.warnings)}


def _counted(plan: dict[str, Any]) -> str:
    changes, topics, tasks = len(plan["changes"]), len(plan["topics"]), plan["tasks"]
    return f"{changes or 'no'} {_plural('change', changes)}, {topics} {_plural('topic', topics)}, up to {tasks} tasks"


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"


def _lines(plan: dict[str, Any]) -> list[str]:
    return [
        *(change["sentence"] for change in plan["changes"]),
        *(f"warning: {warning}" for warning in plan["warnings"]),
        *(f"mirror {one['topic']} to {one['remote_topic']}, {one['partitions']} partitions" for one in plan["topics"]),
    ]
