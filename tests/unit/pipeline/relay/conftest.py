"""A ring of the least size, and its writer's side in the same process."""

from collections.abc import Iterator

import pytest

from sparkmirror.pipeline.relay.ring import RING_BYTES_MIN, Ring, RingPeer


@pytest.fixture
def ring() -> Iterator[Ring]:
    ring = Ring(RING_BYTES_MIN)
    yield ring
    ring.close()


@pytest.fixture
def peer(ring: Ring) -> Iterator[RingPeer]:
    peer = RingPeer(ring.address)
    yield peer
    peer.close()
