"""`sparkmirror failover status|drill|run FILE`: going on at the target. What to do by hand is in docs/failover.md."""

import argparse
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.file import read_file
from sparkmirror.cli.output import show
from sparkmirror.cli.procedure import add_endings, add_kind, confirm, end, journal_of, one_flow, rehearse, tell
from sparkmirror.cli.seconds import check_seconds
from sparkmirror.errors import ClusterUnreachable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparkmirror.config.flow.flows import FlowConfig
    from sparkmirror.operations.cluster_pair import ClusterPair
    from sparkmirror.operations.failover import Readiness
    from sparkmirror.operations.journal import TopicJournal
    from sparkmirror.operations.steps import Step

_STATUS = "Say what a failover would mean now: what would be lost, and what each group would read again."
_DRILL = "Rehearse `failover run`: every step is prepared and shown, nothing is changed on either cluster."
_RUN = (
    "Make groups go on at the target: fence the source where asked, wait until all is mirrored, move the groups. "
    "Run again it goes on where it was interrupted."
)
_DRAIN_SECONDS = 60.0


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    parser = verbs.add_parser("failover", help="go on at the target: status, drill, run")
    kinds = parser.add_subparsers(metavar="KIND", required=True)
    add_kind(kinds, "status", _STATUS, _execute_status)
    _add_ways(add_kind(kinds, "drill", _DRILL, _execute_drill))
    run = add_kind(kinds, "run", _RUN, _execute_run)
    _add_ways(run)
    add_endings(run)


def _add_ways(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fence", action="store_true", help="deny writing to the mirrored topics of the source, by ACL"
    )
    parser.add_argument("--unplanned", action="store_true", help="the source is gone: go on with what is mirrored")
    parser.add_argument(
        "--drain-seconds", metavar="N", type=float, default=_DRAIN_SECONDS, help="how long to wait for the mirror (60)"
    )


def _execute_status(args: argparse.Namespace) -> int:
    """Looks and prints. Raises ConfigError and ClusterError."""
    from sparkmirror.operations.cluster_pair import open_sides
    from sparkmirror.operations.failover_snapshot import look

    found = []
    for flow in read_file(args).flows:
        with open_sides(flow, "failover") as cluster_pair:
            found.append(look(flow, cluster_pair))
    _print(args, found)
    return 0


def _execute_drill(args: argparse.Namespace) -> int:
    """Prepares each step and prints. Raises as the run would, and also where the source answers in part: it is asked
    what an unplanned failover would lose."""
    from sparkmirror.operations.cluster_pair import ClusterPair, open_sides
    from sparkmirror.operations.failover_snapshot import look

    check_seconds("--drain-seconds", args.drain_seconds)
    flow = one_flow(args)
    with open_sides(flow, "failover") as cluster_pair:
        found = look(flow, cluster_pair)
        _print(args, [found])
        pair = ClusterPair(None, cluster_pair.target) if args.unplanned else cluster_pair
        rehearse(_steps(flow, pair, journal_of(flow, "failover"), args))
    tell("drill", "nothing was changed")
    return 0


def _execute_run(args: argparse.Namespace) -> int:
    """Takes the steps, undoes or ends them. Raises ConfigError, ClusterError, SparkMirrorError."""
    from sparkmirror.operations.cluster_pair import open_sides
    from sparkmirror.operations.failover_snapshot import look
    from sparkmirror.operations.steps import give_up_step, take_steps, undo_steps

    check_seconds("--drain-seconds", args.drain_seconds)
    flow = one_flow(args)
    journal = journal_of(flow, "failover")
    if end(args, journal):
        return 0
    with open_sides(flow, "failover", asks_source=args.undo or not args.unplanned) as cluster_pair:
        if args.undo:
            undo_steps(_all_steps(flow, cluster_pair, journal, args), journal, tell)
            return 0
        steps = _steps(flow, cluster_pair, journal, args)
        confirm(args, f"Fail {flow.name} over to {flow.name.target}: {', '.join(step.name for step in steps)}?")
        if args.unplanned:
            give_up_step("drain", journal, tell)
        take_steps(steps, journal, tell)
        _print(args, [look(flow, cluster_pair, differences=False)])
    tell("next", f"start consumers and producers on {flow.name.target}; then --finish, or --undo to take it back")
    return 0


def _steps(
    flow: "FlowConfig", cluster_pair: "ClusterPair", journal: "TopicJournal", args: argparse.Namespace
) -> "list[Step]":
    """Those that were asked for. Raises ClusterUnreachable where the source is needed and does not answer."""
    wanted = {"groups"} if args.unplanned else {"drain", "groups"} | ({"fence"} if args.fence else set())
    if cluster_pair.source is None and not args.unplanned:
        raise ClusterUnreachable(
            f"Cluster {flow.name.source} does not answer, so it cannot be drained.",
            "If it is gone, go on with what is mirrored: --unplanned.",
        )
    return [step for step in _all_steps(flow, cluster_pair, journal, args) if step.name in wanted]


def _all_steps(
    flow: "FlowConfig", cluster_pair: "ClusterPair", journal: "TopicJournal", args: argparse.Namespace
) -> "list[Step]":
    from sparkmirror.operations.failover_run import Drain, Fence, MoveGroups, Moves
    from sparkmirror.operations.failover_snapshot import look
    from sparkmirror.operations.steps import keeper

    def moves() -> Moves:
        found = look(flow, cluster_pair, differences=False, is_step=True)
        return Moves(found.moves(planned=not args.unplanned), found.topic_ids, found.upstream())

    groups = MoveGroups(cluster_pair.target, moves, flow=flow)
    if cluster_pair.source is None:
        return [groups]
    fence = Fence(flow, cluster_pair.source, keeper(Fence.name, journal))
    return [fence, Drain(flow, cluster_pair.source, args.drain_seconds), groups]


def _print(args: argparse.Namespace, found: "Sequence[Readiness]") -> None:
    from sparkmirror.cli.procedure import render_readiness

    show(args, [one.as_json() for one in found], lambda: [part for one in found for part in render_readiness(one)])
