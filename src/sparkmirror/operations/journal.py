"""Keeps the journal of a failover, failback or migration as a record in the flow's status topic, on the cluster that
stays.

Because of that, an operator can continue from another machine. Used by `cli.failover`, `cli.failback` and
`cli.migrate`.
"""

import json
import zlib
from dataclasses import dataclass
from typing import Final

from sparkmirror.errors import ClusterError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin, open_tail
from sparkmirror.kafka.publish import publish
from sparkmirror.model import Cluster, FlowName, TopicPartition
from sparkmirror.operations.steps import Journal, Taken
from sparkmirror.stored_json import Name, decode, encode, unreadable

_BYTES_MAX: Final = 64 << 20
"""The limit of the uncompressed size; a journal with thousands of groups takes a tenth of it."""
_WAIT_SECONDS_MAX: Final = 90.0
"""A mirror that was killed leaves a transaction open, which brokers abort after a minute."""
_WHAT: Final = "The journal of the steps taken"


def encode_journal(journal: Journal) -> bytes:
    """The journal as compressed JSON: a thousand groups of fifty partitions make one record of less than a megabyte."""
    return zlib.compress(encode(journal.as_json()), 9)


def decode_journal(stored: bytes) -> Journal:
    """The journal of these bytes. Raises ProtocolError for bytes that are no journal."""
    unpacking = zlib.decompressobj()
    try:
        raw = unpacking.decompress(stored, _BYTES_MAX)
    except zlib.error as problem:
        raise unreadable(stored, _WHAT, str(problem)) from None
    if not unpacking.eof:
        raise unreadable(stored, _WHAT, "it is cut off, or too large")
    found = decode(raw, _Stored, _WHAT, bytes_max=_BYTES_MAX)
    return Journal(found.steps, found.finished)


@dataclass(frozen=True, slots=True)
class _Stored:
    steps: dict[Name, Taken]
    finished: bool


class TopicJournal:
    """The journal of one procedure (`failover`, `failback`, `migrate`) of one flow; a `JournalStore`."""

    def __init__(self, cluster: Cluster, topic: str, procedure: str, flow: FlowName) -> None:
        self._cluster = cluster
        self._topic = topic
        self._key = json.dumps([procedure, flow.source, flow.target]).encode()

    def load(self) -> Journal:
        """The stored journal. Raises ClusterError, also where the flow has never run.

        A mirror with exactly-once writes to the topic too: what was saved behind its open transaction is waited for.
        """
        where = TopicPartition(self._topic, 0)
        with open_admin(self._cluster, "failover") as admin:
            self._check_topic(admin)
            end = admin.await_end(where)
        with open_tail(self._cluster, "failover", [where]) as tail:
            records = tail.read_to({where: end}, _WAIT_SECONDS_MAX)
        values = [record.value for record in records if record.key == self._key]
        return decode_journal(values[-1]) if values and values[-1] else Journal()

    def save(self, journal: Journal) -> None:
        """Stores the journal. Raises ClusterError, also for a journal too large for one record; then nothing has
        been changed."""
        publish(self._cluster, self._topic, [(self._key, encode_journal(journal))])

    def forget(self) -> None:
        """Deletes the journal. Raises ClusterError as `load` does, but not for a journal that cannot be read."""
        with open_admin(self._cluster, "failover") as admin:
            self._check_topic(admin)
        publish(self._cluster, self._topic, [(self._key, None)])

    def _check_topic(self, admin: Admin) -> None:
        if not admin.list_topics([self._topic]):
            raise ClusterError(f"Cluster {self._cluster.alias} has no topic {self._topic}.", "Has this flow ever run?")
