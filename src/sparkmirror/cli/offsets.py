"""`sparkmirror offsets at|reset|translate|rebuild FILE`: offsets by time, by checkpoint, on the other cluster."""

import argparse
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.file import (
    add_cluster,
    add_execute,
    add_flows,
    add_input_arguments,
    add_topic_pattern,
    add_verb,
    check_cluster,
    read_file,
)
from sparkmirror.cli.output import add_format, progress, say, show, tell_unknown
from sparkmirror.clock import parse_moment, show_moment
from sparkmirror.errors import SparkMirrorError
from sparkmirror.model import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparkmirror.config.flow.flows import FlowConfig, MirrorConfig
    from sparkmirror.kafka.group_answers import GroupOffsets
    from sparkmirror.model import Cluster
    from sparkmirror.operations.offset_reset import Reset, ResetPlan
    from sparkmirror.operations.translation import Answer
    from sparkmirror.views.table import Page

_AT = "Print, for mirrored topics on either cluster, the offset of the first record at or after a point in time."
_RESET = (
    "Set where a consumer group goes on. Prints what would be done; with --execute it is done. Only a group without "
    "members can be moved. Partitions are those that it has committed, or with --topic all of the topics that match."
)
_TRANSLATE = "Print where offsets of a flow's source lie on its target, by the mirror's offset map."
_REBUILD = (
    "Rebuild lost parts of a flow's offset map, by reading the mirrored topics on both clusters and comparing them. "
    "What the map still has is left as it is. Prints what would be rebuilt; with --execute it is stored."
)
_UNKNOWN = "unknown"


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    parser = verbs.add_parser("offsets", help="find, set and translate offsets of consumer groups")
    kinds = parser.add_subparsers(metavar="KIND", required=True)
    at = _kind(kinds, "at", "offsets at a point in time", _AT, _execute_at)
    at.add_argument("--time", metavar="T", type=_moment, required=True, help="2026-11-20T11:00; UTC without a zone")
    add_cluster(at, "all of the flows")
    add_topic_pattern(at)
    reset = _kind(kinds, "reset", "set where a consumer group goes on", _RESET, _execute_reset)
    reset.add_argument("--group", metavar="G", required=True, help="the consumer group")
    add_cluster(reset, "", required=True)
    add_topic_pattern(reset)
    _add_goals(reset)
    add_execute(reset)
    translate = _kind(kinds, "translate", "offsets of the source on the target", _TRANSLATE, _execute_translate)
    what = translate.add_mutually_exclusive_group(required=True)
    what.add_argument("--group", metavar="G", help="where this group stands on the source")
    what.add_argument(
        "--offset",
        metavar="TOPIC:PARTITION:OFFSET",
        action="append",
        type=parse_place,
        help="this one; may be repeated",
    )

    rebuild = _kind(kinds, "rebuild", "rebuild a lost offset map", _REBUILD, _execute_rebuild)
    add_topic_pattern(rebuild)
    add_execute(rebuild)


def parse_place(text: str) -> tuple[TopicPartition, int]:
    """`orders:3:1000`. Raises argparse.ArgumentTypeError."""
    topic, _, rest = text.partition(":")
    partition, _, offset = rest.partition(":")
    if not (topic and partition.isdecimal() and offset.isdecimal()):
        raise argparse.ArgumentTypeError(f"`{text}` is not TOPIC:PARTITION:OFFSET, as in orders:3:1000")
    return TopicPartition(topic, int(partition)), int(offset)


