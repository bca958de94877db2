"""The bytes of each kind of status record: other programs and other versions read them."""

import pytest

from sparkmirror.telemetry.brakes import OWN_LIMITS
from sparkmirror.telemetry.filling import Filling
from sparkmirror.telemetry.histogram import Histogram
from sparkmirror.telemetry.history import Event, Failing, HistoryRecord, Sample, Waiting
from sparkmirror.telemetry.records import (
    NO_TASK,
    AcknowledgedRecord,
    CanaryState,
    FlowRecord,
    FlowState,
    JobRecord,
    JobState,
    PartitionRecord,
    PartitionState,
    Spread,
    StatusRecord,
    TaskRecord,
    VerifyRecord,
    encode_record,
    parse_record,
)

AT_MS = 1_700_000_000_000
LATER_MS = 1_800_000_000_000
SEEN = Histogram()
SEEN.add(20, 3)
BOTH: tuple[tuple[StatusRecord, bytes, bytes], ...] = (
    (
        FlowRecord(
            "run-1", FlowState.RESTARTING, "no space left", LATER_MS, "0.1.0", "mirror-1", 4711, AT_MS, "d1", 2, 300,
            12000,
        ),
        b'["flow","east","mirror-1:4711"]',
        b'{"run":"run-1","state":"RESTARTING","reason":"no space left","retry_at_ms":1800000000000,"version":"0.1.0",'
        b'"host":"mirror-1","pid":4711,"started_at_ms":1700000000000,"digest":"d1","restarts":2,"records":300,'
        b'"bytes":12000,"is_copied":false}',
    ),
    (
        TaskRecord(
            "run", 0, 1, 3, 100, 2, 77, 1, 298, LATER_MS, None, 0.7, 0, 1, failed={"orders-0": "too large"},
            retry_at_ms={"orders-0": LATER_MS}, paused=("orders-1",), cpu_seconds=2.5, sizing="1 of at most 2: calm",
            siblings=(0, 1),
            held_by=(OWN_LIMITS,), latency=SEEN, generation=5,
        ),
        b'["task","east",0]',
        b'{"run":"run","task":0,"epoch":1,"producer_epoch":3,"beat":100,"records":2,"bytes":77,"batches":1,'
        b'"lag_records":298,"behind_since_ms":1800000000000,"stalled_since_ms":null,"records_per_second":0.7,'
        b'"unknown_ends":0,"partitions":1,"retries":0,"duplicates":0,"gaps":0,"lost_records":0,"refused_gaps":0,'
        b'"throttled_ms":0,"source_throttled_ms":0,"limited_ms":0,"lease_bytes":0,"failed":{"orders-0":"too large"},'
        b'"retry_at_ms":{"orders-0":1800000000000},"paused":["orders-1"],"faults":{},"problem":"",'
        b'"cpu_seconds":2.5,"sizing":"1 of at most 2: calm","siblings":[0,1],"held_by":["its rate limits"],'
        b'"latency":{"ms":60,"n":{"18":3}},"transit":{"ms":0,"n":{}},"recent_latency":{"ms":0,"n":{}},'
        b'"recent_transit":{"ms":0,"n":{}},"generation":5}',
    ),
    (
        PartitionRecord(
            "orders", 3, "run", 0, 1, 3, PartitionState.FAILED, "too large", LATER_MS, "A.orders", 2, 300, AT_MS, 2, 77,
            1.0, 38.5, Spread(50.5, 50.5, 50.5, 50.5), Spread(1.5),
        ),
        b'["partition","east","orders",3]',
        b'{"run":"run","task":0,"epoch":1,"producer_epoch":3,"state":"FAILED","reason":"too large",'
        b'"retry_at_ms":1800000000000,"target_topic":"A.orders","offset":2,"end":300,"behind_since_ms":1700000000000,'
        b'"records":2,"bytes":77,"records_per_second":1.0,"bytes_per_second":38.5,"age":[50.5,50.5,50.5,50.5],'
        b'"latency":[1.5,null,null,null],"keeps_offsets":false,"filling":null}',
    ),
    (
        PartitionRecord(
            "orders", 3, "run", NO_TASK, 0, offset=900, end=950, filling=Filling(True, 0, 900, 600, 12.5),
        ),
        b'["partition","east","orders",3]',
        b'{"run":"run","task":-1,"epoch":0,"producer_epoch":-1,"state":"RUNNING","reason":"","retry_at_ms":null,'
        b'"target_topic":"","offset":900,"end":950,"behind_since_ms":null,"records":0,"bytes":0,'
        b'"records_per_second":0.0,"bytes_per_second":0.0,"age":[0.0,null,null,null],"latency":[0.0,null,null,null],'
        b'"keeps_offsets":false,"filling":[true,0,900,600,12.5]}',
    ),
    (
        JobRecord("topics", "run-1", JobState.FAILED, "refused", 7, 2, 0.25, AT_MS, LATER_MS, AT_MS),
        b'["job","east","topics"]',
        b'{"name":"topics","run":"run-1","state":"FAILED","reason":"refused","rounds":7,"failures":2,'
        b'"cost_seconds":0.25,"last_at_ms":1700000000000,"next_at_ms":1800000000000,"failing_since_ms":1700000000000}',
    ),
    (
        VerifyRecord("different", 300, 1, 0.2, 5.0, "orders-0 at 7", AT_MS, 3, 1, 900),
        b'["verify","east"]',
        b'{"verdict":"different","records":300,"differences":1,"seconds":0.2,"sample_percent":5.0,'
        b'"first_difference":"orders-0 at 7","different_at_ms":1700000000000,"rounds":3,"rounds_different":1,'
        b'"records_in_all":900}',
    ),
    (
        CanaryState("run-1", 9, 8, 1, AT_MS, SEEN, 0.25, None),
        b'["canary","east"]',
        b'{"run":"run-1","sent":9,"arrived":8,"lost":1,"oldest_sent_ms":1700000000000,'
        b'"latency":{"ms":60,"n":{"18":3}},"source_skew_seconds":0.25,"target_skew_seconds":null}',
    ),
    (
        HistoryRecord(
            (Event(AT_MS, "failed", "orders-0", 2),), (Failing("orders", 0, AT_MS, 7, "too large"),), (AT_MS,),
            (Sample(AT_MS, 50, None),), (Waiting("orders", 1, AT_MS, "refused"),),
        ),
        b'["history","east"]',
        b'{"events":[{"at_ms":1700000000000,"kind":"failed","text":"orders-0","times":2}],"failing":[{"topic":"orders",'
        b'"partition":0,"since_ms":1700000000000,"offset":7,"reason":"too large"}],"restarts":[1700000000000],'
        b'"samples":[[1700000000000,50,null]],'
        b'"waiting":[{"topic":"orders","partition":1,"since_ms":1700000000000,"reason":"refused"}]}',
    ),
    (
        AcknowledgedRecord("orders", 3, 5, 9, "id", AT_MS, "me"),
        b'["acknowledged","east","orders",3,5,9,"id"]',
        b'{"found_at_ms":1700000000000,"by":"me"}',
    ),
)  # fmt: skip


@pytest.mark.parametrize(("record", "key", "value"), BOTH, ids=lambda one: type(one).__name__)
def test_a_status_record_keeps_its_bytes_and_is_read_back(record: StatusRecord, key: bytes, value: bytes) -> None:
    assert encode_record("east", record) == (key, value)
    assert _told(parse_record(key, value, "east")) == _told(record)
    assert parse_record(key, value, "west") is None, "it is another flow's"
    assert parse_record(key[:-1] + b',"more"]', value, "east") is None, "a later version's"


def _told(record: StatusRecord | None) -> tuple[bytes, bytes] | None:
    """Histograms compare by identity, so records are compared as they are written."""
    return None if record is None else encode_record("east", record)
