"""Counts the clients that are connected to a port, and decides which of them the listener closes; pure. Called by
`web.listener`.

A connection *waits* until the header of a request has arrived, and again after each answer. A waiting connection may be
closed after five seconds, or for a new one when there are too many: the one with the longest wait, of the peer with the
most waiting connections. A probe is never closed, because its header arrives with the connection.
"""

from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

HEADER_SECONDS_MAX: Final = 5.0
WAITING_MAX: Final = 256
_NEWCOMERS_MIN: Final = 16
"""So many connections of a peer may wait, whatever the number of its requests under way, so that a new connection is
read before it can be closed for others."""
_NETWORK_BITS: Final = 64


@dataclass(slots=True, eq=False)
class Arrival:
    """One connection of `peer`; `since` is the time at which its wait began, in seconds of the event loop's clock."""

    peer: str
    since: float


@dataclass(slots=True)
class _Peer:
    """The waiting connections of a peer, in the order in which their waits began."""

    waiting: dict[Arrival, None] = field(default_factory=dict)
    asking: int = 0


class Arrivals:
    """The connections of one port. A peer may have `per_peer_max` connections, waiting and with requests under way,
    or a few more that wait."""

    def __init__(self, per_peer_max: int, waiting_max: int = WAITING_MAX) -> None:
        self._per_peer_max = per_peer_max
        self._waiting_max = waiting_max
        self._peers: dict[str, _Peer] = {}
        self._waiting: dict[Arrival, None] = {}

    def __len__(self) -> int:
        return sum(len(peer.waiting) + peer.asking for peer in self._peers.values())

    def enter(self, arrival: Arrival) -> Arrival | None:
        """A connection begins to wait. Returns the connection that must be closed for it, None if none must."""
        peer = self._peers.setdefault(arrival.peer, _Peer())
        is_full = len(peer.waiting) >= max(self._per_peer_max - peer.asking, _NEWCOMERS_MIN)
        going = next(iter(peer.waiting)) if is_full else None
        if going is None and len(self._waiting) >= self._waiting_max:
            going = self.first_to_go()
        self._wait(arrival, peer)
        return going

    def first_to_go(self) -> Arrival | None:
        """The connection with the longest wait, of the peer that has the most; None when none waits."""
        most = max(self._peers.values(), key=lambda peer: len(peer.waiting), default=None)
        return next(iter(most.waiting), None) if most else None

    def ask(self, arrival: Arrival) -> None:
        """The header of a request has arrived."""
        peer = self._peers.get(arrival.peer)
        if peer is not None and arrival in peer.waiting:
            del peer.waiting[arrival], self._waiting[arrival]
            peer.asking += 1

    def answered(self, arrival: Arrival, now: float) -> None:
        """The request was answered; the connection waits again."""
        peer = self._peers.get(arrival.peer)
        if peer is not None and arrival not in peer.waiting and peer.asking:
            peer.asking -= 1
            arrival.since = now
            self._wait(arrival, peer)

    def leave(self, arrival: Arrival) -> None:
        """The connection is closed, or about to be. Call it once."""
        peer = self._peers[arrival.peer]
        if arrival in peer.waiting:
            del peer.waiting[arrival], self._waiting[arrival]
        else:
            peer.asking -= 1
        if not peer.waiting and not peer.asking:
            del self._peers[arrival.peer]

    def late(self, now: float) -> list[Arrival]:
        """The connections that have waited too long."""
        return [one for one in self._waiting if now - one.since >= HEADER_SECONDS_MAX]

    def _wait(self, arrival: Arrival, peer: _Peer) -> None:
        peer.waiting[arrival] = self._waiting[arrival] = None


def peer_of(host: str) -> str:
    """The peer that a limit counts as one: an IPv4 address, or a 64-bit IPv6 network, because one host can use all
    of its addresses. Any other text stands for itself."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return str(address)
    return str(address.ipv4_mapped or ip_network((address, _NETWORK_BITS), strict=False))
