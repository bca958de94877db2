"""The work whose source is compacted: which records are superseded."""

from bench.compaction import keyed_batches
from bench.workloads import Workload

WORK = Workload("k", "small", 120, 100, "lz4", 10, superseded=3, partitions=2)


def test_each_third_key_of_a_partition_is_written_twice_and_batches_take_turns() -> None:
    batches = list(keyed_batches(WORK))
    for partition in range(2):
        keys = [int(record["key"]) for where, batch in batches if where == partition for record in batch]
        assert keys == [*range(60), *range(0, 60, 3)]
    assert [where for where, _ in batches[:4]] == [0, 1, 0, 1]
    assert {len(record["value"]) for _, batch in batches for record in batch} == {100}
