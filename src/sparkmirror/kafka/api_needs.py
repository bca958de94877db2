"""The requests of Kafka's protocol that SparkMirror sends, in which versions, and the effect of a missing one; pure.

For `sparkmirror version --check`. A test holds the table against what the code asks for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkmirror.kafka.wire import data_requests as wire

Versions = Mapping[int, tuple[int, int]]
"""By API key, the lowest and highest version that a broker speaks (ApiVersions)."""


@dataclass(frozen=True, slots=True)
class ApiNeed:
    """A request and the versions that SparkMirror speaks. `without` says what is impossible with a broker that lacks
    it.

    Empty: nothing can be mirrored from or to it.
    """

    key: int
    name: str
    ours: tuple[int, int]
    without: str = ""

    def is_met(self, versions: Versions) -> bool:
        """Whether there is a version that both sides speak."""
        low, high = versions.get(self.key, (0, -1))
        return max(low, self.ours[0]) <= min(high, self.ours[1])


API_NEEDS: tuple[ApiNeed, ...] = (
    ApiNeed(wire.PRODUCE, "Produce", wire.PRODUCE_VERSIONS),
    ApiNeed(wire.FETCH, "Fetch", wire.FETCH_VERSIONS),
    ApiNeed(2, "ListOffsets", (4, 9)),
    ApiNeed(3, "Metadata", (10, 13)),
    ApiNeed(10, "FindCoordinator", (0, 5)),
    ApiNeed(19, "CreateTopics", (0, 7)),
    ApiNeed(22, "InitProducerId", (3, 5)),
    ApiNeed(32, "DescribeConfigs", (1, 4)),
    ApiNeed(8, "OffsetCommit", (0, 9), "group offsets are not written (sync.group.offsets.enabled)"),
    ApiNeed(9, "OffsetFetch", (0, 9), "group offsets are not read, so there are no checkpoints"),
    ApiNeed(11, "JoinGroup", (4, 7), "processes cannot share flows"),
    ApiNeed(16, "ListGroups", (0, 5), "groups are not found, so there are no checkpoints"),
    ApiNeed(24, "AddPartitionsToTxn", (3, 3), "no exactly-once (exactly.once.source.support)"),
    ApiNeed(26, "EndTxn", (3, 5), "no exactly-once (exactly.once.source.support)"),
    ApiNeed(29, "DescribeAcls", (0, 3), "ACLs are not copied (sync.topic.acls.enabled)"),
    ApiNeed(44, "IncrementalAlterConfigs", (0, 1), "settings are not kept in step (sync.topic.configs.enabled)"),
    ApiNeed(65, "DescribeTransactions", (0, 0), "a time-out looks like a take-over, with exactly-once"),
    ApiNeed(66, "ListTransactions", (0, 1), "tasks of earlier runs with more tasks are not fenced"),
)


def lacking(versions: Versions, needs: Sequence[ApiNeed] = API_NEEDS) -> list[ApiNeed]:
    """The needs that a broker with these versions does not meet."""
    return [need for need in needs if not need.is_met(versions)]
