"""`sparkmirror migrate status|run FILE`: moves a flow's topics and groups for good. See docs/migrate.md."""

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.file import read_file
from sparkmirror.cli.output import show
from sparkmirror.cli.procedure import add_endings, add_kind, confirm, end, journal_of, one_flow, only_flow, tell
from sparkmirror.cli.seconds import check_seconds
from sparkmirror.cli.verify import check_sample, tell_progress
from sparkmirror.errors import ClusterUnreachable

if TYPE_CHECKING:
    from sparkmirror.config.flow.flows import FlowConfig, MirrorConfig
    from sparkmirror.kafka.admin import Admin
    from sparkmirror.operations.cluster_pair import ClusterPair
    from sparkmirror.operations.journal import TopicJournal
    from sparkmirror.operations.steps import Step
    from sparkmirror.verify.report import FlowReport

_RUN = (
    "Move a flow's topics and groups to the target for good: copy all that is there, follow until nobody writes to the "
    "source any more, compare both clusters record for record, and set the groups where they go on. Interrupted or "
    "killed, it goes on where it was when it is run again."
)
_STATUS = "Print which steps of a migration are done, where groups would go on, and what is missing. Changes nothing."
_QUIET_SECONDS = 10.0
_BEGUN = {False: "begun, and not done", True: "taking it back was begun, and not done"}
"""Of a step, by whether it is undone."""


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    parser = verbs.add_parser("migrate", help="move topics and groups for good, step by step: status, run")
    kinds = parser.add_subparsers(metavar="KIND", required=True)
    add_kind(kinds, "status", _STATUS, _execute_status)
    _add_run(add_kind(kinds, "run", _RUN, _execute_run))


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fence", action="store_true", help="once all is copied, deny writing to the source's topics, by ACL"
    )
    parser.add_argument(
        "--quiet-seconds", metavar="N", type=float, default=_QUIET_SECONDS,
        help="cut over when nobody has written to the source for so long (10)",
    )  # fmt: skip
    parser.add_argument(
        "--sample", metavar="PERCENT", type=float, default=100.0, help="compare so much of each partition (100)"
    )
    add_endings(parser)


def _execute_status(args: argparse.Namespace) -> int:
    """Looks and prints. Raises ConfigError and ClusterError."""
    from sparkmirror.operations.cluster_pair import open_sides

    flow = one_flow(args)
    with open_sides(flow, "migrate") as cluster_pair:
        _report(flow, cluster_pair, journal_of(flow, "migrate"), args)
    return 0


def _execute_run(args: argparse.Namespace) -> int:
    """Takes the steps, undoes or ends them. Raises ConfigError, ClusterError, SparkMirrorError."""
    from sparkmirror.operations.cluster_pair import open_sides
    from sparkmirror.operations.steps import take_steps, undo_steps

    check_sample(args.sample)
    check_seconds("--quiet-seconds", args.quiet_seconds)
    config = read_file(args)
    flow = only_flow(config, args)
    journal = journal_of(flow, "migrate")
    if end(args, journal):  # the source may be gone by then
        return 0
    with open_sides(flow, "migrate") as cluster_pair:
        if cluster_pair.source is None:
            raise ClusterUnreachable(f"Cluster {flow.name.source} does not answer.", "A migration needs both.")
        steps = _steps(config, flow, (cluster_pair.source, cluster_pair.target), journal, args)
        if args.undo:
            undo_steps(steps, journal, tell)
            return 0
        confirm(args, f"Move the topics and groups of {flow.name} for good?")
        _prepare_ledger(flow, cluster_pair.target)
        take_steps(steps, journal, tell)
        _report(flow, cluster_pair, journal, args)
    tell("next", f"start consumers and producers on {flow.name.target}; then --finish, or --undo to take it back")
    return 0


def _prepare_ledger(flow: "FlowConfig", target: "Admin") -> None:
    """The journal is kept in one of the flow's topics, which the first copy would make."""
    from sparkmirror.ledger.setup import ensure_ledger_topics

    for sentence in ensure_ledger_topics(target, flow.ledger_topics):
        tell("ledger", sentence)


def _steps(
    config: "MirrorConfig", flow: "FlowConfig", sides: "tuple[Admin, Admin]", journal: "TopicJournal",
    args: argparse.Namespace,
) -> "list[Step]":  # fmt: skip
    from sparkmirror.operations.cluster_pair import ClusterPair
    from sparkmirror.operations.failover_run import Fence, MoveGroups, Moves
    from sparkmirror.operations.failover_snapshot import look
    from sparkmirror.operations.migrate_run import Copy, CutOver, Follow, Prove
    from sparkmirror.operations.steps import keeper
    from sparkmirror.runtime.options import RunOptions

    source, target = sides

    def copy() -> int:
        from sparkmirror.runtime.start import run_mirror

        return run_mirror(config, RunOptions(once=True, debug=args.debug))

    def mirror_until(is_over: Any) -> bool:
        from sparkmirror.runtime.start import run_until

        return run_until(config, RunOptions(debug=args.debug), is_over)

    def moves() -> Moves:
        found = look(flow, ClusterPair(source, target), differences=False, is_step=True)
        return Moves(found.moves(planned=True), found.topic_ids, found.upstream())

    fence = Fence(flow, source, keeper(Follow.name, journal, part=Fence.name))
    cut_over = CutOver(args.quiet_seconds, fence, args.fence)
    return [
        Copy(flow, source, copy),
        Follow(flow, source, cut_over, mirror_until, tell),
        Prove(flow, lambda: _verify(config, flow, args)),
        MoveGroups(target, moves, flow=flow),
    ]


def _verify(config: "MirrorConfig", flow: "FlowConfig", args: argparse.Namespace) -> "FlowReport":
    from sparkmirror.verify.job import Choice, comparing_session, verify_flow

    choice = Choice(lambda _: True, args.sample)
    with (
        tempfile.TemporaryDirectory(prefix="sparkmirror-") as scratch,
        comparing_session(Path(scratch), debug=args.debug) as spark,
    ):
        return verify_flow(spark, config, flow, choice, tell_progress(str(flow.name)))


def _report(flow: "FlowConfig", cluster_pair: "ClusterPair", journal: "TopicJournal", args: argparse.Namespace) -> None:
    """The cut-over report: the steps that were done or begun, the places of groups, and what is left to a person."""
    from sparkmirror.cli.procedure import render_readiness
    from sparkmirror.operations.failover_snapshot import look

    steps = journal.load().steps
    done = {name: taken.sentence for name, taken in steps.items() if taken.sentence and not taken.undoing}
    begun = {name: _BEGUN[taken.undoing] for name, taken in steps.items() if name not in done}
    found = look(flow, cluster_pair, differences=False)
    as_json = {"flow": str(flow.name), "steps": done, "begun": begun, "now": found.as_json()}
    lines = [f"{flow.name}: {'steps done' if done else 'no step is done'}"]
    lines += [f"  {name}: {sentence}" for name, sentence in {**done, **begun}.items()]
    show(args, as_json, lambda: [*lines, *render_readiness(found)])
