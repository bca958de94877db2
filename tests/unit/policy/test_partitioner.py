"""Java's default partitioner, with the values of Kafka's own tests and of a live MirrorMaker 2."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.policy.partitioner import murmur2, murmur2_partition, murmur2_partitions


@pytest.mark.parametrize(
    ("key", "hashed", "stored_in"),
    [
        (b'["MirrorSourceConnector",{"cluster":"A","partition":3,"topic":"orders"}]', -898334144, 4),
        (b'["MirrorCheckpointConnector",{"partition":3,"topic":"A.orders","group":"grp1"}]', -287029772, 1),
        (b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]', 1162868500, 0),
        (b'["MirrorCheckpointConnector",{"partition":0,"topic":"A.orders","group":"g1"}]', None, 16),
        (b'["MirrorCheckpointConnector",{"partition":1,"topic":"A.orders","group":"g1"}]', None, 5),
        (b'["MirrorCheckpointConnector",{"partition":0,"topic":"A.txn","group":"g2"}]', None, 12),
    ],
)
def test_murmur2_is_kafkas(key: bytes, hashed: int | None, stored_in: int) -> None:
    assert murmur2_partition(key, 25) == stored_in
    if hashed is not None:
        assert murmur2(key) == hashed & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("key", "hashed"),
    # The vectors of Kafka's own UtilsTest.testMurmur2.
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_the_values_kafka_tests_itself_with(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFFFFFF


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(1, 1000))
def test_many_keys_at_once_go_where_each_goes_alone(keys: list[bytes], partitions: int) -> None:
    lengths = np.array([len(key) for key in keys], np.int64)
    starts = np.cumsum(lengths) - lengths
    content = np.frombuffer(b"".join(keys), np.uint8)
    found = murmur2_partitions(content, starts, lengths, partitions)
    assert found.tolist() == [murmur2_partition(key, partitions) for key in keys]
