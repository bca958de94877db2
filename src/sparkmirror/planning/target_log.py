"""Looks whether the target still has what the ledger says was mirrored. Called by `planning.planner` before it hands
partitions out; what it finds is judged here by `ledger.extent`, and dealt with by `pipeline.produce.log_check`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from sparkmirror.control.assignment import Assigned
from sparkmirror.kafka.admin import Admin
from sparkmirror.ledger.extent import Extent, judge
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.model import NO_TOPIC_ID, TopicPartition


def look_at_target(
    target: Admin,
    items: Iterable[Assigned],
    records: Mapping[TopicPartition, PositionRecord],
    remote_topic: Callable[[str], str],
) -> list[Assigned]:
    """Each with its extent by the ledger; with `found` too where the target's log does not reach so far.

    A partition that is mirrored to another topic now has none, nor one whose position somebody else has altered since:
    whoever starts anew on purpose has lost nothing. One whose leader is away is not judged.
    """
    items = [replace(item, extent=_known(records.get(item.partition), item, remote_topic)) for item in items]
    found = _find(target, [(item.extent.topic, item.partition.partition) for item in items if item.extent is not None])
    judged = []
    for item in items:
        extent = item.extent
        there = None if extent is None else found.get(TopicPartition(extent.topic, item.partition.partition))
        is_lost = extent is not None and there is not None and judge(extent, there) is not None
        judged.append(replace(item, found=there) if is_lost else item)
    return judged


def _known(record: PositionRecord | None, item: Assigned, remote_topic: Callable[[str], str]) -> Extent | None:
    if record is None or record.extent is None or item.unknown:
        return None
    topic = remote_topic(item.partition.topic)
    is_ours = record.position.offset == item.stands_at.offset and record.extent.topic == topic
    return record.extent if is_ours else None


def _find(target: Admin, wanted: Iterable[tuple[str, int]]) -> dict[TopicPartition, Extent]:
    partitions = [TopicPartition(topic, number) for topic, number in wanted]
    if not partitions:
        return {}
    topics = target.list_topics({where.topic for where in partitions})
    ends = target.latest_offsets([where for where in partitions if where.topic in topics])
    gone = {where: Extent(where.topic, NO_TOPIC_ID, 0) for where in partitions if where.topic not in topics}
    return gone | {where: Extent(where.topic, topics[where.topic].topic_id, end) for where, end in ends.known.items()}
