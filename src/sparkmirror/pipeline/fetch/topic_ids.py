"""Decides when a topic's id in a metadata answer is believed: a topic with another id is another log, to be mirrored
from its beginning. Owned by `pipeline.fetch.reader`.

A broker that stood still, or has lost its controller, answers with what it knew: with the id of a topic that is long
deleted. Ids do not come back, so one that the task has left is never believed. Another one is believed when it is shown
a second time, `ANOTHER_ID_SECONDS` later: meanwhile nothing of the partition is fetched. A broker that knows no ids
(metadata of before 2.8, or of a cluster that is being upgraded) tells nothing of them, neither for nor against.
"""

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.kafka.wire.lookup import ClusterView
from sparkmirror.model import ANOTHER_ID_SECONDS, NO_EPOCH, NO_TOPIC_ID, is_another_topic
from sparkmirror.pipeline.fetch.loss import judge_recreated
from sparkmirror.pipeline.fetch.partitions import PartitionFetchState
from sparkmirror.pipeline.fetch.responses import FetchResponseReader


class TopicIds:
    """`response_reader` reports what is lost where a topic was made again."""

    def __init__(self, response_reader: FetchResponseReader, clock: Clock = SYSTEM_CLOCK) -> None:
        self._response_reader = response_reader
        self._clock = clock

    def settle(self, fetch_state: PartitionFetchState, view: ClusterView) -> None:
        """Take the partition's leader from a look-up, and the loss of its log if the topic is another one."""
        found = view.topic_ids[fetch_state.partition.topic]
        if fetch_state.topic_id == NO_TOPIC_ID:
            fetch_state.lineage = fetch_state.lineage._replace(topic_id=found)
        elif found == NO_TOPIC_ID:
            if fetch_state.other_id is not None:
                return
        elif is_another_topic(fetch_state.topic_id, found):
            if not self._is_believed(fetch_state, view):
                fetch_state.node = None
                return
            self._response_reader.lose(fetch_state, judge_recreated(fetch_state.offset, fetch_state.lineage, found))
            if fetch_state.end is not None:
                fetch_state.end = 0  # the end was the old log's; the next epoch plans the new one
            fetch_state.node, fetch_state.current_epoch = None, NO_EPOCH
        fetch_state.other_id = None
        take_leader(fetch_state, view)

    def _is_believed(self, fetch_state: PartitionFetchState, view: ClusterView) -> bool:
        found = view.topic_ids[fetch_state.partition.topic]
        if any(loss.before.topic_id == found for loss in fetch_state.losses):
            topic = fetch_state.partition.topic
            self._response_reader.report([fetch_state], f"the source shows {topic} as it was before it was made again")
            return False
        if fetch_state.other_id is None or fetch_state.other_id[0] != found:
            fetch_state.other_id = found, self._clock.monotonic()
            return False
        return view.asked_at >= fetch_state.other_id[1] + ANOTHER_ID_SECONDS


def take_leader(fetch_state: PartitionFetchState, view: ClusterView) -> None:
    """Take the leader that a look-up shows, unless it led before one of which an epoch was seen. A partition that has a
    broker changes it only for a leader of a later epoch."""
    epoch = view.epochs.get(fetch_state.partition, NO_EPOCH)
    if NO_EPOCH < epoch < fetch_state.newest_epoch and fetch_state.topic_id != NO_TOPIC_ID:
        return
    if fetch_state.node is None or epoch > fetch_state.current_epoch:
        fetch_state.node, fetch_state.is_nearer = view.leaders.get(fetch_state.partition), False
        fetch_state.current_epoch = epoch
