"""Finds whether a Kafka Connect cluster runs a connector, by the assignments in its workers' group.

A Connect cluster that MirrorMaker shares with other connectors has members all the time; their assignments tell what
they run (`ConnectProtocol`, `IncrementalCooperativeConnectProtocol`). Called by `runtime.at_rest` and
`operations.cluster_checks`.
"""

import struct
from typing import Any, Final

from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.groups import describe_group, has_members
from sparkmirror.model import Connector

_VERSIONS: Final = (0, 1, 2)
_ASSIGNMENTS_MAX: Final = 100_000


def is_run_by_connect(admin: Admin, connector: Connector) -> bool:
    """Whether the group's workers run the connector, or may run it: an unknown assignment counts as running it.

    A MirrorMaker in dedicated mode makes its connectors when its worker has joined: there the group alone counts.
    Raises ClusterError.
    """
    if not has_members(admin, connector.group):
        return False
    if connector == Connector.of_dedicated_mode(connector.source_alias):
        return True
    members = describe_group(admin, connector.group)
    assigned = [assigned_connectors(bytes(member.member_assignment)) for member in members]
    return not members or any(names is None or connector.name in names for names in assigned)


def assigned_connectors(assignment: bytes) -> set[str] | None:
    """The connectors that a worker runs or still has to stop; None if unknown, as during a rebalance."""
    try:
        return _Reader(assignment).connectors()
    except (struct.error, ValueError):
        return None


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def connectors(self) -> set[str]:
        """Raises struct.error and ValueError for what is no assignment."""
        version, error = self._take(">hh")
        if version not in _VERSIONS or error:
            raise ValueError(f"version {version}, error {error}")
        self._text()  # leader
        self._text()  # its address
        self._take(">q")  # offset of the configuration
        names = self._names()
        return names | self._names() if version else names

    def _names(self) -> set[str]:
        (count,) = self._take(">i")
        if not -1 <= count <= _ASSIGNMENTS_MAX:  # -1 stands for none
            raise ValueError(f"{count} connectors")
        return {self._connector() for _ in range(count)}

    def _connector(self) -> str:
        name = self._text()
        (tasks,) = self._take(">i")
        if not 0 <= tasks <= _ASSIGNMENTS_MAX:
            raise ValueError(f"{tasks} tasks")
        self._take(f">{tasks}i")
        return name

    def _text(self) -> str:
        (length,) = self._take(">h")
        if length < 0:
            raise ValueError("no text")
        (text,) = self._take(f">{length}s")
        return str(text.decode())

    def _take(self, layout: str) -> tuple[Any, ...]:
        found = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return found
