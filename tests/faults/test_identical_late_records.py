"""A late record of the flow in the place of another one is found, whatever the time in the target's answer means."""

from contextlib import closing
from time import monotonic, time

import pytest
from tests.faults.story import Story
from tests.faults.test_identical_offsets import lines_of
from tests.scenarios.data import alter_topic

from sparkmirror.batch.header import parse_header, stamp
from sparkmirror.batch.records import NO_TIMESTAMP, encode_batch
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.log_edges import last_sequences
from sparkmirror.kafka.offset_fillers import FillerClients
from sparkmirror.kafka.publish import Publisher
from sparkmirror.model import Cluster, TopicPartition

pytestmark = pytest.mark.long


def write_late(story: Story, timestamp_ms: int) -> int:
    """What a process that slept had read before the source lost it: the flow's next batch, by its sequence number.
    Returns its offset."""
    remote = TopicPartition(story.remote_topic, 0)
    producer_id = story.offsets_producer()
    with open_admin(story.cluster(), "test") as target, closing(FillerClients(story.cluster())) as clients:
        before = last_sequences(target, [remote], producer_id)[remote]
        assert before is not None
        batch = bytearray(encode_batch([(b"late", b"record")], timestamp=timestamp_ms))
        stamp(memoryview(batch), 0, parse_header(batch, 0), producer_id, 0, before + 1)
        return clients.appender.append_batch(remote, batch, monotonic() + 30)


@pytest.mark.parametrize("times", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("has_time", [True, False], ids=["records with a time", "records without a time"])
def test_a_late_record_of_the_flow_is_not_taken_for_the_one_whose_place_it_has(
    story: Story, times: str, *, has_time: bool
) -> None:
    """The log takes the next record for the same batch, by its sequence number. The answer says so by a time, unless
    the topic gives records its own times, or the records have none: what stands there is read back."""
    at_ms = int(time() * 1000) if has_time else NO_TIMESTAMP
    source = Cluster("any", {"bootstrap.servers": story.source})
    with (
        story.writer() as writer,
        story.run(lines=lines_of(story)) as run,
        closing(Publisher(source, "test")) as publisher,
    ):
        story.wait_until_close(run, writer)
        alter_topic({"bootstrap.servers": story.target}, story.remote_topic, {"message.timestamp.type": times})
        writer.stop()
        story.wait_for_all(run, writer)
        (before, _) = story.positions()
        for number in range(5):
            publisher.write(story.topic, [(b"k", b"right %d" % number)], at_ms)
        run.wait_until(lambda: story.positions()[0] == before + 5, "these are stored as mirrored")
        assert "FAILED" not in run.errors
        at = write_late(story, at_ms)
        publisher.write(story.topic, [(b"k", b"due")], at_ms)
        run.wait_until(lambda: f"{story.topic}-0: FAILED" in run.errors, "the partition is held")
        assert f"something else at offset {at} of {story.remote_topic}-0 than its source" in run.errors
        assert "starts again" not in run.errors
        run.stop()
