"""Keeps the journal of a failover, failback or migration as a record in the flow's status topic, on the cluster that
stays.

Because of that, an operator can continue from another machine. Who takes steps claims the journal first: an earlier
holder, who slept or is still at a step, stores nothing in it any more. Used by `cli.failover`, `cli.failback` and
`cli.migrate`.
"""

import json
import logging
import time
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from sparkmirror.clock import show_age
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import ClusterError, FencedError, SparkMirrorError
from sparkmirror.kafka.admin import ALL_SECONDS_MAX, Admin
from sparkmirror.kafka.clients import open_admin, open_tail
from sparkmirror.kafka.fencing import ProducerIdentity, init_producer_ids, renew_producer_id, transactional_id
from sparkmirror.kafka.publish import Record, publish, publish_as
from sparkmirror.model import TopicPartition
from sparkmirror.operations.position_job import Author
from sparkmirror.operations.steps import Journal, Taken
from sparkmirror.stored_json import Moment, Name, Text, decode, decode_or_none, encode, unreadable

log = logging.getLogger(__name__)

_BYTES_MAX: Final = 64 << 20
"""The limit of the uncompressed size; a journal with thousands of groups takes a tenth of it."""
_WAIT_SECONDS_MAX: Final = 90.0
"""A mirror that was killed leaves a transaction open, which brokers abort after a minute."""
_FENCE_SECONDS_MAX: Final = 15.0
"""A failover is carried out also where the target has lost its coordinator of transactions."""
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


@dataclass(frozen=True, slots=True)
class _Claim:
    """The last process that has begun to take steps, `by` somebody on some host."""

    token: Name
    by: Text = ""
    at_ms: Moment = 0


class TopicJournal:
    """The journal of one procedure (`failover`, `failback`, `migrate`) of one flow; a `JournalStore`.

    A claim takes a transactional id of the procedure over, and each record goes out under a new epoch of it: brokers
    refuse an earlier holder's. Where that id cannot be had, the claim's own record alone tells, which is read before
    the journal is written.
    """

    def __init__(self, flow: FlowConfig, procedure: str) -> None:
        self._flow = flow
        self._cluster = flow.target
        self._topic = flow.ledger_topics.status
        self._procedure = procedure
        self._id = transactional_id(flow.connector, procedure)
        names = [procedure, flow.name.source, flow.name.target]
        self._key, self._claim_key = json.dumps(names).encode(), json.dumps([*names, "claim"]).encode()
        self._token = ""
        self._identity: ProducerIdentity | None = None

    def claim(self) -> Journal:
        """Takes the journal over, once, and reads it. Raises as `load`."""
        if not self._token:
            self._take_over()
        return self.load()

    def load(self) -> Journal:
        """The stored journal. Raises ClusterError, also where the flow has never run, and SparkMirrorError where
        another process has claimed it since.

        A mirror with exactly-once writes to the topic too: what was saved behind its open transaction is waited for.
        """
        last = self._read()
        self._refuse_other(last)
        stored = last.get(self._key)
        return decode_journal(stored) if stored else Journal()

    def save(self, journal: Journal) -> None:
        """Stores the journal, which was claimed. Raises ClusterError, also for a journal too large for one record, and
        SparkMirrorError as `load`; then nothing has been changed."""
        self._write([(self._key, encode_journal(journal))])

    def forget(self) -> None:
        """Deletes the journal. Raises ClusterError as `load` does, but not for a journal that cannot be read."""
        if not self._token:
            self._take_over()
        self._write([(self._key, None), (self._claim_key, None)])
        self._token = ""

    def _take_over(self) -> None:
        with open_admin(self._cluster, "failover") as admin:
            self._check_topic(admin)
            self._identity = self._fence(admin)
        claim = _Claim(uuid4().hex[:12], Author().sentence, time.time_ns() // 1_000_000)
        self._append([(self._claim_key, encode(claim))])
        self._token = claim.token

    def _fence(self, admin: Admin) -> ProducerIdentity | None:
        try:
            return init_producer_ids(admin, [self._id], wait_seconds_max=_FENCE_SECONDS_MAX)[self._id]
        except FencedError:
            raise self._lost() from None
        except ClusterError as why:
            log.warning(
                "%s: an earlier `%s run` that still stands at a step is not fenced, so make sure that none does: %s",
                self._flow.name, self._procedure, why,
            )  # fmt: skip
            return None

    def _write(self, records: Sequence[Record]) -> None:
        if self._identity is None:
            self._refuse_other(self._read())
        self._append(records)

    def _append(self, records: Sequence[Record]) -> None:
        if self._identity is None:
            publish(self._cluster, self._topic, records)
            return
        try:
            with open_admin(self._cluster, "failover") as admin:
                self._identity = renew_producer_id(admin, self._id, self._identity)
            publish_as(self._identity, self._cluster, self._topic, records)
        except FencedError:
            raise self._lost() from None

    def _read(self) -> Mapping[bytes | None, bytes | None]:
        """The last value of each key."""
        where = TopicPartition(self._topic, 0)
        with open_admin(self._cluster, "failover") as admin:
            self._check_topic(admin)
            end = admin.newest_ends([where], ALL_SECONDS_MAX).of(where)
        with open_tail(self._cluster, "failover", [where]) as tail:
            return {record.key: record.value for record in tail.read_to({where: end}, _WAIT_SECONDS_MAX)}

    def _refuse_other(self, last: Mapping[bytes | None, bytes | None]) -> None:
        claim = decode_or_none(last.get(self._claim_key), _Claim)
        if self._token and (claim is None or claim.token != self._token):
            raise self._lost(claim)

    def _lost(self, claim: _Claim | None = None) -> SparkMirrorError:
        with suppress(SparkMirrorError):
            claim = claim or decode_or_none(self._read().get(self._claim_key), _Claim)
        age = show_age(max(time.time_ns() / 1e9 - claim.at_ms / 1000, 0)) if claim else ""
        who = f" ({claim.by}, {age} ago)" if claim else ""
        return SparkMirrorError(
            f"{self._flow.name}: another `{self._procedure} run` has taken the steps over{who}, so this one ends.",
            "What the step that it was at has changed is not known: when nobody else is at it, run it again, or --undo "
            "it.",
        )

    def _check_topic(self, admin: Admin) -> None:
        if not admin.list_known_topics([self._topic]):
            raise ClusterError(f"Cluster {self._cluster.alias} has no topic {self._topic}.", "Has this flow ever run?")
