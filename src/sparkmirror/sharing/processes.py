"""Lists the processes that run a flow now, by their group on its target, without asking the processes themselves.
Called by `cli.status`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import AuthorizationFailed
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.membership import Peer, list_peers
from sparkmirror.ledger.topics import SHARING_GROUP
from sparkmirror.model import plain
from sparkmirror.sharing.assignment import decode_assignments, decode_metadata


@dataclass(frozen=True, slots=True)
class ProcessShare:
    """One process and the tasks of a flow that it may run. `rival` names a process whose file configures the flow
    differently, "" where there is none."""

    place: str
    address: str
    file: str
    tasks: tuple[int, ...]
    tasks_max: int
    rival: str = ""
    is_obeyed: bool = True

    def as_json(self) -> dict[str, Any]:
        return plain(self)

    @property
    def sentence(self) -> str:
        tasks = ", ".join(map(str, self.tasks)) or "none"
        said = f"{self.place} ({self.address}): tasks {tasks} of {self.tasks_max}, by {self.file}"
        if not self.rival:
            return said
        whose = "its own was changed later and is obeyed" if self.is_obeyed else "that was changed later and is obeyed"
        return f"{said}; the file of {self.rival} says something else of the flow: {whose}"


def list_processes(flow: FlowConfig) -> tuple[ProcessShare, ...]:
    """The processes that have the flow in their file; empty while the group rebalances, and for who may not see it.
    Raises ClusterError."""
    with open_admin(flow.target, "status") as admin:
        try:
            return find_shares(str(flow.name), list_peers(admin, SHARING_GROUP))
        except AuthorizationFailed:
            return ()


def find_shares(flow: str, peers: Sequence[Peer]) -> tuple[ProcessShare, ...]:
    """The processes in the order of their tasks; pure."""
    found = []
    for peer in peers:
        metadata, assignments = decode_metadata(peer.metadata), decode_assignments(peer.assignment)
        for claim in metadata.claims if metadata is not None else ():
            for assignment in assignments:
                if metadata is not None and claim.flow == assignment.flow == flow:
                    tasks = tuple(sorted(assignment.tasks))
                    where = (metadata.place, peer.client_host, metadata.file)
                    found.append(ProcessShare(*where, tasks, claim.tasks, assignment.rival, assignment.is_obeyed))
    return tuple(sorted(found, key=lambda one: (one.tasks or (1 << 31,), one.place)))
