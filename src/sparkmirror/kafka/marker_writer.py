"""Writes transaction markers into a partition of the target without a coordinator, many by one request; blocks.

For holes of a flow that keeps offsets (`preserve.offsets.filler = write-markers`). Called by `kafka.offset_fillers`.
Source: WriteTxnMarkers of KIP-98, which brokers take from who has CLUSTER_ACTION on the cluster.

Brokers take such markers as often as they are sent. A log refuses those of a producer epoch below the last one that it
has of the producer: what a predecessor has sent may come until the first marker of a newer epoch has. That one is of a
transaction: its coordinator writes it before it gives the next epoch. The log refuses markers of an older coordinator,
too, so a writer's have the coordinator epoch of the first one.
"""

import time
from typing import Any, Final

from kafka.protocol.producer.transaction import WriteTxnMarkersRequest, WriteTxnMarkersResponse

from sparkmirror.errors import ClusterUnreachable, FencedError
from sparkmirror.kafka.errors import LEADER_MOVED, NO_ERROR, error_name, is_retriable, refusal
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.leader_search import LeaderSearch
from sparkmirror.kafka.wire.link import Link
from sparkmirror.kafka.wire.lookup import sensible_answers
from sparkmirror.model import TopicPartition

_WRITE_TXN_MARKERS: Final = 27
_VERSIONS: Final = (1, 1)
_COORDINATOR_FENCED: Final = 52
_SECONDS_MAX: Final = 60.0


class MarkerWriter:
    """The markers of one producer epoch in one partition. After an error it is to be closed, and the next one has a
    newer epoch. `coordinator_epoch` is that of the newest marker of the producer in the log."""

    def __init__(
        self, settings: ClientSettings, where: TopicPartition, identity: ProducerIdentity, coordinator_epoch: int
    ) -> None:
        self._settings = settings
        self._search = LeaderSearch(settings)
        self._where = where
        self._identity = identity
        self._coordinator_epoch = coordinator_epoch
        self._link: Link | None = None

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def write(self, count: int) -> None:
        """So many markers. The answer has one code for all of them, the last one's: the log's end tells how many came.

        Raises ClusterUnreachable where an answer is lost, and they may have come or may come; FencedError where a
        newer epoch has been there; AuthorizationFailed, RequestRefused.
        """
        try:
            link = self._connect()
            link.socket.settimeout(_SECONDS_MAX)
            with sensible_answers(link):
                version = link.version(_WRITE_TXN_MARKERS, _VERSIONS)
                answer = link.ask(self._request(count), WriteTxnMarkersResponse, version)
                codes = set(_codes(answer))
        except OSError as broken:
            raise ClusterUnreachable(f"{self._where}: its leader broke off the connection: {broken}") from broken
        for code in sorted(codes - {NO_ERROR}, reverse=True):
            raise self._refusal(code)

    def _connect(self) -> Link:
        if self._link is None or time.monotonic() >= self._link.reauthenticate_at:
            self.close()
            self._link, _ = self._search.dial(self._where)
        return self._link

    def _request(self, count: int) -> WriteTxnMarkersRequest:
        marker_class = WriteTxnMarkersRequest.WritableTxnMarker
        topic = marker_class.WritableTxnMarkerTopic(name=self._where.topic, partition_indexes=[self._where.partition])
        marker = marker_class(
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            transaction_result=False,
            topics=[topic],
            coordinator_epoch=self._coordinator_epoch,
        )
        return WriteTxnMarkersRequest(markers=[marker] * count)

    def _refusal(self, code: int) -> Exception:
        doing = f"writing markers to {self._where}"
        if code in LEADER_MOVED or is_retriable(code):
            return ClusterUnreachable(f"Cluster {self._settings.alias}: {doing} failed with {error_name(code)}.")
        if code == _COORDINATOR_FENCED:
            return FencedError(f"{self._where}: a newer writer of markers has been there.")
        return refusal(code, self._settings.alias, doing)


def _codes(answer: Any) -> list[int]:
    return [int(one.error_code) for marker in answer.markers for topic in marker.topics for one in topic.partitions]
