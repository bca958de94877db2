"""A run of one source partition becomes batches for the partitions of a topic that has another number of them."""

from sparkmirror.batch.header import Codec, parse_header
from sparkmirror.batch.records import Record, decode_records, encode_batch
from sparkmirror.batch.rewrite import Limits
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


def test_batches_are_of_the_size_and_the_codec_and_have_the_times_that_are_asked_for() -> None:
    batch = encode_batch([Record(at, 100 * at, b"k", bytes(300)) for at in range(10)])
    limits = Limits(1000, Codec.LZ4, 500)
    pieces = [piece for _, piece in spread(run([batch], 0, 10), TopicPartition("orders", 0), 3, limits=limits)]
    headers = [parse_header(piece.data, 0) for piece in pieces]
    assert all(one.codec is Codec.LZ4 and one.total_bytes <= 1000 for one in headers)
    records = [record for piece in pieces for record in decode_records(bytes(piece.data))]
    assert [record.timestamp for record in records] == [min(100 * at, 500) for at in range(10)]


def test_records_without_a_key_stay_together_and_move_on_with_the_next_run() -> None:
    batch = encode_batch([Record(at, at, None, b"v") for at in range(5)])
    homes = [spread(run([batch], 0, 5), TopicPartition("orders", turn), 3) for turn in range(4)]
    assert [[target.partition for target, _ in pieces] for pieces in homes] == [[0], [1], [2], [0]]
