"""MirrorMaker's 64-slot store: vectors computed with the classes of connect-mirror 4.3.0."""

from collections.abc import Iterable

import pytest

from sparkmirror.ledger.mirror_records import OffsetSync
from sparkmirror.ledger.syncs import NOT_COVERED, OffsetSyncStore
from sparkmirror.model import TopicPartition

ORDERS = TopicPartition("orders", 0)


def store(syncs: Iterable[tuple[int, int]], *, reading_to_end: bool = False) -> OffsetSyncStore:
    found = OffsetSyncStore(reading_to_end=reading_to_end)
    for upstream, downstream in syncs:
        found.add(OffsetSync(ORDERS, upstream, downstream))
    found.reading_to_end = False
    return found


def same(*offsets: int) -> list[tuple[int, int]]:
    return [(offset, offset) for offset in offsets]


@pytest.mark.parametrize(
    ("found", "answers"),
    [
        (store([(100, 200)]), {99: NOT_COVERED, 100: 200, 150: 201}),
        (store(same(*range(0, 910, 101))), {
            0: 0, 50: 1, 101: 1, 500: 405, 908: 809, 909: 909, 910: 910, 5000: 910,
        }),
        (store(same(*range(21))), {0: 0, 1: 1, 5: 1, 10: 9, 15: 9, 18: 18, 19: 19, 20: 20, 21: 21}),
        (store(same(*range(0, 10001, 100))), {5000: 1, 9000: 8801, 9950: 9901}),
        (store(same(*range(0, 1001, 10)), reading_to_end=True), {999: NOT_COVERED, 1000: 1000, 1001: 1001}),
        (store(same(*range(0, 1001, 10))), {
            479: 1, 480: 480, 719: 481, 720: 720, 989: 961, 990: 990, 999: 991,
        }),
        (store([(0, 0), (1000, 900), (2000, 1800), (1500, 5000)]), {1499: NOT_COVERED, 1500: 5000, 1501: 5001}),
        (store([(0, 0), (100, 100), (200, 10)]), {150: 101, 200: 10, 201: 11}),
    ],
    ids=[f"V{number}" for number in range(1, 9)],
)  # fmt: skip
def test_translations_are_mirrormakers(found: OffsetSyncStore, answers: dict[int, int]) -> None:
    assert {offset: found.translate(ORDERS, offset) for offset in answers} == answers


@pytest.mark.parametrize(
    ("first_round_to_end", "live_from", "boundaries"),
    [
        (True, 1010, (1000, 4840, 6760, 8680, 9160, 9640, 9880, 9940, 9970, 9990, 10000)),
        (False, 1000, (0, 3840, 7680, 8640, 9120, 9600, 9840, 9900, 9960, 9990, 10000)),
    ],
)
def test_which_syncs_are_kept_is_mirrormakers(
    first_round_to_end: bool, live_from: int, boundaries: tuple[int, ...]
) -> None:
    """`OffsetSyncStoreTest.testPastOffsetTranslation`, both ways of starting."""
    found = store(same(*range(0, 1001, 10)), reading_to_end=first_round_to_end)
    for offset in range(live_from, 10001, 10):
        found.add(OffsetSync(ORDERS, offset, offset))
    exact = [offset for offset in range(0, 10001, 10) if found.translate(ORDERS, offset) == offset]
    assert exact == list(boundaries)


def test_a_partition_without_syncs_has_no_translation() -> None:
    assert OffsetSyncStore().translate(ORDERS, 5) is None


@pytest.mark.parametrize("bits", range(1, 62))
def test_equal_steps_drop_at_most_one_sync_at_a_time(bits: int) -> None:
    """`OffsetSyncStoreTest.testConsistentlySpacedSyncs`, up to the limits of 64 bits."""
    found = OffsetSyncStore()
    kept: set[int] = set()
    for number in range(min(64, (1 << 63) // (1 << bits) - 1)):
        found.add(OffsetSync(ORDERS, number << bits, number << bits))
        now = {sync.upstream for sync in found._syncs[ORDERS]}
        assert len(kept - now) <= 1
        kept = now
