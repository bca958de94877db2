"""`sparkmirror positions show|set|reset FILE`: where a flow stands on its source; rewind it, or skip.

Only reads arguments and prints; the work is that of `operations.position_snapshot` and `operations.position_job`.
"""

import argparse
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.file import (
    add_execute,
    add_flows,
    add_input_arguments,
    add_partition,
    add_topic_pattern,
    add_verb,
    read_file,
)
from sparkmirror.cli.offsets import parse_place
from sparkmirror.cli.output import add_format, say, show
from sparkmirror.cli.procedure import one_flow
from sparkmirror.clock import parse_moment
from sparkmirror.errors import ConfigError

if TYPE_CHECKING:
    from sparkmirror.config.flow.flows import FlowConfig
    from sparkmirror.operations.position_snapshot import Choice, Goal, PositionPlan, Standing

_DESCRIPTION = "Where flows stand on their sources: list it, rewind and skip. Names and offsets are the source's."
_SHOW = "Print the position of each partition, which is the next offset to mirror, beside the source's log."
_SET = (
    "Set positions to the offsets given, or to those of the file in which a standalone worker of Kafka Connect keeps "
    "them. Prints what would be done; with --execute it is done, while the flow does not run."
)
_RESET = (
    "Rewind a flow, so that records are mirrored again, or have it skip some. Prints what would be done; with "
    "--execute it is done, while the flow does not run, and noted with who and why: see `sparkmirror gaps`."
)


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    parser = verbs.add_parser("positions", help="where a flow stands: show, set, reset", description=_DESCRIPTION)
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    shown = _action(actions, "show", "print where flows stand", _SHOW, _execute_show)
    _add_choice(shown)
    given = _action(actions, "set", "set positions to offsets", _SET, _execute_set)
    places = given.add_mutually_exclusive_group(required=True)
    places.add_argument(
        "--offset",
        metavar="TOPIC:PARTITION:OFFSET",
        action="append",
        type=parse_place,
        help="the next one to mirror; may be repeated",
    )
    places.add_argument("--from-file", metavar="FILE", help="a standalone worker's offset.storage.file.filename")
    _add_choice(given)
    _add_execution(given)
    reset = _action(actions, "reset", "rewind or skip", _RESET, _execute_reset)
    _add_goals(reset)
    _add_choice(reset)
    reset.add_argument("--all-topics", action="store_true", help="all topics that the flow mirrors")
    _add_execution(reset)


def _action(actions: Any, name: str, about: str, description: str, command: Any) -> argparse.ArgumentParser:
    parser = add_verb(actions, name, about, description, command)
    add_input_arguments(parser)
    add_flows(parser)
    add_format(parser)
    return parser


def _add_choice(parser: argparse.ArgumentParser) -> None:
    add_topic_pattern(parser)
    add_partition(parser)


def _add_goals(parser: argparse.ArgumentParser) -> None:
    goals = parser.add_mutually_exclusive_group(required=True)
    goals.add_argument("--to-earliest", action="store_true", help="to the beginning of the source's log")
    goals.add_argument("--to-latest", action="store_true", help="to its end")
    goals.add_argument(
        "--to-datetime", metavar="T", type=_moment, help="to the first record at or after 2026-11-20T11:00"
    )
    goals.add_argument("--shift-by", metavar="N", type=int, help="so many offsets on, or back: --shift-by -1000")


def _add_execution(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reason", metavar="TEXT", default="", help="why, for the gap ledger")
    add_execute(parser)


def _moment(text: str) -> int:
    try:
        return parse_moment(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def _choice(args: argparse.Namespace) -> "Choice":
    from sparkmirror.operations.position_snapshot import Choice

    return Choice(args.topic, args.partition)


def _execute_show(args: argparse.Namespace) -> int:
    """Asks both clusters of each flow and prints. Raises ConfigError and ClusterError."""
    found = [(str(flow.name), one) for flow in read_file(args).flows for one in _look(flow, args)]
    as_json = [{"flow": name, **one.as_json()} for name, one in found]
    show(args, as_json, lambda: _acked_positions(found))
    return 0


def _look(flow: "FlowConfig", args: argparse.Namespace) -> "list[Standing]":
    from sparkmirror.kafka.clients import open_admin
    from sparkmirror.operations.position_snapshot import list_standings

    with open_admin(flow.source, "positions") as source, open_admin(flow.target, "positions") as target:
        return list_standings(flow, source, target, _choice(args))


def _acked_positions(found: "list[tuple[str, Standing]]") -> Any:
    from sparkmirror.views.table import make_table

    titles = ("Flow", "Partition", "Position", "Begin", "End", "Note")
    unknown = ["none", "unknown", "unknown"]
    rows = [
        (name, one.partition, *_shown((one.position, one.begin, one.end), unknown), one.note) for name, one in found
    ]
    return [make_table(titles, rows)]


def _shown(values: "tuple[int | None, ...]", missing: list[str]) -> list[object]:
    return [text if value is None else value for value, text in zip(values, missing, strict=True)]


def _execute_set(args: argparse.Namespace) -> int:
    """Plans, prints and writes. Raises ConfigError, SparkMirrorError, ClusterError."""
    from sparkmirror.operations.position_snapshot import Choice, from_file, to_places

    flow = one_flow(args)
    if args.from_file:
        return _move(args, flow, _choice(args), from_file(args.from_file, flow.connector), is_taken_over=True)
    if args.topic or args.partition is not None:
        raise ConfigError("`--topic` and `--partition` do not go with `--offset`", "each `--offset` names its own")
    return _move(args, flow, Choice(), to_places(dict(args.offset)))


def _execute_reset(args: argparse.Namespace) -> int:
    """As `_execute_set`."""
    if bool(args.topic) == args.all_topics:
        raise ConfigError("either `--topic` or `--all-topics` says what to reset", "the names are those on the source")
    flow = one_flow(args)
    return _move(args, flow, _choice(args), _goal(args))


def _goal(args: argparse.Namespace) -> "Goal":
    from sparkmirror.operations.position_snapshot import shifted_by, to_earliest, to_latest, to_time

    if args.to_earliest:
        return to_earliest
    if args.to_latest:
        return to_latest
    return to_time(args.to_datetime) if args.to_datetime is not None else shifted_by(args.shift_by)


def _move(
    args: argparse.Namespace, flow: "FlowConfig", choice: "Choice", goal: "Goal", *, is_taken_over: bool = False
) -> int:
    from sparkmirror.kafka.clients import open_admin
    from sparkmirror.operations.position_job import Author, set_positions
    from sparkmirror.operations.position_snapshot import plan_positions, read_stored
    from sparkmirror.runtime.at_rest import refuse_while_running

    with open_admin(flow.source, "positions") as source, open_admin(flow.target, "positions") as target:
        if args.execute:
            plan = set_positions(
                flow,
                source,
                target,
                lambda stored: plan_positions(flow, source, stored, choice, goal),
                Author(args.reason, is_taken_over),
                lambda: refuse_while_running(flow, target),
            )
        else:
            plan = plan_positions(flow, source, read_stored(flow, target), choice, goal)
    _print_plan(args, flow, plan)
    return 0


def _print_plan(args: argparse.Namespace, flow: "FlowConfig", plan: "PositionPlan") -> None:
    from sparkmirror.views.table import make_table

    for warning in plan.warnings:
        say(f"warning: {warning}")
    rows = [
        (move.partition, "none" if move.before is None else move.before, move.after, move.effect) for move in plan.moves
    ]
    as_json = {"flow": str(flow.name), "executed": args.execute, "moves": [move.as_json() for move in plan.moves]}
    show(args, as_json, lambda: [make_table(("Partition", "Stands", "New", "Effect"), rows)])
    say(_told(plan, executed=args.execute))
    if flow.progress_group:
        say(
            f"note: where another program has committed offsets of the group {flow.progress_group} on "
            f"{flow.name.source}, the flow begins there: `sparkmirror offsets reset` sets them"
        )


def _told(plan: "PositionPlan", *, executed: bool) -> str:
    """Gap and repetition, in offsets."""
    steps = [move.after - move.before for move in plan.moves if move.before is not None]
    skipped, again = sum(step for step in steps if step > 0), -sum(step for step in steps if step < 0)
    parts = [f"{skipped:,} offsets are skipped"] if skipped else []
    parts += [f"{again:,} are mirrored again, and lie on the target twice where it still has them"] if again else []
    moved = sum(1 for move in plan.moves if move.before != move.after)
    what = f"; {', '.join(parts)}" if parts else ""
    if executed:
        return f"{moved} positions were set{what}. They count from the next start on."
    return f"{moved} positions would be set{what}. Nothing was changed: add --execute."
