"""Without shared memory the payload goes through Spark, and arrives all the same."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.oracle import Client, assert_same, count_records, read_topic
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import Mirror, StartMirror, flow_file

CONTROL_PAGE_BYTES_MAX = 1 << 20


def test_a_mirror_without_a_ring_copies_through_spark(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    topic, alias = unique("inline"), unique("east")
    make_topics(source, {topic: 3})
    write(source, topic, numbered(0, 30_000, partitions=3, size_bytes=1_000))
    mirror = start_mirror(flow_file(source, target, alias=alias, topics=topic, lines=["lease.ring.bytes = 0"]))
    mirror.wait_until(lambda: count_records(target, f"{alias}.{topic}") >= 30_000, "everything arrives")
    sizes = ring_sizes(mirror)
    assert sizes and max(sizes) < CONTROL_PAGE_BYTES_MAX
    mirror.stop()
    assert_same(read_topic(source, topic), read_topic(target, f"{alias}.{topic}"), topic)


def ring_sizes(mirror: Mirror) -> list[int]:
    """Bytes of each ring that a worker has open, its control page included."""
    sizes = []
    for process in mirror.workers():
        with suppress(OSError):  # a worker that ends
            for file in Path(f"/proc/{process.pid}/fd").iterdir():
                with suppress(OSError):  # a file that is closed meanwhile
                    if "sparkmirror-ring" in str(file.readlink()):
                        sizes.append(file.stat().st_size)
    return sizes
