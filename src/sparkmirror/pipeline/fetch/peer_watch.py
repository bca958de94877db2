"""Watches the writer's process: a killed writer cannot set its error flag, and Spark notices its death late. Owned by
`pipeline.fetch.reader`.
"""

import os
import selectors
from typing import Final

from sparkmirror.pipeline.relay.ring import Ring

PEER: Final = "peer"
"""What the selector says of it."""


class PeerWatch:
    """`is_gone` is set by who hears of it, and by `begin` for a process that was gone before."""

    def __init__(self, ring: Ring, selector: selectors.BaseSelector) -> None:
        self._ring = ring
        self._selector = selector
        self._descriptor = -1
        self.is_gone = False

    def begin(self) -> None:
        """As soon as the writer has opened the ring."""
        if self._descriptor < 0 and self._ring.peer:
            try:
                self._descriptor = os.pidfd_open(self._ring.peer)
            except OSError:
                self.is_gone = True
                return
            self._selector.register(self._descriptor, selectors.EVENT_READ, PEER)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
