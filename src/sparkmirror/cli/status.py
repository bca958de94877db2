"""`sparkmirror status FILE`: how each flow stands, by what it left on its target; no running mirror is asked."""

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.file import add_file_arguments, add_topic_pattern, add_verb, check_pattern, read_file
from sparkmirror.cli.output import add_format, add_watch, show, show_again

if TYPE_CHECKING:
    from collections.abc import Collection

    from sparkmirror.config.flow.flows import FlowConfig
    from sparkmirror.control.commands import Selection
    from sparkmirror.model import TopicPartition
    from sparkmirror.operations.cluster_pair import KeptOffsets
    from sparkmirror.telemetry.board import StatusBoard
    from sparkmirror.views.flow_page import FlowPage

_AT_ONCE = 8
_DESCRIPTION = (
    "Show how each flow stands: a verdict (GREEN, AMBER, RED, or UNKNOWN where nobody can say), what is wrong, since "
    "when, and which command mends it; its state, lag in records and seconds, rate and latency of the last minute, "
    "jobs that fail, and the partitions that are FAILED, WAITING for the source, or PAUSED by order. It is read from "
    "the target's internal topics and the source's ends, so it also tells what a mirror left that was stopped, or is "
    "SILENT because it was killed: a living one writes every three seconds. Of a flow whose target does not answer it "
    "shows what the source tells, and that the rest is unknown. Exit status: 0, whatever the verdicts; 1 where a "
    "target does not answer."
)


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    about = "how each flow stands, also without a running mirror"
    parser = add_verb(verbs, "status", about, _DESCRIPTION, execute)
    add_file_arguments(parser)
    add_topic_pattern(parser)
    parser.add_argument("--partitions", action="store_true", help="every partition, task and job, also those that run")
    add_watch(parser)
    add_format(parser)


def execute(args: argparse.Namespace) -> int:
    """Asks both clusters of each flow and prints; 1 where a target does not answer. Raises ConfigError."""
    from sparkmirror.control.commands import Selection

    check_pattern(args.topic)
    config, chosen = read_file(args), Selection(args.topic)
    pages: list[FlowPage] = []

    def look() -> None:
        pages[:] = pool.map(lambda flow: _look(flow, chosen, config.file), config.flows)
        _print(pages, args)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        show_again(args, look)
    return int(any(page.target_problem for page in pages))


def _print(pages: "list[FlowPage]", args: argparse.Namespace) -> None:
    from sparkmirror.views.flow_page import render_page

    found = [page.as_json() for page in pages]
    show(args, found, lambda: [part for page in pages for part in render_page(page, whole=args.partitions)])


def _look(flow: "FlowConfig", chosen: "Selection", file: str) -> "FlowPage":
    from sparkmirror.errors import ClusterError

    try:
        return _look_at_both(flow, chosen, file)
    except ClusterError as problem:
        target_problem = str(problem.args[0])
    return _look_at_source(flow, chosen, file, target_problem)


def _look_at_source(flow: "FlowConfig", chosen: "Selection", file: str, target_problem: str) -> "FlowPage":
    """The page of a flow whose target does not answer: its partitions, and where they end."""
    from sparkmirror.errors import ClusterError
    from sparkmirror.kafka.clients import open_admin
    from sparkmirror.operations.cluster_pair import mirrored_partitions
    from sparkmirror.telemetry.board import StatusBoard
    from sparkmirror.views.flow_page import FlowPage, PartitionPlace

    places: tuple[PartitionPlace, ...] = ()
    source_problem = ""
    try:
        with open_admin(flow.source, "status") as admin:
            partitions = [where for where in mirrored_partitions(flow, admin) if chosen.covers(where)]
            ends = admin.latest_offsets(partitions).known
            places = tuple(PartitionPlace(where, None, None, ends.get(where)) for where in partitions)
    except ClusterError as problem:
        source_problem = str(problem.args[0])
    at_ms, board = time.time_ns() // 1_000_000, StatusBoard(flow.name.source)
    return FlowPage(flow.name, at_ms, board, places, source_problem, (), (), file, target_problem)


def _look_at_both(flow: "FlowConfig", chosen: "Selection", file: str) -> "FlowPage":
    from sparkmirror.operations.cluster_pair import ledger_gaps, ledger_offsets
    from sparkmirror.sharing.processes import list_processes
    from sparkmirror.telemetry.bus import read_board
    from sparkmirror.views.flow_page import FlowPage, list_places, list_unplaced

    board = read_board(flow)
    at_ms = time.time_ns() // 1_000_000
    if not board.run:
        return FlowPage(flow.name, at_ms, board, (), file=file)
    offsets = {where: offset for where, offset in ledger_offsets(flow).items() if chosen.covers(where)}
    offsets |= {where: offset for where, offset in board.begins().items() if chosen.covers(where)}
    unplaced = {where for where in list_unplaced(board, offsets) if chosen.covers(where)}
    ends, problem = _ends(flow, offsets.keys() | unplaced)
    kept = _kept(flow, board)
    places = list_places(board, offsets, dict.fromkeys(unplaced) | ends, kept.identical.of, kept.parted)
    gaps = tuple(ledger_gaps(flow))
    return FlowPage(flow.name, at_ms, board, places, problem, list_processes(flow), gaps, file)


def _kept(flow: "FlowConfig", board: "StatusBoard") -> "KeptOffsets":
    from sparkmirror.kafka.clients import open_admin
    from sparkmirror.operations.cluster_pair import KeptOffsets, kept_offsets

    if not flow.preserves_offsets:
        return KeptOffsets()
    with open_admin(flow.target, "status") as target:
        return kept_offsets(flow, target, board)


def _ends(flow: "FlowConfig", partitions: "Collection[TopicPartition]") -> "tuple[dict[TopicPartition, int], str]":
    """The ends of the source's logs, as far as they are known, and why the others are not."""
    from sparkmirror.errors import ClusterError
    from sparkmirror.kafka.clients import open_admin
    from sparkmirror.kafka.log_offsets import name_unknown

    try:
        with open_admin(flow.source, "status") as admin:
            found = admin.latest_offsets(partitions)
            return dict(found.known), f"the lag is not known of {name_unknown(found.unknown)}" if found.unknown else ""
    except ClusterError as problem:
        return {}, f"the lag is not known: {problem}".splitlines()[0]
