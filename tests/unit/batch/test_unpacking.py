"""How much batches may take when they are unpacked."""

import tracemalloc

import pytest
from tests.unit.batch.test_legacy import wrapper_of_nulls

from sparkmirror.batch.codecs import compress
from sparkmirror.batch.header import Codec
from sparkmirror.batch.legacy import MESSAGE_BYTES, decode_messages, decode_some_messages
from sparkmirror.batch.records import decode_records, encode_batch
from sparkmirror.batch.rewrite import Limits, rewrite
from sparkmirror.batch.unpacking import Bound, Unpacking, UnpackingBudget, UnpackingBusy, bound_for
from sparkmirror.errors import ContentTooLarge

MEGABYTE = 1 << 20
LIMITS = Limits(MEGABYTE)


def bomb(first: int, size_bytes: int = 50 * MEGABYTE, codec: Codec = Codec.ZSTD) -> bytes:
    return encode_batch([(None, bytes(size_bytes))], codec, base_offset=first, timestamp=1)


def plain(first: int, count: int = 10, codec: Codec = Codec.ZSTD) -> bytes:
    return encode_batch([(b"k%d" % at, b"value %d" % at) for at in range(count)], codec, first, timestamp=1)


def test_a_batch_may_become_what_is_free_then_so_many_times_its_size_and_never_more_than_the_process_holds() -> None:
    bound = bound_for(128 * MEGABYTE)
    assert bound.of(100) == bound.of(160_000) == 16 * MEGABYTE
    assert bound.of(MEGABYTE) == 100 * MEGABYTE
    assert bound.of(2 * MEGABYTE) == 128 * MEGABYTE


def test_a_process_holds_no_more_than_its_budget_and_a_large_one_gets_its_turn() -> None:
    budget = UnpackingBudget(100)
    large, small, other = Unpacking(budget), Unpacking(budget), Unpacking(budget)
    with small.holding(60):
        with pytest.raises(UnpackingBusy), large.holding(90):
            raise AssertionError("not granted")
        with pytest.raises(UnpackingBusy), other.holding(10):
            raise AssertionError("it is the large one's turn")
        assert budget.held_bytes == 60
    with large.holding(90) as held:
        held.resize(30)
        with other.holding(70):
            assert budget.held_bytes == 100
    assert budget.held_bytes == 0


def test_what_alone_is_more_than_the_budget_is_granted_where_nothing_is_held() -> None:
    budget = UnpackingBudget(100)
    with Unpacking(budget).holding(500):
        assert budget.held_bytes == 500


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_is_not_unpacked_and_what_is_before_it_arrives(codec: Codec) -> None:
    batches = memoryview(plain(0, codec=codec) + bomb(10, 20 * MEGABYTE, codec) + plain(11, codec=codec))
    bound = Bound(128 << 10, 128 * MEGABYTE)
    unpacking = Unpacking()
    taken = []
    with pytest.raises(ContentTooLarge, match="record batch at offset 10, of "):
        for piece in rewrite(batches, 0, LIMITS, unpacking, bound):
            taken += decode_records(bytes(piece.data))
    assert [record.value for record in taken] == [b"value %d" % at for at in range(10)]
    assert unpacking.budget.held_bytes == 0


def test_of_a_bomb_of_250_mib_in_8_kb_no_memory_is_touched() -> None:
    data = memoryview(bomb(0, 250 * MEGABYTE))
    assert len(data) < 10_000
    tracemalloc.start()
    try:
        with pytest.raises(ContentTooLarge):
            list(rewrite(data, 0, LIMITS))
        assert tracemalloc.get_traced_memory()[1] < 4 * MEGABYTE
    finally:
        tracemalloc.stop()


def test_a_partition_that_is_unpacked_holds_its_part_until_its_pieces_are_taken() -> None:
    budget = UnpackingBudget(16 * MEGABYTE)
    first, second = Unpacking(budget), Unpacking(budget)
    data = memoryview(b"".join(plain(at * 1000, 1000, Codec.ZSTD) for at in range(40)))
    pieces = rewrite(data, 0, Limits(20_000), first)
    next(pieces)
    held = budget.held_bytes
    assert 0 < held < MEGABYTE, "what is unpacked, not what was set aside for it"
    budget.held_bytes += 16 * MEGABYTE
    with pytest.raises(UnpackingBusy):
        next(rewrite(data, 0, LIMITS, second))
    budget.held_bytes -= 16 * MEGABYTE
    del pieces
    assert budget.held_bytes == 0


def test_uncompressed_batches_take_nothing() -> None:
    budget = UnpackingBudget(MEGABYTE)
    data = memoryview(encode_batch([(None, bytes(5 * MEGABYTE))], Codec.NONE, 0, timestamp=1))
    pieces = rewrite(data, 0, Limits(8 * MEGABYTE), Unpacking(budget))
    next(pieces)
    assert budget.held_bytes == 0


def test_null_messages_of_old_wrappers_count() -> None:
    wrapper = wrapper_of_nulls(40_000)
    assert len(wrapper) < 120_000
    with pytest.raises(ContentTooLarge, match="hold more than"):
        decode_messages(memoryview(wrapper), 0, len(wrapper), max_bytes=20_000 * MESSAGE_BYTES)
    assert len(decode_messages(memoryview(wrapper), 0, len(wrapper), max_bytes=50_000 * MESSAGE_BYTES)) == 40_000


def test_of_many_old_wrappers_no_more_is_unpacked_than_is_enough() -> None:
    wrapper = wrapper_of_nulls(1000)
    columns, end = decode_some_messages(memoryview(wrapper * 50), Bound(MEGABYTE, MEGABYTE), 3000 * MESSAGE_BYTES)
    assert (len(columns), end) == (3000, 3 * len(wrapper))
    pieces = list(rewrite(memoryview(wrapper * 50), 0, Limits(1000 * MESSAGE_BYTES // 4)))
    assert sum(piece.records for piece in pieces) == 50_000


def test_compressing_is_what_the_other_tests_rely_on() -> None:
    assert len(compress(Codec.ZSTD, bytes(50 * MEGABYTE))) < 2000
