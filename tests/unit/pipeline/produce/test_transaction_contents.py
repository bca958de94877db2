"""What an open transaction waits for before it ends."""

from tests.unit.pipeline.produce.known_producer import known

from sparkmirror.batch.records import encode_batch
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.queued_records import QueuedRecords
from sparkmirror.pipeline.produce.transaction_contents import TransactionContents

SOURCE, ELSEWHERE = TopicPartition("orders", 0), TopicPartition("elsewhere", 1)


def test_it_waits_for_what_a_lane_has_not_sent_yet_and_needs_the_position_of_its_source() -> None:
    source = PartitionBuffer(SOURCE, None, 0, 0)
    lane = PartitionBuffer(TopicPartition("to elsewhere", 1), ELSEWHERE, 0, -1, is_lane=True)
    lane.accept(QueuedRecords(memoryview(bytearray(encode_batch([(None, b"v")]))), 0, 1, lambda: None))
    contents = TransactionContents()
    contents.add_range(source, [lane])
    contents.close(0.0)
    assert list(contents.settle(0.0)) == [lane], "nothing of it is under way, and all of it is due"
    known(lane, 1, 0)
    batch = lane.next_batch(1, 0, True)
    assert batch is not None and list(contents.settle(0.0)) == [lane]
    lane.succeed(batch)
    assert not contents.settle(0.0)
    assert (list(contents.sources), list(contents.all)) == ([source], [lane])
