"""Reads the notes that jobs keep on a flow's status topic, each kind under keys of its own."""

from collections.abc import Sequence

from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_tail
from sparkmirror.kafka.tail import TailRecord
from sparkmirror.model import Cluster, TopicPartition


def read_notes(target: Cluster, admin: Admin, topic: str, role: str) -> Sequence[TailRecord]:
    """All records of the topic, none where it is not there. Raises ClusterError.

    No note is part of a transaction; one that is open on the topic, a task's, would hide the newest notes.
    """
    if not admin.list_topics([topic]):
        return ()
    with open_tail(target, role, [TopicPartition(topic, 0)], read_committed=False) as tail:
        return list(tail.read_to_end())
