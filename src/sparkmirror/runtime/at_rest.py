"""Refuses operations that need a flow at rest, while MirrorMaker 2 or a SparkMirror process mirrors it.

Called by `runtime.run` and `cli.positions`.
"""

import time
from collections.abc import Iterable
from contextlib import suppress

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import AuthorizationFailed, SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.connect_group import is_run_by_connect
from sparkmirror.kafka.groups import list_members
from sparkmirror.kafka.membership import Peer, list_peers
from sparkmirror.ledger.topics import SHARING_GROUP
from sparkmirror.sharing.assignment import decode_metadata
from sparkmirror.sharing.same_machine import is_dead_neighbour
from sparkmirror.telemetry.bus import read_board
from sparkmirror.telemetry.records import SILENCE_SECONDS_MAX, FlowRecord, FlowState

_OVER = (FlowState.STOPPED, FlowState.FAILED, FlowState.SILENT)
_STOP_IT = "Stop it first: SIGTERM, or Ctrl-C."


def refuse_beside_mirrormaker(flow: FlowConfig, target: Admin, hint: str) -> None:
    """Raises SparkMirrorError while a MirrorMaker 2 mirrors the flow. MirrorMaker 2 keeps its flow's workers in a
    Connect group on the target, `<source>-mm2` by default. A group that it shares with other connectors may stay, if
    the flow's connector was deleted."""
    group = flow.connector.group
    if is_run_by_connect(target, flow.connector):
        members = ", ".join(list_members(target, group)) or "they do not say where"
        raise SparkMirrorError(
            f"{flow.name}: a MirrorMaker 2 mirrors this flow now: group {group} on {flow.target.alias} has members "
            f"({members}).",
            hint,
        )


def refuse_while_running(flow: FlowConfig, target: Admin) -> None:
    """Raises SparkMirrorError while a program mirrors the flow, or may: an unknown state counts as running."""
    hint = "Stop it first, or delete its connector. A killed one counts for 10 s more."
    refuse_beside_mirrormaker(flow, target, hint)
    with suppress(AuthorizationFailed):  # who may not see the group works alone, and its status says that it runs
        refuse_members(flow, list_peers(target, SHARING_GROUP))
    for record in _reporting(read_board(flow, "positions").processes.values()):
        raise SparkMirrorError(
            f"{flow.name}: process {record.pid} on {record.host} runs this flow ({record.state}).",
            f"{_STOP_IT} One that was killed counts for {SILENCE_SECONDS_MAX:g} s more.",
        )


def refuse_members(flow: FlowConfig, peers: Iterable[Peer]) -> None:
    """Raises SparkMirrorError for a process that shares the flow, by the members of the group on the target."""
    for peer in peers:
        if is_dead_neighbour(peer.client_id):
            continue
        metadata = decode_metadata(peer.metadata)
        if metadata is None:
            message = f"{flow.name}: the processes that share flows into {flow.target.alias} are just agreeing on them."
            raise SparkMirrorError(message, "Stop those that run this flow, or try again in a moment.")
        if any(claim.flow == str(flow.name) for claim in metadata.claims):
            raise SparkMirrorError(f"{flow.name}: {metadata.place} ({peer.client_host}) runs this flow.", _STOP_IT)


def _reporting(records: Iterable[FlowRecord]) -> list[FlowRecord]:
    """The processes with a recent status record, such as those of a bounded run."""
    now_ms = time.time_ns() // 1_000_000
    return [one for one in records if one.state_at(now_ms) not in _OVER]
