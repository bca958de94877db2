"""A broker's fetch session (KIP-227): decides which partitions a request names; pure. Owned by
`pipeline.fetch.connection`.
"""

from collections.abc import Collection, Mapping
from typing import Final

from sparkmirror.kafka.wire.data_requests import FetchPosition, FetchResponse, TopicKey

FETCH_SESSION_ID_NOT_FOUND = 70
INVALID_FETCH_SESSION_EPOCH = 71
SESSION_LOST: Final = frozenset({FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, 106})
"""After these codes of a whole answer the same is asked again without the session; the last is
FETCH_SESSION_TOPIC_ID_ERROR. Any other is a refusal."""

PartitionKey = tuple[TopicKey, int]


class FetchSession:
    """A fetch session as the broker remembers it (KIP-227): a request names only the partitions that changed."""

    def __init__(self) -> None:
        self._id = 0
        self._epoch = 0
        self._known: dict[PartitionKey, FetchPosition] = {}

    def step(
        self, wanted: Mapping[PartitionKey, FetchPosition], changed: Collection[PartitionKey] | None = None
    ) -> tuple[int, int, list[FetchPosition], list[PartitionKey]]:
        """Session id, session epoch, positions to send and partitions to forget for the next request.

        `changed`, if known, are the only keys for which `wanted` may differ from the last call.
        """
        if self._epoch == 0:
            self._known = dict(wanted)
            return self._id, 0, list(wanted.values()), []
        known = self._known
        looked_at = [*wanted, *(key for key in known if key not in wanted)] if changed is None else changed
        fresh: list[FetchPosition] = []
        forgotten: list[PartitionKey] = []
        for key in looked_at:
            position = wanted.get(key)
            if position is None:
                if known.pop(key, None) is not None:
                    forgotten.append(key)
            elif known.get(key) != position:
                known[key] = position
                fresh.append(position)
        return self._id, self._epoch, fresh, forgotten

    @property
    def partitions(self) -> int:
        """The number of partitions that the broker may answer for."""
        return len(self._known)

    def offset_of(self, key: PartitionKey) -> int:
        """The offset that the last request asked for; -1 for a partition that it did not name."""
        position = self._known.get(key)
        return -1 if position is None else position[2]

    def position_of(self, key: PartitionKey) -> FetchPosition | None:
        """What the last request that named the partition asked for."""
        return self._known.get(key)

    def note_asked(self, key: PartitionKey, offset: int) -> None:
        """A request that was encoded elsewhere has asked for that offset."""
        self._known[key] = self._known[key]._replace(offset=offset)

    @property
    def id(self) -> int:
        return self._id

    @property
    def epoch(self) -> int:
        return self._epoch

    def go_on(self) -> None:
        """An answer of this session has come."""
        self._epoch = self._epoch % 0x7FFFFFFF + 1

    def go_on_to(self, epoch: int) -> None:
        """Answers of this session have come, before the one of that epoch is asked for."""
        self._epoch = epoch

    def accept(self, response: FetchResponse) -> bool:
        """Follow the session by an answer; False when the broker lost it and the next request must be a full one."""
        if response.error:
            if response.error == FETCH_SESSION_ID_NOT_FOUND:
                self._id = 0  # else the next full request closes the old session
            self._epoch = 0
            return False
        self._id = response.session_id
        if response.session_id:
            self.go_on()
        else:
            self._epoch = 0
        return True
