"""A second opinion on what a log holds: kafka-python, which shares no code with librdkafka.

librdkafka (2.16) may leave records out when leaders change. A fetch that is answered while a position is validated
(KIP-320) moves that position; if metadata come again before the answer about the older epoch, that answer passes for a
truncation: what was fetched and not consumed yet is dropped, and reading goes on where that epoch ends. So it is in
its source (`rd_kafka_toppar_leader_update`, `rd_kafka_toppar_handle_OffsetForLeaderEpoch`), so it did against a broker
that answers in that order, and so a test at a load of 45 began to read at record 3,680.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Final

from kafka import KafkaConsumer
from kafka import TopicPartition as Partition

_NAMES: Final = {
    "bootstrap.servers": "bootstrap_servers",
    "isolation.level": "isolation_level",
    "security.protocol": "security_protocol",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
}

Hole = tuple[int, int]
"""Offsets that were not read: the first, and the one behind the last."""


def find_left_out(
    client: Mapping[str, str],
    topic: str,
    partition: int,
    holes: Sequence[Hole],
    *,
    seconds_max: float,
) -> list[int]:
    """Offsets within `holes`, which are in order, at which the log has records after all.

    `client` is librdkafka's properties. What the log has deleted meanwhile is not left out. Fails when the log cannot
    be read over the holes in time.
    """
    if not holes:
        return []
    end = holes[-1][1]
    consumer = KafkaConsumer(
        group_id=None, auto_offset_reset="none", **{_NAMES[name]: value for name, value in client.items()}
    )
    at = Partition(topic, partition)
    found: list[int] = []
    deadline = time.monotonic() + seconds_max
    try:
        consumer.assign([at])
        consumer.seek(at, max(holes[0][0], consumer.beginning_offsets([at])[at]))
        while (position := consumer.position(at)) < end:
            assert time.monotonic() < deadline, f"{topic}-{partition}: at {position} of {end} after {seconds_max:g} s"
            records = consumer.poll(timeout_ms=500).get(at, [])
            found += [record.offset for record in records]
    finally:
        consumer.close()
    return [offset for offset in found if any(first <= offset < behind for first, behind in holes)]
