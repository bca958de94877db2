"""`sparkmirror failback plan|run|accept FILE`: the way to an old primary, with the failover's FILE and `--flow`."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.file import add_execute, add_partition, add_topic_pattern, check_pattern
from sparkmirror.cli.output import progress, say, show
from sparkmirror.cli.procedure import add_endings, add_kind, confirm, end, journal_of, one_flow, tell
from sparkmirror.errors import ConfigError

if TYPE_CHECKING:
    from sparkmirror.config.flow.flows import FlowConfig
    from sparkmirror.kafka.admin import Admin
    from sparkmirror.operations.failback import WayBack
    from sparkmirror.operations.parted_logs import PartedLogs
    from sparkmirror.views.table import Page

_PLAN = "Say what only the old primary has, and where groups would go on there. Changes nothing."
_RUN = (
    "Lift the fence, set where the reverse flow starts, so that nothing is copied twice, and move groups home. Run "
    "again it goes on where it was interrupted."
)
_ACCEPT = (
    "Where offsets are kept, accept that logs part after a disaster: the old primary keeps the records that it alone "
    "has, and what the other cluster has from there on is appended behind them, or left out. Prints what would be "
    "done; with --execute it is done, and noted with who and why."
)


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    parser = verbs.add_parser("failback", help="return to the source of a flow: plan, run, accept")
    kinds = parser.add_subparsers(metavar="KIND", required=True)
    plan = add_kind(kinds, "plan", _PLAN, _execute_plan)
    plan.add_argument("--export", metavar="DIR", help="write what only the old primary has to DIR/TOPIC-N.jsonl")
    add_endings(add_kind(kinds, "run", _RUN, _execute_run))
    _add_accept(add_kind(kinds, "accept", _ACCEPT, _execute_accept))


def _add_accept(parser: argparse.ArgumentParser) -> None:
    add_topic_pattern(parser)
    add_partition(parser)
    parser.add_argument(
        "--leave-out",
        action="store_true",
        help="leave the other cluster's records out up to the end of the old primary's log, and keep offsets behind it "
        "(default: append them, at offsets of their own)",
    )
    parser.add_argument("--undo", action="store_true", help="refuse again where records were to be appended")
    parser.add_argument("--reason", metavar="TEXT", default="", help="why, for the ledger")
    add_execute(parser)


def _execute_accept(args: argparse.Namespace) -> int:
    """Looks, prints, and with --execute writes. Raises ConfigError, ClusterError, SparkMirrorError."""
    from sparkmirror.control.commands import Selection
    from sparkmirror.operations.parted_logs import PartedLogs
    from sparkmirror.operations.position_job import Author

    check_pattern(args.topic)
    flow = one_flow(args)
    if not flow.preserves_offsets:
        raise ConfigError(f"{flow.name} keeps no offsets", "set `preserve.offsets.enabled = true`", file=args.file)
    with _both(flow) as (source, target):
        logs = PartedLogs(flow, source, target, Selection(args.topic, args.partition))
        if args.undo:
            return _revoke(args, logs)
        partings = logs.look(leaves_out=args.leave_out)
        names = flow.name.source, flow.name.target
        lines: Page = [one.sentence(*names) for one in partings] or ["no logs part"]
        if args.execute:
            logs.accept(partings, Author(args.reason))
    show(args, [one.as_json() for one in partings], lambda: lines)
    if not args.execute:
        say("nothing was changed: --execute does it")
    return 1 if any(one.refusal for one in partings) else 0


def _revoke(args: argparse.Namespace, logs: "PartedLogs") -> int:
    found = logs.revoke() if args.execute else logs.accepted()
    what = "is refused again" if args.execute else "would be refused again"
    lines: Page = [f"{where} {what}" for where in found] or ["no records are to be appended: nothing can be taken back"]
    show(args, [str(where) for where in found], lambda: lines)
    if not args.execute:
        say("nothing was changed: --execute does it")
    return 0


def _execute_plan(args: argparse.Namespace) -> int:
    """Looks, prints and exports. Raises ConfigError and ClusterError."""
    from sparkmirror.operations.divergence_export import export
    from sparkmirror.operations.failback import look_back

    flow = one_flow(args)
    with _both(flow) as (source, target):
        found = look_back(flow, source, target)
    show(args, found.as_json(), lambda: _page(flow, found))
    if args.export:
        with progress("offsets") as tell_progress:
            count = export(flow, found.divergence, Path(args.export), tell_progress)
        tell("export", f"{count} records are in {args.export}")
    return 0


def _execute_run(args: argparse.Namespace) -> int:
    """Takes the steps, undoes or ends them. Raises ConfigError, ClusterError, SparkMirrorError."""
    from sparkmirror.operations.failback import look_back
    from sparkmirror.operations.failover_run import MoveGroups, Moves, Unfence
    from sparkmirror.operations.reverse_start import KeepReverse, StartReverse
    from sparkmirror.operations.steps import Step, take_steps, undo_steps

    flow = one_flow(args)
    journal = journal_of(flow, "failback")
    if end(args, journal):
        return 0
    with _both(flow) as (source, target):

        def moves() -> Moves:
            found = look_back(flow, source, target)
            return Moves(found.moves, found.topic_ids)

        steps: list[Step] = [
            Unfence(flow, source),
            StartReverse(flow, source, lambda: look_back(flow, source, target, awaits_maps=True)),
            *(
                [KeepReverse(flow, source, lambda: look_back(flow, source, target).kept)]
                if flow.preserves_offsets
                else ()
            ),
            MoveGroups(source, moves),
        ]
        if args.undo:
            undo_steps(steps, journal, tell)
            return 0
        confirm(
            args, f"Return from {flow.name.target} to {flow.name.source}: {', '.join(step.name for step in steps)}?"
        )
        take_steps(steps, journal, tell)
        after = look_back(flow, source, target)
        show(args, after.as_json(), lambda: _page(flow, after))
    reverse = f"{flow.name.target}->{flow.name.source}"
    tell(
        "next", f"run the flow {reverse}, start consumers and producers on {flow.name.source}; then --finish, or --undo"
    )
    return 0


@contextmanager
def _both(flow: "FlowConfig") -> "Iterator[tuple[Admin, Admin]]":
    from sparkmirror.kafka.clients import open_admin

    with open_admin(flow.source, "failback") as source, open_admin(flow.target, "failback") as target:
        yield source, target


def _page(flow: "FlowConfig", found: "WayBack") -> "Page":
    from sparkmirror.cli.procedure import render_divergence, render_home

    return [
        *render_divergence(flow.name.source, found.divergence),
        *render_home(flow.name.target, found.places),
        *(f"reverse flow starts {where} at {at}" for where, at in sorted(found.starts.items())),
        *(f"reverse flow keeps offsets of {one.partition} from {one.start} on" for one in found.kept if not one.parted),
        *(
            f"warning: {one.partition}: {one.parted}; the reverse flow refuses it until the topic is deleted on "
            f"{flow.name.source}, and then copies all of it, or until `failback accept` says that they may part"
            for one in found.kept
            if one.parted
        ),
        *(
            f"warning: {where} has up to {count} offsets of others between what was mirrored; the reverse flow leaves "
            "them out"
            for where, count in sorted(found.interleaved.items())
        ),
    ]
