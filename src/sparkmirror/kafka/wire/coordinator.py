"""The requests of a producer to its transaction coordinator (KIP-98, KIP-890), and the search for that broker.

Questions are encoded for, and answers decoded from, a bulk connection in the caller's selector loop; `find` blocks and
is meant for a thread of its own. Called by `pipeline.produce.coordinator`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.admin.transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from kafka.protocol.metadata import FindCoordinatorResponse
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)

from sparkmirror.errors import AuthorizationFailed, ClusterError
from sparkmirror.kafka.coordinators import FIND_COORDINATOR, TRANSACTION, coordinator_request
from sparkmirror.kafka.errors import NO_ERROR, error_name
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.link import Link, dial
from sparkmirror.kafka.wire.lookup import ask_anyone
from sparkmirror.model import TopicPartition

_FIND_VERSIONS = (4, 6)
_DENIED = frozenset({30, 53})  # GROUP_AUTHORIZATION_FAILED, TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_FEATURE = "transaction.version"
_OPERATION_NOT_ATTEMPTED = 55
ABORTING_STATES = frozenset({"PrepareEpochFence", "PrepareAbort"})
UNENDED_STATES = ABORTING_STATES | {"PrepareCommit"}
"""States of a described transaction that is decided, and whose markers are not in all its partitions yet."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The coordinator's answer. `identity` is the producer's new identity, if it changed.

    `refused` holds the error codes of the partitions that were not added while others could have been, `state` the name
    of a described transaction's state and `partitions` those in it; where it is decided, those without its marker.
    """

    error: int
    identity: ProducerIdentity | None = None
    refused: Mapping[TopicPartition, int] = field(default_factory=dict)
    state: str = ""
    partitions: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class Initialize:
    """InitProducerId for the holder of `identity`: aborts its open transaction and gives it a new epoch (KIP-360).

    Refused with PRODUCER_FENCED when another producer has taken the transactional id over.
    """

    transactional_id: str
    timeout_ms: int
    identity: ProducerIdentity

    def encode(self, link: Link) -> bytes:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
        )
        return link.encode(request, link.version(22, (3, 5)))

    def decode(self, link: Link, frame: bytes) -> Answer:
        answer = InitProducerIdResponse.decode(frame, version=link.version(22, (3, 5)), header=True)
        return Answer(answer.error_code, _identity(answer))


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """AddPartitionsToTxn, before the first batch of a partition in a transaction of the first protocol."""

    transactional_id: str
    identity: ProducerIdentity
    partitions: tuple[TopicPartition, ...]

    def encode(self, link: Link) -> bytes:
        topics: dict[str, list[int]] = {}
        for partition in self.partitions:
            topics.setdefault(partition.topic, []).append(partition.partition)
        topic_class = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.epoch,
            v3_and_below_topics=[topic_class(name=name, partitions=numbers) for name, numbers in topics.items()],
        )
        return link.encode(request, link.version(24, (3, 3)))

    def decode(self, link: Link, frame: bytes) -> Answer:
        """Errors that concern the producer or the coordinator stand in each partition's place: they are the answer."""
        answer = AddPartitionsToTxnResponse.decode(frame, version=link.version(24, (3, 3)), header=True)
        codes = {
            TopicPartition(topic.name, partition.partition_index): partition.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for partition in topic.results_by_partition
        }
        refused = {where: code for where, code in codes.items() if code != NO_ERROR}
        general = [code for code in refused.values() if code not in _OF_ONE_PARTITION]
        return Answer(general[0] if general else NO_ERROR, None, refused)


_OF_ONE_PARTITION = frozenset({3, 17, 29, _OPERATION_NOT_ATTEMPTED})
"""Unknown topic or partition, invalid topic, no authorization, and what was not tried because of another's error."""


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """EndTxn: commits, or aborts. With the second protocol the answer brings the next transaction's producer epoch."""

    transactional_id: str
    identity: ProducerIdentity
    second_protocol: bool
    commits: bool = True

    def encode(self, link: Link) -> bytes:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            committed=self.commits,
        )
        return link.encode(request, link.version(26, self._versions))

    def decode(self, link: Link, frame: bytes) -> Answer:
        answer = EndTxnResponse.decode(frame, version=link.version(26, self._versions), header=True)
        return Answer(answer.error_code, _identity(answer) if self.second_protocol else None)

    @property
    def _versions(self) -> tuple[int, int]:
        return (5, 5) if self.second_protocol else (3, 4)


@dataclass(frozen=True, slots=True)
class Describe:
    """DescribeTransactions: the state of the last transaction, and its producer."""

    transactional_id: str

    def encode(self, link: Link) -> bytes:
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        return link.encode(request, link.version(65, (0, 0)))

    def decode(self, link: Link, frame: bytes) -> Answer:
        answer = DescribeTransactionsResponse.decode(frame, version=link.version(65, (0, 0)), header=True)
        (found,) = answer.transaction_states
        partitions = frozenset(TopicPartition(one.topic, number) for one in found.topics for number in one.partitions)
        return Answer(found.error_code, _identity(found), state=found.transaction_state, partitions=partitions)


Question = Describe | Initialize | AddPartitions | EndTransaction


def speaks_second_protocol(link: Link) -> bool:
    """Whether the cluster has finalized `transaction.version` 2: each transaction has a producer epoch of its own."""
    return link.features.get(_FEATURE, 0) >= 2


def find(settings: ClientSettings, key: str, kind: int = TRANSACTION) -> Link:
    """An open connection to the coordinator of the transactional id `key`, or, with GROUP, of that group. Raises the
    last ClusterError when there is none yet."""
    return ask_anyone(settings, lambda link: dial(*_locate(link, key, kind), settings))


def _locate(link: Link, key: str, kind: int) -> tuple[str, int]:
    request = coordinator_request(kind, [key])
    answer = link.ask(request, FindCoordinatorResponse, link.version(FIND_COORDINATOR, _FIND_VERSIONS))
    found = answer.coordinators[0]
    if found.error_code != NO_ERROR:
        kind_of_error = AuthorizationFailed if found.error_code in _DENIED else ClusterError
        raise kind_of_error(f"broker {link.address} names no coordinator for {key}: {error_name(found.error_code)}")
    return found.host, found.port


def _identity(answer: Any) -> ProducerIdentity | None:
    found = answer.producer_id >= 0
    return ProducerIdentity(answer.producer_id, answer.producer_epoch) if found else None
