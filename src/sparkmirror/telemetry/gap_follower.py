"""A flow's gap ledger, followed as it grows. Used by what judges the flow again and again: `web.watchers`,
`telemetry.scrape` and `runtime.progress`."""

from collections.abc import Collection

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import TopicFollower
from sparkmirror.ledger.gaps import Gap, decode


class GapFollower:
    """For one thread. `admin`, of the target, stays the caller's. `gaps` are all that are known, by their keys."""

    def __init__(self, flow: FlowConfig, admin: Admin, role: str) -> None:
        self._source_alias = flow.name.source
        topic = flow.ledger_topics.gaps
        self._follower = TopicFollower(flow.target, admin, topic, role)
        self.gaps: dict[bytes | None, Gap] = {}

    def read(self) -> Collection[Gap]:
        """Take in what is new; all that are known. Raises ClusterError."""
        for record in self._follower.read():
            gap = decode(self._source_alias, record.key, record.value)
            if gap is not None:
                self.gaps[record.key] = gap
        return self.gaps.values()

    def close(self) -> None:
        self._follower.close()
