"""Lists the processes that run a flow now, by their group on its target, without asking the processes themselves.
Called by `cli.status`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.membership import Peer, list_peers
from sparkmirror.ledger.topics import SHARING_GROUP
from sparkmirror.model import plain
from sparkmirror.sharing.assignment import decode_card, decode_grants


@dataclass(frozen=True, slots=True)
class ProcessShare:
    """One process and what it may run of a flow. `rival` is another one whose file says something else of it."""

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
    """The processes that have the flow in their file; none for a moment while tasks are shared again. Raises
    ClusterError."""
    with open_admin(flow.target, "status") as admin:
        return find_shares(str(flow.name), list_peers(admin, SHARING_GROUP))


def find_shares(flow: str, peers: Sequence[Peer]) -> tuple[ProcessShare, ...]:
    """The processes in the order of their tasks; pure."""
    found = []
    for peer in peers:
        card, grants = decode_card(peer.metadata), decode_grants(peer.assignment)
        for stake in card.stakes if card is not None else ():
            for grant in grants:
                if card is not None and stake.flow == grant.flow == flow:
                    tasks = tuple(sorted(grant.tasks))
                    where = (card.place, peer.client_host, card.file)
                    found.append(ProcessShare(*where, tasks, stake.tasks, grant.rival, grant.is_obeyed))
    return tuple(sorted(found, key=lambda one: (one.tasks or (1 << 31,), one.place)))
