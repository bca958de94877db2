"""What the row thread hands to the sender thread where the records of a range go to several partitions.

Made by `pipeline.produce.record_writer` and `pipeline.produce.repartition`, for `pipeline.produce.routing`.
"""

from typing import TYPE_CHECKING, NamedTuple

from sparkmirror.model import TopicPartition

if TYPE_CHECKING:
    from sparkmirror.batch.piece import Piece
    from sparkmirror.pipeline.produce.delivery import Delivery


class Bundle(NamedTuple):
    """One range of a source partition (`delivery`, without payload) and the batches that its records became.

    Without any it was dropped as a whole. `size_bytes` is what the reader counts as outstanding until it is done;
    `problem` says why the range cannot be passed on.
    """

    delivery: "Delivery"
    size_bytes: int
    pieces: "tuple[tuple[TopicPartition, Piece], ...]" = ()
    problem: str = ""
