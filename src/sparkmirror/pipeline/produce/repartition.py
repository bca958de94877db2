"""Puts records by key, as Java's producer does, for topics with another number of partitions on the target.

For `partitioning = key`, which MirrorMaker 1's flows have. Runs of other topics pass through as they are. Decided once
for a target topic and task, since a partition's records must all take the same way to stay in order; one that is made
again may have another number of partitions. Called by `pipeline.produce.writer` on its row thread.
"""

from collections.abc import Callable
from typing import Final
from uuid import UUID

from sparkmirror.batch.header import Codec, iterate_headers
from sparkmirror.batch.piece import Piece
from sparkmirror.batch.rewrite import Limits
from sparkmirror.batch.unpacking import CONTENT_HINT, UNPACKED_BYTES_MAX, bound_for
from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import ContentTooLarge, ProtocolError, SparkMirrorError
from sparkmirror.kafka.clients import OpenAdmins
from sparkmirror.model import NO_TOPIC_ID, Cluster, TopicPartition, is_another_topic
from sparkmirror.pipeline.produce.delivery import Bundle, Delivery
from sparkmirror.pipeline.produce.record_pieces import UNLIMITED, Asked, any_batch, encode_lanes, partitions_by_key

NO_TOPIC: Final = "the target has no topic"
NOT_SHOWN: Final = "the source does not show its topic"
SILENT: Final = "nobody says how many partitions"
WAITS: Final = (NO_TOPIC, NOT_SHOWN, SILENT)
"""The reasons, as they begin, for which a partition waits though no record was refused."""
Pieces = tuple[tuple[TopicPartition, Piece], ...]
_PASS_THROUGH: Final = 0
_EMPTY: Final = memoryview(b"")
_ASK_AGAIN_SECONDS: Final = 2.0


def _unknown_id(_: str) -> None:
    return None


class Repartition:
    """Decides which topics of one task pass through, and routes the runs of the others."""

    def __init__(self, flow: FlowConfig, clock: Clock = SYSTEM_CLOCK) -> None:
        self._flow = flow
        self._clock = clock
        self._admins = OpenAdmins("partitions")
        self._decided: dict[str, int] = {}
        self._topic_ids: dict[str, UUID] = {}
        self._ask_after: dict[str, float] = {}
        self._is_hidden: dict[str, bool] = {}
        self._runs = 0

    def bundle(
        self, delivery: Delivery, asked: Asked = any_batch, topic_id: Callable[[str], UUID | None] = _unknown_id
    ) -> Bundle | None:
        """The run as batches by target partition; None when it passes through as it is. `asked` is what these must be,
        `topic_id` the id of the target topic that is written to now, if it is known.

        Raises SparkMirrorError when a cluster does not answer.
        """
        if delivery.partition is None or delivery.target_topic is None or not len(delivery.payload):
            return None
        size, source, topic = len(delivery.payload), delivery.partition, delivery.target_topic
        bare = delivery._replace(payload=_EMPTY)
        self._forget_former(topic, topic_id(topic))
        count = self._count(source.topic, topic)
        if isinstance(count, str):
            return Bundle(bare, size, problem=count)
        if count == _PASS_THROUGH:
            return None
        self._runs += 1
        try:
            keyless = TopicPartition(topic, self._runs + source.partition)
            pieces = spread(delivery, keyless, count, self._flow.unpacked_bytes_max, asked(topic))
        except ContentTooLarge as problem:
            return Bundle(bare, size, problem=f"its records cannot be put by key: {problem}; {CONTENT_HINT}")
        except ProtocolError as problem:
            return Bundle(bare, size, problem=f"its records cannot be put by key: {problem}")
        return Bundle(bare, size, pieces)

    def _forget_former(self, topic: str, topic_id: UUID | None) -> None:
        """Decide again about a target topic that was made again since."""
        if topic_id is not None and is_another_topic(self._topic_ids.get(topic, NO_TOPIC_ID), topic_id):
            self._decided.pop(topic, None)
        if topic_id is not None:
            self._topic_ids[topic] = topic_id

    def _count(self, source_topic: str, target_topic: str) -> int | str:
        """The target's number of partitions where it differs; `_PASS_THROUGH`; or why that is not known."""
        decided = self._decided.get(target_topic)
        if decided is not None:
            return decided
        if self._clock.monotonic() >= self._ask_after.get(target_topic, 0.0):
            self._ask_after[target_topic] = self._clock.monotonic() + _ASK_AGAIN_SECONDS
            on_source = self._ask(self._flow.source, source_topic)
            on_target = self._ask(self._flow.target, target_topic)
            if on_target is not None and on_source is not None:
                decided = self._decided[target_topic] = _PASS_THROUGH if on_source == on_target else on_target
                return decided
            self._is_hidden[target_topic] = on_target is not None
        if self._is_hidden.get(target_topic):
            return f"{NOT_SHOWN} {source_topic}, whose number of partitions decides where records go"
        return f"{NO_TOPIC} {target_topic} and has not created it"

    def _ask(self, cluster: Cluster, topic: str) -> int | None:
        """The number of partitions; None for a topic that is not there."""
        admin = self._admins.of(cluster)
        try:
            found = admin.list_topics([topic])
        except SparkMirrorError:
            self.close()  # addresses may have moved
            raise
        return found[topic].partitions if topic in found else None

    def close(self) -> None:
        self._admins.close()


def spread(
    delivery: Delivery,
    keyless: TopicPartition,
    count: int,
    bytes_max: int = UNPACKED_BYTES_MAX,
    limits: Limits = UNLIMITED,
) -> Pieces:
    """The records of a run as batches for the `count` partitions of a topic, within its `limits`.

    Records of one key keep their order. Those without a key go together to the partition of `keyless`, whose number may
    be any: Java's producer sticks to one partition for a batch, too. Raises ProtocolError for a damaged run,
    ContentTooLarge for one that becomes more than `bytes_max`, or a batch of which becomes more than its bound.
    """
    from sparkmirror.batch.any_format import decode_each

    codec = Codec.NONE
    for _, header in iterate_headers(delivery.payload, 0, len(delivery.payload)):
        codec = codec if header.is_control else header.codec
    bound = bound_for(bytes_max)
    pieces: list[tuple[TopicPartition, Piece]] = []
    for columns in decode_each(delivery.payload, max_bytes=bytes_max, bound=bound):
        below = int((columns.offsets < delivery.first_offset).sum())
        columns = columns.rows(below, len(columns))
        partitions = partitions_by_key(columns, keyless.partition, count)
        pieces += encode_lanes(columns, partitions, keyless.topic, codec, limits)
    return tuple(pieces)
