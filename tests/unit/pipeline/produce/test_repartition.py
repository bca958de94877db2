"""A run of one source partition becomes batches for the partitions of a topic that has another number of them."""

from sparkmirror.batch.header import Codec
from sparkmirror.batch.records import Record, decode_records, encode_batch
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.delivery import Delivery
from sparkmirror.pipeline.produce.repartition import spread

WHERE = TopicPartition("orders", 2)


def run(batches: list[bytes], first_offset: int, next_offset: int) -> Delivery:
    payload = memoryview(bytearray(b"".join(batches)))
    return Delivery("run", WHERE, "orders", first_offset, next_offset, 0, 0, 0, payload, None)


def test_a_run_that_begins_inside_a_batch_brings_the_records_from_its_position_on() -> None:
    first = encode_batch([Record(at, at, b"k", f"{at}".encode()) for at in range(10)], Codec.ZSTD)
    second = encode_batch([Record(10, 10, b"k", b"10")], Codec.ZSTD, base_offset=10)
    pieces = spread(run([first, second], 7, 11), TopicPartition("orders", 0), 4)
    ((target, piece),) = pieces
    assert [record.value for record in decode_records(bytes(piece.data))] == [b"7", b"8", b"9", b"10"]
    assert target.topic == "orders"
    assert [(span.first_offset, span.records) for span in piece.spans] == [(7, 4)]


def test_records_without_a_key_stay_together_and_move_on_with_the_next_run() -> None:
    batch = encode_batch([Record(at, at, None, b"v") for at in range(5)])
    homes = [spread(run([batch], 0, 5), TopicPartition("orders", turn), 3) for turn in range(4)]
    assert [[target.partition for target, _ in pieces] for pieces in homes] == [[0], [1], [2], [0]]