def _moment(text: str) -> int:
    try:
        return parse_moment(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def _kind(kinds: Any, name: str, summary: str, description: str, command: Any) -> argparse.ArgumentParser:
    parser = add_verb(kinds, name, summary, description, command)
    add_input_arguments(parser)
    add_flows(parser)
    add_format(parser)
    return parser


def _add_goals(parser: argparse.ArgumentParser) -> None:
    goals = parser.add_mutually_exclusive_group(required=True)
    goals.add_argument("--to-time", metavar="T", type=_moment, help="to the first record at or after this time")
    goals.add_argument("--to-checkpoint", action="store_true", help="to where the mirror translated it to")
    goals.add_argument("--to-earliest", action="store_true", help="to the beginning of the log")
    goals.add_argument("--to-latest", action="store_true", help="to the end of the log")


def _execute_at(args: argparse.Namespace) -> int:
    """Asks the clusters and prints. Raises ConfigError and ClusterError."""
    config = read_file(args)
    if args.cluster is not None:
        check_cluster(config, args.cluster)
    rows = [row for flow in config.flows for row in _offsets_at(flow, args)]
    rows = list(dict.fromkeys(rows))
    if not rows:
        raise SparkMirrorError("No mirrored topic was found.", "Compare `sparkmirror plan`, and --topic and --cluster.")
    names = ("cluster", "topic", "partition", "offset", "end", "records")
    title = f"The first records at or after {show_moment(args.time)}:"
    show(args, [dict(zip(names, row, strict=True)) for row in rows], lambda: [title, *_table(names, rows)])
    return 0


def _table(titles: "Sequence[str]", rows: "Sequence[Sequence[object]]") -> "Page":
    from sparkmirror.views.table import make_table

    return [make_table([title.capitalize() for title in titles], rows)]


def _offsets_at(flow: "FlowConfig", args: argparse.Namespace) -> list[tuple[str, str, int, int, int, int]]:
    """Cluster, topic, partition, offset, the log's end, and how many offsets lie between."""
    from sparkmirror.kafka.clients import open_admin
    from sparkmirror.kafka.log_offsets import LogOffsets

    rows = []
    for cluster, names in _topics_by_cluster(flow, args):
        with open_admin(cluster, "offsets") as admin:
            partitions = [
                TopicPartition(name, number)
                for name, topic in sorted(admin.list_topics(names).items())
                for number in range(topic.partitions)
            ]
            found, ends = admin.offsets_at(partitions, args.time), admin.latest_offsets(partitions)
        tell_unknown(LogOffsets(cluster.alias, {}, {**found.unknown, **ends.unknown}))
        for where in partitions:
            if where in found.known and where in ends.known:
                offset, end = found.known[where], ends.known[where]
                rows.append((cluster.alias, where.topic, where.partition, offset, end, end - offset))
    return rows


def _topics_by_cluster(flow: "FlowConfig", args: argparse.Namespace) -> "list[tuple[Cluster, list[str]]]":
    """The topics to look at on either side; the source need not answer where only the target is asked for."""
    from sparkmirror.operations.cluster_pair import ledger_offsets
    from sparkmirror.policy.filters import name_matcher
    from sparkmirror.sync.flow import mirrored_topics

    if args.cluster not in (None, flow.name.source, flow.name.target):
        return []
    only_target = args.cluster == flow.name.target
    topics = {where.topic for where in ledger_offsets(flow)} if only_target else set(mirrored_topics(flow))
    pairs = [(name, flow.remote_topic(name)) for name in sorted(topics)]
    is_chosen = name_matcher(args.topic)
    chosen = [pair for pair in pairs if any(map(is_chosen, pair))]
    cluster_pair = ((flow.source, [name for name, _ in chosen]), (flow.target, [remote for _, remote in chosen]))
    return [(cluster, names) for cluster, names in cluster_pair if args.cluster in (None, cluster.alias)]


def _execute_reset(args: argparse.Namespace) -> int:
    """Observes, prints the plan and commits it. Raises ConfigError, GroupIsActive, ClusterError, SparkMirrorError."""
    from sparkmirror.kafka.clients import open_admin
    from sparkmirror.operations.offset_reset import Reset, apply_reset, observe_reset, refuse_active

    config = read_file(args)
    check_cluster(config, args.cluster)
    reset = Reset(args.group, _goal(args), args.topic)
    with open_admin(config.clusters[args.cluster], "offsets") as admin:
        refuse_active(admin, args.group)
        plan = observe_reset(admin, reset, _checkpoints(config, args, reset))
        for warning in plan.warnings:
            say(f"warning: {warning}")
        moved = apply_reset(admin, args.group, plan) if args.execute else 0
    _print_reset(args, plan)
    would = f"{len(plan.commits)} offsets of {args.group} would be set. Nothing was changed: add --execute."
    done = f"{moved} offsets of {args.group} were set." if args.execute else would
    say(done)
    return 0


def _goal(args: argparse.Namespace) -> Any:
    from sparkmirror.operations.offset_reset import Goal

    if args.to_time is not None:
        return args.to_time
    return Goal.CHECKPOINT if args.to_checkpoint else Goal.EARLIEST if args.to_earliest else Goal.LATEST


def _checkpoints(config: "MirrorConfig", args: argparse.Namespace, reset: "Reset") -> "GroupOffsets":
    """The offsets to which all flows into the cluster translated the group."""
    from sparkmirror.operations.offset_reset import Goal
    from sparkmirror.operations.translation import group_checkpoints

    found: dict[TopicPartition, Any] = {}
    if reset.goal is not Goal.CHECKPOINT:
        return found
    for flow in config.flows:
        if flow.name.target == args.cluster:
            found |= group_checkpoints(flow, reset.group, reset.topics)
    return found


def _print_reset(args: argparse.Namespace, plan: "ResetPlan") -> None:
    as_json = {"group": args.group, "cluster": args.cluster, "executed": args.execute}
    as_json["moves"] = [move.as_json() for move in plan.moves]
    rows = [
        (move.partition, "none" if move.before is None else move.before, move.after, move.effect) for move in plan.moves
    ]
    show(args, as_json, lambda: _table(("partition", "stands", "new", "effect"), rows))


def _execute_translate(args: argparse.Namespace) -> int:
    """Asks each flow and prints. Raises ConfigError, ClusterError, and SparkMirrorError if no flow knows the offset."""
    from sparkmirror.operations.translation import translate_group, translate_offsets

    answers: list[Answer] = []
    for flow in read_file(args).flows:
        answers += translate_group(flow, args.group) if args.group else translate_offsets(flow, args.offset)
    known = [answer for answer in answers if answer.found is not None]
    shown = answers if args.group else known
    if not known:
        what = f"group {args.group}" if args.group else "these offsets"
        raise SparkMirrorError(f"No flow of the file knows where {what} would be.", "Is it mirrored, and has it begun?")
    titles = ("flow", "source", "offset", "target", "offset", "exact")
    show(args, [answer.as_json() for answer in shown], lambda: _table(titles, [_translated(one) for one in shown]))
    return 0


def _translated(answer: "Answer") -> tuple[object, ...]:
    found = answer.found
    where = (found.partition, found.offset, "yes" if found.exact else "not beyond") if found else (_UNKNOWN,) * 3
    return (answer.flow, answer.partition, answer.offset, *where)


def _execute_rebuild(args: argparse.Namespace) -> int:
    """Reads, compares, stores and prints. Raises ConfigError and ClusterError."""
    from sparkmirror.operations.map_rebuild import rebuild
    from sparkmirror.policy.filters import name_matcher

    is_chosen = name_matcher(args.topic)
    flows = read_file(args).flows
    with progress("offsets") as tell:
        rows = [(flow.name, one) for flow in flows for one in rebuild(flow, is_chosen, write=args.execute, tell=tell)]
    cells = [(name, one.partition, one.first, one.end, one.exact) for name, one in rows]
    titles = ("flow", "partition", "from", "to", "exact records")
    show(args, [{"flow": str(name), **one.as_json()} for name, one in rows], lambda: _table(titles, cells))
    say(
        f"{len(rows)} partitions "
        + ("were rebuilt." if args.execute else "would be rebuilt. Nothing was changed: add --execute.")
    )
    return 0
