"""One script of requests, put to any broker that answers bytes with bytes; what it answers, without what must differ.

Producer ids, topic ids and correlation ids differ from broker to broker, and are left out. `test_conformance.py`
compares what a simulated and a real broker answer.
"""

import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kafka.protocol.admin import (
    CreateAclsRequest,
    CreateAclsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.admin.transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from kafka.protocol.consumer import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse, MetadataRequest, MetadataResponse
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kafka.protocol.producer.transaction import WriteTxnMarkersRequest, WriteTxnMarkersResponse

from sparkmirror.batch import crc as crc32c
from sparkmirror.batch.header import (
    ATTRIBUTES_AT,
    LOG_OVERHEAD_BYTES,
    Codec,
    iterate_headers,
    parse_header,
    stamp,
)
from sparkmirror.batch.records import decode_records, encode_batch
from sparkmirror.kafka.wire import data_requests as wire
from sparkmirror.kafka.wire.data_requests import FetchPosition, ProduceItem

Exchange = Callable[[bytes], bytes]
"""A request's frame without its length, to an answer's."""
_CONCURRENT, _LOADING = 51, (14, 15, 16)
_CRC_AT, _LAST_DELTA_AT = 17, 23


@dataclass(slots=True)
class Conversation:
    """Asks and notes. `nap` lets time pass on the broker's side."""

    exchange: Exchange
    fetch_version: int
    produce_version: int
    nap: Callable[[float], None] = time.sleep
    told: list[tuple[str, Any]] = field(default_factory=list)
    _correlation: int = 0

    def note(self, label: str, *what: Any) -> None:
        self.told.append((label, what))

    def ask(self, request: Any, response: Any, version: int) -> Any:
        self._correlation += 1
        request.API_VERSION = version
        request.with_header(correlation_id=self._correlation, client_id="script")
        answer = self.exchange(bytes(request.encode(header=True, framed=True))[4:])
        return response.decode(answer, version=version, header=True)

    def send(self, api: int, version: int, body: bytes) -> memoryview:
        self._correlation += 1
        return memoryview(self.exchange(wire.request_header(api, version, self._correlation, "script") + body))

    # Data.

    def topic_id(self, topic: str) -> UUID:
        wanted = [MetadataRequest.MetadataRequestTopic(topic_id=UUID(int=0), name=topic)]
        asked = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        found = self.ask(asked, MetadataResponse, 11).topics[0]
        self.note("metadata", found.error_code, sorted(one.partition_index for one in found.partitions))
        return UUID(str(found.topic_id)) if found.topic_id else UUID(int=0)

    def fetch(
        self, label: str, key: bytes | str, offset: int, *, last_epoch: int = -1, session: tuple[int, int] = (0, -1),
        committed: bool = False, current_epoch: int = -1,
    ) -> int:  # fmt: skip
        """All from `offset` on, in as many answers as the broker likes; of a session one answer. Returns its id."""
        error, session_id, one, aborted, batches = self._fetch(
            key, offset, (last_epoch, current_epoch), session, committed
        )
        self.note(label, error, one)
        while batches:
            self.note(label, [(h.base_offset, h.next_offset, h.partition_leader_epoch, h.is_control, h.producer_epoch,
                               h.base_sequence) for h in batches[:1]])  # fmt: skip
            if session[1] >= 0:
                break
            _, _, _, more, batches = self._fetch(key, batches[0].next_offset, (-1, current_epoch), session, committed)
            aborted |= more
        self.note(label, sorted(aborted))
        return session_id

    def _fetch(
        self, key: bytes | str, offset: int, epochs: tuple[int, int], session: tuple[int, int], committed: bool
    ) -> Any:
        body = wire.encode_fetch(
            self.fetch_version, session_id=session[0], session_epoch=session[1],
            positions=[FetchPosition(key, 0, offset, epochs[0], 1 << 20, epochs[1])], wait_ms=50, bytes_min=1,
            bytes_max=1 << 20, read_committed=committed,
        )  # fmt: skip
        buffer = self.send(wire.FETCH, self.fetch_version, body)
        found = wire.decode_fetch(self.fetch_version, buffer)
        shown: list[Any] = []
        aborted: set[int] = set()
        batches: list[Any] = []
        for one in found.partitions:
            shown.append((one.error, one.high_watermark, one.last_stable_offset, one.log_start_offset,
                          one.diverging_epoch, one.diverging_offset))  # fmt: skip
            aborted |= {mark.first_offset for mark in one.aborted if not batches or mark.first_offset >= offset}
            batches += [header for _, header in iterate_headers(buffer, one.start, one.stop)]
        return found.error, found.session_id, shown, aborted, batches

    def produce(self, label: str, key: bytes | str, producer: tuple[int, int], sequence: int, *, records: int = 1,
                transactional_id: str | None = None, version: int = 0, hole: int = 0,
                time_ms: int = 1_700_000_000_000) -> int:  # fmt: skip
        """`hole` offsets are empty behind the last record, as a cleaner leaves them."""
        batch = memoryview(bytearray(encode_batch([(b"k", b"v")] * records, timestamp=time_ms)))
        if hole:
            widen(batch, hole)
        stamp(batch, 0, parse_header(batch, 0), *producer, sequence, transactional_id is not None)
        version = version or self.produce_version
        body = wire.encode_produce([ProduceItem(key, 0, batch)], transactional_id=transactional_id)
        found = wire.decode_produce(version, self.send(wire.PRODUCE, version, b"".join(body))).partitions[0]
        self.note(label, found.error, found.base_offset, found.append_time_ms)
        return found.error

    def put(self, label: str, topic_id: UUID, producer: tuple[int, int], sequence: int, keys: list[bytes], *,
            name: str | None = None, codec: Codec = Codec.NONE) -> None:  # fmt: skip
        """Records of these keys' first bytes, written now: segments are rolled by the time of records and markers.
        `name` is of a transaction of the second protocol."""
        pairs = [(key[:1], key) for key in keys]
        batch = memoryview(bytearray(encode_batch(pairs, codec, timestamp=time.time_ns() // 1_000_000)))
        stamp(batch, 0, parse_header(batch, 0), *producer, sequence, name is not None)
        body = wire.encode_produce([ProduceItem(topic_id.bytes, 0, batch)], transactional_id=name)
        found = wire.decode_produce(13, self.send(wire.PRODUCE, 13, b"".join(body))).partitions[0]
        self.note(label, found.error, found.base_offset)

    def batches(self, topic_id: UUID) -> list[Any]:
        """All that is stored, batch by batch, with offsets, keys and values of the records."""
        shown: list[Any] = []
        at = 0
        while True:
            body = wire.encode_fetch(
                self.fetch_version, session_id=0, session_epoch=-1,
                positions=[FetchPosition(topic_id.bytes, 0, at, -1, 1 << 20)], wait_ms=50, bytes_min=1,
                bytes_max=1 << 20, read_committed=False,
            )  # fmt: skip
            buffer = self.send(wire.FETCH, self.fetch_version, body)
            (one,) = wire.decode_fetch(self.fetch_version, buffer).partitions
            found = list(iterate_headers(buffer, one.start, one.stop))
            for place, header in found:
                data = bytes(buffer[place : place + header.batch_length + LOG_OVERHEAD_BYTES])
                records = [] if header.is_control else [(r.offset, r.key, r.value) for r in decode_records(data)]
                kind = header.is_control, header.is_transactional, header.producer_epoch, header.base_sequence
                shown.append((header.base_offset, header.next_offset, header.records_count, *kind, records))
            if not found:
                return shown
            at = found[-1][1].next_offset

    def stored(self, label: str, topic_id: UUID) -> None:
        for one in self.batches(topic_id):
            self.note(label, one)

    # Transactions.

    def find(self, name: str, key_type: int = 1) -> None:
        """Until there is a coordinator, of transactions or (0) groups, that has loaded its log."""
        for _ in range(200):
            asked = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[name])
            if self.ask(asked, FindCoordinatorResponse, 4).coordinators[0].error_code == 0:
                return
            self.nap(0.1)

    def initialize(
        self, label: str, name: str | None, identity: tuple[int, int] = (-1, -1), *, once: bool = False
    ) -> tuple[int, int]:
        for _ in range(200):
            asked = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000,
                                          producer_id=identity[0], producer_epoch=identity[1])  # fmt: skip
            found = self.ask(asked, InitProducerIdResponse, 4)
            if found.error_code not in _LOADING and (once or found.error_code != _CONCURRENT):
                break
            self.nap(0.05)
        self.note(label, found.error_code, found.producer_epoch)
        return found.producer_id, found.producer_epoch

    def add(self, label: str, name: str, producer: tuple[int, int], *topics: str) -> None:
        one = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        for _ in range(200):
            asked = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name, v3_and_below_producer_id=producer[0],
                v3_and_below_producer_epoch=producer[1],
                v3_and_below_topics=[one(name=topic, partitions=[0]) for topic in topics],
            )  # fmt: skip
            answer = self.ask(asked, AddPartitionsToTxnResponse, 3).results_by_topic_v3_and_below
            codes = sorted(
                (topic.name == topics[0], topic.results_by_partition[0].partition_error_code) for topic in answer
            )
            if all(code != _CONCURRENT for _, code in codes):
                break
            self.nap(0.05)
        self.note(label, codes)

    def end(
        self, label: str, name: str, producer: tuple[int, int], *, commits: bool, version: int = 3
    ) -> tuple[int, int]:
        for _ in range(200):
            asked = EndTxnRequest(
                transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], committed=commits
            )
            found = self.ask(asked, EndTxnResponse, version)
            if found.error_code != _CONCURRENT:
                break
            self.nap(0.05)
        epoch = found.producer_epoch if version >= 5 else None
        self.note(label, found.error_code, epoch)
        self.nap(0.3)
        return (producer[0], epoch) if epoch is not None and epoch >= 0 else producer

    def describe(self, label: str, name: str) -> None:
        found = self.ask(DescribeTransactionsRequest(transactional_ids=[name]), DescribeTransactionsResponse, 0)
        one = found.transaction_states[0]
        topics = sorted((topic.topic, sorted(topic.partitions)) for topic in one.topics)
        self.note(label, one.error_code, one.transaction_state, one.producer_epoch, len(topics))

    # Groups.

    def join(self, label: str, group: str, member: str, card: bytes = b"card") -> tuple[str, int]:
        """Member id and generation."""
        protocols = [JoinGroupRequest.JoinGroupRequestProtocol(name="shares-1", metadata=card)]
        for _ in range(200):
            asked = JoinGroupRequest(
                group_id=group, session_timeout_ms=10_000, rebalance_timeout_ms=10_000, member_id=member,
                group_instance_id=None, protocol_type="sparkmirror", protocols=protocols,
            )  # fmt: skip
            found = self.ask(asked, JoinGroupResponse, 7)
            if found.error_code not in _LOADING:
                break
            self.nap(0.1)
        cards = [bytes(one.metadata) for one in found.members]
        self.note(label, found.error_code, found.generation_id, found.leader == found.member_id, cards)
        return found.member_id, found.generation_id

    def sync(self, label: str, group: str, member: str, generation: int, plan: bytes | None = None) -> None:
        kind = SyncGroupRequest.SyncGroupRequestAssignment
        planned = [] if plan is None else [kind(member_id=member, assignment=plan)]
        asked = SyncGroupRequest(
            group_id=group, generation_id=generation, member_id=member, group_instance_id=None,
            protocol_type="sparkmirror", protocol_name="shares-1", assignments=planned,
        )  # fmt: skip
        found = self.ask(asked, SyncGroupResponse, 5)
        self.note(label, found.error_code, bytes(found.assignment))

    def beat(self, label: str, group: str, member: str, generation: int) -> None:
        asked = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member, group_instance_id=None)
        self.note(label, self.ask(asked, HeartbeatResponse, 4).error_code)

    def leave(self, label: str, group: str, member: str) -> None:
        one = LeaveGroupRequest.MemberIdentity(member_id=member, group_instance_id=None)
        found = self.ask(LeaveGroupRequest(group_id=group, members=[one]), LeaveGroupResponse, 4)
        self.note(label, found.error_code, [each.error_code for each in found.members])

    def members(self, label: str, group: str) -> None:
        asked = DescribeGroupsRequest(groups=[group], include_authorized_operations=False)
        one = self.ask(asked, DescribeGroupsResponse, 5).groups[0]
        members = [(each.client_id, bytes(each.member_metadata), bytes(each.member_assignment)) for each in one.members]
        self.note(label, one.error_code, one.group_state, members)

    def commit(
        self, label: str, group: str, topic: str, offset: int, generation: int = -1, member: str = "", note: str = ""
    ) -> None:
        kind = OffsetCommitRequest.OffsetCommitRequestTopic
        one = kind.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_leader_epoch=3, committed_metadata=note
        )
        asked = OffsetCommitRequest(
            group_id=group, generation_id_or_member_epoch=generation, member_id=member,
            topics=[kind(name=topic, partitions=[one])],
        )  # fmt: skip
        self.note(label, self.ask(asked, OffsetCommitResponse, 8).topics[0].partitions[0].error_code)

    def committed(self, label: str, *groups: str) -> None:
        wanted = OffsetFetchRequest.OffsetFetchRequestGroup
        asked = OffsetFetchRequest(groups=[wanted(group_id=group, topics=None) for group in groups])
        answered = {one.group_id: one for one in self.ask(asked, OffsetFetchResponse, 8).groups}
        for one in (answered[group] for group in groups):  # brokers answer in any order
            found = [
                (each.partition_index, each.committed_offset, each.committed_leader_epoch, each.metadata)
                for topic in one.topics
                for each in topic.partitions
            ]
            self.note(label, one.error_code, found)

    def delete_offset(self, label: str, group: str, topic: str) -> None:
        kind = OffsetDeleteRequest.OffsetDeleteRequestTopic
        one = kind.OffsetDeleteRequestPartition(partition_index=0)
        asked = OffsetDeleteRequest(group_id=group, topics=[kind(name=topic, partitions=[one])])
        found = self.ask(asked, OffsetDeleteResponse, 0)
        told = [each.error_code for topic in found.topics for each in topic.partitions]
        self.note(label, found.error_code, told)

    def listed(self, label: str, group: str) -> None:
        found = self.ask(ListGroupsRequest(), ListGroupsResponse, 4)
        self.note(label, [(one.protocol_type, one.group_state) for one in found.groups if one.group_id == group])

    # Topics.

    def create(self, label: str, topic: str, partitions: int) -> None:
        one = CreateTopicsRequest.CreatableTopic(
            name=topic, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
        )
        asked = CreateTopicsRequest(topics=[one], timeout_ms=30_000, validate_only=False)
        found = self.ask(asked, CreateTopicsResponse, 7).topics[0]
        self.note(label, found.error_code, bool(found.error_message), found.num_partitions)

    def grow(self, label: str, topic: str, partitions: int) -> None:
        one = CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=partitions, assignments=None)
        asked = CreatePartitionsRequest(topics=[one], timeout_ms=30_000, validate_only=False)
        self.note(label, self.ask(asked, CreatePartitionsResponse, 2).results[0].error_code)

    def create_set(self, label: str, topic: str, settings: Mapping[str, str]) -> None:
        kind = CreateTopicsRequest.CreatableTopic
        one = kind(
            name=topic, num_partitions=1, replication_factor=1, assignments=[],
            configs=[kind.CreatableTopicConfig(name=name, value=value) for name, value in settings.items()],
        )  # fmt: skip
        asked = CreateTopicsRequest(topics=[one], timeout_ms=30_000, validate_only=False)
        found = self.ask(asked, CreateTopicsResponse, 7).topics[0]
        self.note(label, found.error_code, bool(found.error_message))

    def settings(self, label: str, topic: str, *names: str) -> None:
        one = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=2, resource_name=topic, configuration_keys=list(names)
        )
        asked = DescribeConfigsRequest(resources=[one], include_synonyms=False, include_documentation=False)
        found = self.ask(asked, DescribeConfigsResponse, 4).results[0]
        told = [
            (each.name, each.value, each.config_source, each.read_only, each.is_sensitive, int(each.config_type))
            for each in found.configs
        ]
        self.note(label, found.error_code, sorted(told))

    def alter(self, label: str, topic: str, changes: Mapping[str, str | None]) -> None:
        """Sets, or deletes what is None."""
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource
        configs = [
            resource.AlterableConfig(name=name, config_operation=int(value is None), value=value)
            for name, value in changes.items()
        ]
        one = resource(resource_type=2, resource_name=topic, configs=configs)
        asked = IncrementalAlterConfigsRequest(resources=[one], validate_only=False)
        found = self.ask(asked, IncrementalAlterConfigsResponse, 1).responses[0]
        self.note(label, found.error_code, bool(found.error_message))

    # ACLs of topics: an operation and a permission by Kafka's numbers, for all principals unless one is named.

    def acls(self, label: str, topic: str | None) -> None:
        asked = DescribeAclsRequest(
            resource_type_filter=2, resource_name_filter=topic, pattern_type_filter=1, principal_filter=None,
            host_filter=None, operation=1, permission_type=1,
        )  # fmt: skip
        found = self.ask(asked, DescribeAclsResponse, 2)
        told = sorted(
            (one.resource_type, one.resource_name, int(one.pattern_type), acl.principal, acl.host, int(acl.operation),
             int(acl.permission_type))
            for one in found.resources
            for acl in one.acls
        )  # fmt: skip
        self.note(label, found.error_code, bool(found.error_message), told)

    def permit(self, label: str, topic: str, operation: int, permission: int, principal: str = "User:*") -> None:
        one = CreateAclsRequest.AclCreation(
            resource_type=2, resource_name=topic, resource_pattern_type=3, principal=principal, host="*",
            operation=operation, permission_type=permission,
        )  # fmt: skip
        found = self.ask(CreateAclsRequest(creations=[one]), CreateAclsResponse, 2)
        self.note(label, [(each.error_code, bool(each.error_message)) for each in found.results])

    def revoke(self, label: str, topic: str, operation: int, permission: int) -> None:
        one = DeleteAclsRequest.DeleteAclsFilter(
            resource_type_filter=2, resource_name_filter=topic, pattern_type_filter=3, principal_filter=None,
            host_filter="*", operation=operation, permission_type=permission,
        )  # fmt: skip
        found = self.ask(DeleteAclsRequest(filters=[one]), DeleteAclsResponse, 2)
        for each in found.filter_results:
            gone = sorted((acl.resource_name, acl.principal, int(acl.operation)) for acl in each.matching_acls)
            self.note(label, each.error_code, bool(each.error_message), gone)

    def offsets(
        self, label: str, topic: str, *, committed: bool = False, replica_id: int = -1, current_epoch: int = -1
    ) -> None:
        """Of replica id -2 the log's end, whatever the isolation."""
        kind = ListOffsetsRequest.ListOffsetsTopic
        for timestamp in (-2, -1):
            one = kind.ListOffsetsPartition(partition_index=0, current_leader_epoch=current_epoch, timestamp=timestamp)
            asked = ListOffsetsRequest(
                replica_id=replica_id, isolation_level=int(committed), topics=[kind(name=topic, partitions=[one])]
            )
            found = self.ask(asked, ListOffsetsResponse, 5).topics[0].partitions[0]
            self.note(label, timestamp, found.error_code, found.offset, found.leader_epoch)

    # The edges of a log.

    def producers(self, label: str, topic: str, *producer_ids: int) -> None:
        """What the leader knows of these producers."""
        one = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[0])
        found = self.ask(DescribeProducersRequest(topics=[one]), DescribeProducersResponse, 0).topics[0].partitions[0]
        known = {
            each.producer_id: (each.producer_epoch, each.last_sequence, each.coordinator_epoch,
                               each.current_txn_start_offset)
            for each in found.active_producers
        }  # fmt: skip
        self.note(label, found.error_code, [known.get(producer_id) for producer_id in producer_ids])

    def delete_records(self, label: str, topic: str, offset: int) -> None:
        kind = DeleteRecordsRequest.DeleteRecordsTopic
        one = kind(name=topic, partitions=[kind.DeleteRecordsPartition(partition_index=0, offset=offset)])
        asked = DeleteRecordsRequest(topics=[one], timeout_ms=10_000)
        found = self.ask(asked, DeleteRecordsResponse, 2).topics[0].partitions[0]
        self.note(label, found.error_code, found.low_watermark)

    def write_markers(
        self, label: str, topic: str, producer: tuple[int, int], coordinator_epoch: int = 0, *, count: int = 1,
        commits: bool = False,
    ) -> None:  # fmt: skip
        """Without a coordinator; brokers answer once for all of a producer."""
        kind = WriteTxnMarkersRequest.WritableTxnMarker
        one = kind(
            producer_id=producer[0], producer_epoch=producer[1], transaction_result=commits,
            topics=[kind.WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
            coordinator_epoch=coordinator_epoch,
        )  # fmt: skip
        found = self.ask(WriteTxnMarkersRequest(markers=[one] * count), WriteTxnMarkersResponse, 1)
        self.note(
            label,
            [
                [each.error_code for part in answer.topics for each in part.partitions]
                for answer in found.markers
                if answer.producer_id == producer[0]
            ],
        )


def converse(talk: Conversation, topic: str, *, second: bool) -> list[tuple[str, Any]]:
    """The script. `topic` is new and has one partition; `second`: the second transaction protocol is spoken."""
    talk.topic_id(f"{topic}-absent")
    topic_id = talk.topic_id(topic)
    talk.find("script-1")
    by_id: bytes | str = topic_id.bytes if talk.fetch_version >= wire.TOPIC_ID_FETCH else topic
    put: bytes | str = topic_id.bytes if talk.produce_version >= wire.TOPIC_ID_PRODUCE else topic
    _idempotence(talk, topic, put)
    _reading(talk, by_id)
    _first_protocol(talk, topic, by_id)
    if second:
        _second_protocol(talk, topic_id, by_id)
    _stranger(talk, put)
    talk.offsets("the end", topic)
    talk.offsets("the end by the leader's epoch", topic, current_epoch=0)
    talk.offsets("the end by an epoch to come", topic, current_epoch=1)
    _filling(talk, topic, put, by_id)
    _writing(talk, topic, put, by_id)
    _grouping(talk, f"{topic}-group")
    _committing(talk, topic, f"{topic}-readers")
    _making(talk, f"{topic}-made")
    if second:  # brokers of 3.0 without ZooKeeper do not look at the settings of a new topic
        _setting(talk, f"{topic}-set")
    return talk.told


def converse_of_acls(talk: Conversation, topic: str) -> list[tuple[str, Any]]:
    """The script for a cluster with an authorizer, or without one."""
    read, write, deny, allow = 3, 4, 2, 3
    talk.acls("none yet", topic)
    talk.permit("deny writes", topic, write, deny)
    talk.nap(1.2)
    talk.acls("one", topic)
    talk.permit("the same again", topic, write, deny)
    talk.permit("allow reads to one", topic, read, allow, "User:alice")
    talk.permit("allow reads to another", topic, read, allow, "User:bob")
    talk.nap(1.2)
    talk.acls("three", topic)
    talk.revoke("what is not there", topic, write, allow)
    talk.revoke("both who read", topic, read, allow)
    talk.nap(1.2)
    talk.acls("one again", topic)
    talk.revoke("the denial", topic, 1, 1)
    talk.nap(1.2)
    talk.acls("none any more", topic)
    return talk.told


def _stranger(talk: Conversation, put: bytes | str) -> None:
    """A log takes any sequence from a producer that it does not know, and then none before it."""
    stranger = talk.initialize("an id that never wrote", "script-5")
    talk.produce("its second batch", put, stranger, 5)
    talk.produce("its first batch after that", put, stranger, 0)
    following = talk.initialize("its next epoch", "script-5")
    talk.produce("the second batch of the next epoch", put, following, 5)


def _filling(talk: Conversation, topic: str, put: bytes | str, key: bytes | str) -> None:
    """What flows do that keep offsets: empty transactions, the log's end, its producers, and a start that moves."""
    plain, name, absent = talk.initialize("a plain id", None), "script-6", f"{topic}-absent"
    filler, version = talk.initialize("a filler's id", name), min(11, talk.produce_version)
    talk.produce("before a hole", put, plain, 7, records=2)
    talk.producers("a plain producer, a filler that has written nothing, and nobody", topic, plain[0], filler[0], 77)
    talk.add("an empty transaction", name, filler, topic)
    talk.offsets("within an empty transaction, committed", topic, committed=True)
    talk.producers("within an empty transaction", topic, plain[0], filler[0])
    talk.end("an empty transaction", name, filler, commits=False)
    talk.offsets("behind its marker, by any reader", topic, replica_id=-2)
    talk.producers("behind its marker", topic, plain[0], filler[0])
    talk.produce("behind the hole", put, plain, 9)
    talk.add("empty records", name, filler, topic)
    talk.produce("empty records", topic, filler, 0, records=3, transactional_id=name, version=version)
    talk.offsets("an open filler, committed", topic, committed=True)
    talk.offsets("an open filler, by any reader, committed", topic, committed=True, replica_id=-2)
    talk.producers("an open filler", topic, plain[0], filler[0])
    talk.produce("a record within an open filler", put, plain, 10)
    talk.initialize("an heir ends the filler", name, once=True)
    talk.nap(0.3)
    heir = talk.initialize("an heir of the filler", name)
    talk.producers("after the heir", topic, plain[0], filler[0])
    talk.end("the filler that was taken over", name, filler, commits=False)
    talk.add("an empty transaction that is taken over", name, heir, topic)
    talk.initialize("ends an empty transaction", name, once=True)
    talk.nap(0.3)
    talk.initialize("the next heir", name)
    talk.fetch("all of the fillers", key, 6, committed=True)
    talk.offsets("before records are deleted", topic)
    talk.delete_records("records beyond the end", topic, 1000)
    talk.delete_records("records before an offset that there is not", topic, -5)
    talk.delete_records("some records", topic, 3)
    talk.offsets("after records were deleted", topic)
    talk.delete_records("records that are deleted already", topic, 2)
    talk.fetch("before the log's start", key, 1)
    talk.delete_records("all records", topic, -1)
    talk.offsets("after all records were deleted", topic)
    talk.producers("after all records were deleted", topic, plain[0], filler[0])
    talk.produce("an old batch again, that is deleted", put, plain, 10)
    talk.produce("the next behind deleted ones", put, plain, 11)
    talk.delete_records("of an absent topic", absent, 1)
    talk.producers("of an absent topic", absent, plain[0])
    talk.create_set("a compacted topic", f"{topic}-compacted", {"cleanup.policy": "compact"})
    talk.nap(0.5)
    talk.delete_records("of a compacted topic", f"{topic}-compacted", 0)


def _writing(talk: Conversation, topic: str, put: bytes | str, key: bytes | str) -> None:
    """Markers that are written without a coordinator: which epochs a log takes them from."""
    name, version = "script-7", min(11, talk.produce_version)
    writer = talk.initialize("a writer of markers", name)
    following = talk.initialize("the next writer", name)
    talk.write_markers("of an id that the log does not know", topic, writer)
    talk.producers("behind a written marker", topic, writer[0])
    talk.write_markers("three of them", topic, writer, count=3)
    talk.offsets("behind four of them", topic)
    talk.add("the next one's first", name, following, topic)
    talk.write_markers("of the older beside it", topic, writer)
    talk.end("the next one's first", name, following, commits=False)
    talk.write_markers("of the older behind it", topic, writer, count=2)
    talk.write_markers("of the next one", topic, following, count=2)
    talk.write_markers("of an older coordinator", topic, following, -1)
    talk.producers("of two epochs", topic, writer[0])
    talk.produce("a record behind them", put, (writer[0], following[1] + 1), 0)
    talk.write_markers("of an epoch that a record has left behind", topic, following)
    talk.write_markers("of a newer coordinator", topic, (writer[0], following[1] + 1), 5)
    talk.write_markers("of the former coordinator", topic, (writer[0], following[1] + 1), 4)
    talk.write_markers("of both an older epoch and coordinator", topic, following, 4)
    talk.write_markers("of an absent topic", f"{topic}-absent", writer)
    open_id = talk.initialize("a transaction that others end", "script-8")
    talk.add("records that others end", "script-8", open_id, topic)
    talk.produce("records that others end", topic, open_id, 0, records=2, transactional_id="script-8", version=version)
    talk.write_markers("ends them", topic, open_id)
    talk.offsets("behind their end, committed", topic, committed=True)
    talk.producers("behind their end", topic, open_id[0])
    talk.end("the same by its coordinator", "script-8", open_id, commits=False)
    talk.write_markers("a commit of nothing", topic, open_id, commits=True)
    talk.fetch("all of the written markers", key, 10, committed=True)


def _making(talk: Conversation, topic: str) -> None:
    talk.create("a new topic", topic, 2)
    talk.create("the same again", topic, 2)
    talk.nap(0.5)
    talk.grow("to three partitions", topic, 3)
    talk.nap(0.5)
    talk.grow("to three again", topic, 3)
    talk.grow("to fewer", topic, 1)
    talk.grow("an absent topic", f"{topic}-absent", 3)
    talk.topic_id(topic)


def _setting(talk: Conversation, topic: str) -> None:
    retention, cleanup, bytes_max, strange = "retention.ms", "cleanup.policy", "max.message.bytes", "no.such.setting"
    names = (retention, cleanup, bytes_max, "compression.type", "delete.retention.ms")
    talk.create_set("with a strange setting", topic, {retention: "1000", strange: "1"})
    talk.create_set("with a strange value", topic, {retention: "a while"})
    talk.create_set("with settings", topic, {retention: "3600000", cleanup: "compact"})
    talk.nap(0.5)
    talk.settings("as it was made", topic, *names)
    talk.alter("one set, one deleted", topic, {bytes_max: "2097152", cleanup: None})
    talk.nap(1.2)
    talk.settings("altered", topic, *names)
    talk.alter("set to what it is", topic, {bytes_max: "2097152"})
    talk.alter("deleted, though it is not set", topic, {cleanup: None})
    talk.alter("with a strange setting", topic, {retention: "1000", strange: "1"})
    talk.alter("with a strange value", topic, {retention: "a while", cleanup: "compact"})
    talk.nap(1.2)
    talk.settings("as before", topic, *names)
    talk.alter("an absent topic", f"{topic}-absent", {retention: "1000"})
    talk.settings("an absent topic", f"{topic}-absent", *names)


def _committing(talk: Conversation, topic: str, group: str) -> None:
    talk.find(group, 0)
    talk.committed("of a group that is not there", group)
    talk.listed("not there", group)
    talk.delete_offset("of no group", group, topic)
    talk.commit("a member of no group", group, topic, 1, 5, "nobody")
    talk.commit("as nobody", group, topic, 2, note="a note")
    talk.commit("of an absent topic", group, f"{topic}-absent", 2)
    talk.committed("as nobody", group, f"{group}-absent")
    talk.listed("that only commits", group)
    talk.commit("as nobody, back", group, topic, 1)
    talk.committed("set back", group)
    member, _ = talk.join("a reader", group, "")
    talk.commit("while it begins to join", group, topic, 3)
    _, generation = talk.join("a reader with its id", group, member)
    talk.commit("before the plan, as nobody", group, topic, 4)
    talk.commit("before the plan, as a member", group, topic, 4, generation, member)
    talk.sync("the readers' plan", group, member, generation, b"plan")
    talk.commit("as nobody beside a member", group, topic, 5)
    talk.commit("as another member", group, topic, 5, generation, "nobody")
    talk.commit("of a generation to come", group, topic, 5, generation + 1, member)
    talk.commit("as a member", group, topic, 6, generation, member, "its own")
    talk.committed("as a member", group)
    talk.listed("stable", group)
    talk.leave("the reader leaves", group, member)
    talk.commit("of a member that has left", group, topic, 7, generation, member)
    talk.commit("as nobody, behind it", group, topic, 7)
    talk.listed("empty", group)
    talk.delete_offset("of an empty group", group, topic)
    talk.committed("deleted", group)


def _grouping(talk: Conversation, group: str) -> None:
    talk.find(group, 0)
    member, _ = talk.join("a first word", group, "")
    talk.join("an unknown member", group, "nobody")
    _, generation = talk.join("with the id that was given", group, member)
    talk.beat("before the plan", group, member, generation)
    talk.sync("the plan", group, member, generation, b"plan")
    talk.sync("the plan again", group, member, generation, b"another")
    talk.beat("in the group", group, member, generation)
    talk.beat("of a generation to come", group, member, generation + 1)
    talk.beat("of nobody", group, "nobody", generation)
    talk.members("stable", group)
    _, following = talk.join("the leader again", group, member, b"another card")
    talk.beat("of the generation before", group, member, generation)
    talk.sync("of the generation before", group, member, generation)
    talk.sync("the second plan", group, member, following, b"second")
    talk.members("after the second plan", group)
    talk.leave("nobody leaves", group, "nobody")
    talk.leave("it leaves", group, member)
    talk.beat("after it has left", group, member, following)
    talk.join("joins with its old id", group, member)
    talk.members("empty", group)


def _idempotence(talk: Conversation, topic: str, put: bytes | str) -> None:
    older = talk.initialize("a new id", "script-1")
    talk.produce("first batch", put, older, 0, records=3)
    talk.produce("next batch", put, older, 3)
    talk.produce("the same again", put, older, 3)
    talk.produce("one is missing", put, older, 9)
    talk.produce("with a hole", put, older, 4, records=2, hole=1)
    newer = talk.initialize("taken over", "script-1")
    talk.produce("the older one before the newer one's first batch", put, older, 4)
    talk.produce("the newer one out of sequence", put, newer, 4)
    talk.produce("the newer one", put, newer, 0)
    talk.produce("a zombie", put, older, 5)
    talk.produce("a zombie repeats", put, older, 4)
    talk.produce("an old batch again, behind a newer epoch", put, older, 3)
    if isinstance(put, bytes):
        talk.produce("an unknown topic id", UUID(int=77).bytes, newer, 1)
    talk.offsets("after idempotence", topic)


def _reading(talk: Conversation, key: bytes | str) -> None:
    talk.fetch("from the beginning", key, 0)
    talk.fetch("from the middle of a batch", key, 1)
    talk.fetch("at the end", key, 6)
    talk.fetch("beyond the end", key, 60)
    talk.fetch("of the same epoch", key, 2, last_epoch=0)
    talk.fetch("of a later epoch", key, 2, last_epoch=7)
    talk.fetch("of that epoch, beyond its end", key, 60, last_epoch=0)
    talk.fetch("of the leader's epoch", key, 2, last_epoch=0, current_epoch=0)
    talk.fetch("of a leader's epoch to come", key, 2, last_epoch=0, current_epoch=1)
    talk.fetch("of both epochs to come", key, 2, last_epoch=1, current_epoch=1)
    session = talk.fetch("a session", key, 0, session=(0, 0))
    talk.fetch("its next step", key, 6, session=(session, 1))
    talk.fetch("a step again", key, 6, session=(session, 1))
    talk.fetch("an unknown session", key, 6, session=(12345, 1))
    if isinstance(key, bytes):
        talk.fetch("an unknown topic id", UUID(int=77).bytes, 0)


def _first_protocol(talk: Conversation, topic: str, key: bytes | str) -> None:
    name, version = "script-2", min(11, talk.produce_version)
    producer = talk.initialize("of transactions", name)
    talk.describe("nothing yet", name)
    talk.add("absent beside present", name, producer, topic, f"{topic}-absent")
    talk.add("a partition", name, producer, topic)
    talk.describe("ongoing", name)
    talk.produce("in a transaction", topic, producer, 0, records=2, transactional_id=name, version=version)
    talk.produce("beside its own transaction", topic, producer, 2, version=version)
    talk.fetch("an open transaction, committed", key, 6, committed=True)
    talk.fetch("an open transaction", key, 6)
    talk.end("commit", name, producer, commits=True)
    talk.describe("committed", name)
    talk.end("commit again", name, producer, commits=True)
    talk.end("abort what is committed", name, producer, commits=False)
    talk.fetch("after the commit", key, 6, committed=True)
    talk.add("a partition again", name, producer, topic)
    talk.produce("to be aborted", topic, producer, 2, transactional_id=name, version=version)
    talk.end("abort", name, producer, commits=False)
    talk.fetch("after the abort", key, 6, committed=True)
    talk.describe("aborted", name)
    talk.end("of an older epoch", name, (producer[0], producer[1] - 1), commits=True)
    talk.end("of nobody", "script-nobody", producer, commits=True)
    _fencing(talk, topic, key, name, producer)


def _fencing(talk: Conversation, topic: str, key: bytes | str, name: str, producer: tuple[int, int]) -> None:
    talk.add("before a fence", name, producer, topic)
    talk.produce("before a fence", topic, producer, 3, transactional_id=name, version=min(11, talk.produce_version))
    talk.initialize("the fence itself", name, once=True)
    newer = talk.initialize("the fence in the end", name)
    talk.produce("the fenced", topic, producer, 4, transactional_id=name, version=min(11, talk.produce_version))
    talk.add("the fenced", name, producer, topic)
    talk.end("the fenced", name, producer, commits=True)
    talk.initialize("the fenced begins again", name, producer)
    talk.fetch("after the fence", key, 6, committed=True)
    talk.add("of its own", name, newer, topic)
    talk.produce("of its own", topic, newer, 0, transactional_id=name, version=min(11, talk.produce_version))
    talk.initialize("its own fence", name, newer, once=True)
    talk.nap(0.3)
    talk.initialize("its own fence in the end", name, newer)
    talk.describe("after its own fence", name)
    _old_holder(talk, topic)


def _old_holder(talk: Conversation, topic: str) -> None:
    """A producer that was fenced asks for a new epoch while its successor's transaction is open."""
    name = "script-4"
    older = talk.initialize("an older holder", name)
    newer = talk.initialize("a newer holder", name)
    talk.add("of the newer holder", name, newer, topic)
    talk.initialize("the older beside an open transaction", name, older, once=True)
    talk.nap(0.3)
    talk.describe("after the older one asked", name)
    talk.initialize("the older again", name, older)
    talk.initialize("the newer after that", name, newer)
    talk.describe("in the end", name)


def _second_protocol(talk: Conversation, topic_id: UUID, key: bytes | str) -> None:
    name = "script-3"
    put = topic_id.bytes
    producer = talk.initialize("of the second protocol", name)
    talk.produce("adds itself", put, producer, 0, records=2, transactional_id=name, version=13)
    talk.describe("ongoing, second protocol", name)
    following = talk.end("commit, second protocol", name, producer, commits=True, version=5)
    talk.end("commit again, second protocol", name, producer, commits=True, version=5)
    talk.produce("of the former epoch", put, producer, 2, transactional_id=name, version=13)
    talk.produce("of the next epoch, out of sequence", put, following, 2, transactional_id=name, version=13)
    talk.produce("of the next epoch", put, following, 0, transactional_id=name, version=13)
    third = talk.end("abort, second protocol", name, following, commits=False, version=5)
    talk.end("commit what is aborted", name, following, commits=True, version=5)
    talk.end("abort nothing", name, third, commits=False, version=5)
    talk.describe("after nothing", name)
    talk.fetch("after the second protocol", key, 6, committed=True)
    fourth = talk.initialize("taken over, second protocol", name)
    talk.produce("open when taken over", put, fourth, 0, transactional_id=name, version=13)
    talk.initialize("the fence, second protocol", name, once=True)
    talk.initialize("the fence in the end, second protocol", name)
    talk.end("the fenced, second protocol", name, fourth, commits=True, version=5)
    talk.produce("the fenced, second protocol", put, fourth, 1, transactional_id=name, version=13)


def widen(batch: memoryview, more: int) -> None:
    """Let a batch span so many offsets more than it has records."""
    header = parse_header(batch, 0)
    struct.pack_into(">i", batch, _LAST_DELTA_AT, header.last_offset_delta + more)
    struct.pack_into(">I", batch, _CRC_AT, crc32c.value(bytes(batch[ATTRIBUTES_AT:])))


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame
