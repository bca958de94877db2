"""The ring between a reader and a writer: regions never overlap, memory comes back only when all of it is given back.

The peer of most tests lives in this process; one test runs it in a child, as Spark does (invariants 6 and 9).
"""

import contextlib
import os
import select
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sparkmirror.pipeline.relay.private_memory import PrivateMemory
from sparkmirror.pipeline.relay.ring import (
    RING_BYTES_MIN,
    Ring,
    RingAddress,
    RingPeer,
    SlotOrder,
    slot_count,
)

RING_BYTES = RING_BYTES_MIN
COMPLETIONS_MAX = 8192
_FIRST_SLOT = 64 + COMPLETIONS_MAX


def is_woken(ring: Ring) -> bool:
    return bool(select.select([ring.wake_reader], [], [], 0)[0])


class Lending(RuleBasedStateMachine):
    """A reader that reserves, fills and lends, and a writer that gives back in any order, against plain bookkeeping."""

    def __init__(self) -> None:
        super().__init__()
        self.ring = Ring(RING_BYTES)
        self.peer = RingPeer(self.ring.address)
        self.held: dict[int, int] = {}
        self.filling: list[int] = []
        self.leases: dict[int, tuple[int, int]] = {}
        self.published: set[int] = set()

    @rule(size=st.integers(1, RING_BYTES // 2) | st.just(RING_BYTES))
    def reserve(self, size: int) -> None:
        start = self.ring.reserve(size)
        if start is None:
            assert self.held, "an empty ring has room for anything up to its size"
            return
        self.held[start] = size
        self.filling.append(start)
        self.ring.slice(start, size)[:] = bytes([start % 251]) * size

    @precondition(lambda self: self.filling)
    @rule(data=st.data())
    def lend(self, data: st.DataObject) -> None:
        start = self.filling.pop(data.draw(st.integers(0, len(self.filling) - 1)))
        size = self.held[start]
        cuts = sorted(data.draw(st.sets(st.integers(0, size - 1), max_size=3)))
        leases = [start + cut for cut in cuts]
        self.ring.lend(start, leases)
        for lease, end in pairwise([*leases, start + size]):
            self.leases[lease] = (start, end - lease)
        if not leases:
            del self.held[start]

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        lease = data.draw(st.sampled_from(sorted(self.leases)))
        start, size = self.leases.pop(lease)
        assert bytes(self.peer.slice(lease, size)) == bytes([start % 251]) * size, "nobody wrote over it meanwhile"
        self.peer.give_back(lease)
        self.published.add(start)

    @rule()
    def publish_and_collect(self) -> None:
        self.peer.publish()
        self.ring.collect()
        for start in self.published:
            if start not in self.filling and not any(owner == start for owner, _ in self.leases.values()):
                del self.held[start]
        self.published = {start for start in self.published if start in self.held}

    @invariant()
    def live_regions_do_not_overlap(self) -> None:
        spans = sorted((start % RING_BYTES, start % RING_BYTES + size) for start, size in self.held.items())
        assert all(stop <= following for (_, stop), (following, _) in pairwise(spans))
        assert all(stop <= RING_BYTES for _, stop in spans), "a region is contiguous"

    def teardown(self) -> None:
        for start in self.filling:
            self.ring.lend(start, [])
        for lease in self.leases:
            self.peer.give_back(lease)
        self.peer.publish()
        self.ring.collect()
        assert self.ring.reserve(RING_BYTES) is not None, "everything came back"
        self.peer.close()
        self.ring.close()


Lending.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestLending = Lending.TestCase


def test_a_region_comes_back_with_its_last_lease_and_not_before(ring: Ring, peer: RingPeer) -> None:
    region = ring.reserve(RING_BYTES)
    assert region is not None
    ring.lend(region, [region, region + 100])
    for lease, room in ((region + 100, False), (region, True)):
        peer.give_back(lease)
        ring.collect()
        assert ring.reserve(1) is None, "not published yet"
        peer.publish()
        ring.collect()
        if room:
            assert ring.reserve(1) is not None


def test_more_completions_than_the_queue_holds_wait_in_the_writer(ring: Ring, peer: RingPeer) -> None:
    count = COMPLETIONS_MAX + 100
    region = ring.reserve(RING_BYTES)
    assert region is not None
    leases = list(range(region, region + count))
    ring.lend(region, leases)
    for lease in reversed(leases):
        peer.give_back(lease)
    peer.publish()
    peer.publish()
    ring.collect()
    assert ring.reserve(1) is None, "a hundred are still to come"
    peer.publish()
    ring.collect()
    assert ring.reserve(1) is not None


def test_a_waiting_reader_is_woken_and_others_are_left_alone(ring: Ring, peer: RingPeer) -> None:
    region = ring.reserve(10)
    assert region is not None
    ring.lend(region, [region, region + 1])
    peer.give_back(region)
    peer.publish()
    assert not is_woken(ring)
    ring.set_waiting(True)
    peer.give_back(region + 1)
    peer.publish()
    assert is_woken(ring)
    ring.drain_wake()
    assert not is_woken(ring)
    ring.wake()
    assert is_woken(ring)


def test_orders_arrive_once_the_last_of_each_slot(ring: Ring, peer: RingPeer) -> None:
    slots = range(10)
    assert ring.slot_orders(slots) == []
    peer.order(3, paused=True, offset=100, turns=3)
    peer.order(7, paused=False, offset=1 << 40, turns=3)
    assert is_woken(ring)
    assert ring.slot_orders(slots) == [SlotOrder(3, True, 100, 3), SlotOrder(7, False, 1 << 40, 3)]
    assert ring.slot_orders(slots) == []
    peer.order(3, paused=True, offset=100, turns=3)
    peer.order(3, paused=False, offset=90, turns=3)
    assert ring.slot_orders(slots) == [SlotOrder(3, False, 90, 3)]
    peer.order(3, paused=False, offset=90, turns=3)
    assert ring.slot_orders(slots) == [SlotOrder(3, False, 90, 3)], "the same order again is an order again"
    peer.order(slot_count() - 1, paused=True, offset=5, turns=3)
    assert ring.slot_orders(range(slot_count())) == [SlotOrder(slot_count() - 1, True, 5, 3)]


class Watched:
    """The words of a control page; notes what is read and written of the first slot, and of the count of changes."""

    _NAMES: Final = {6: "changes", _FIRST_SLOT: "count"} | dict.fromkeys(
        range(_FIRST_SLOT + 1, _FIRST_SLOT + 5), "place"
    )

    def __init__(self, words: memoryview, seen: list[str]) -> None:
        self._words, self._seen = words, seen

    def __getitem__(self, at: int) -> int:
        self._note(f"read {self._NAMES.get(at, '')}")
        return int(self._words[at])

    def __setitem__(self, at: int, value: int) -> None:
        self._note(f"write {self._NAMES.get(at, '')}")
        self._words[at] = value

    def _note(self, what: str) -> None:
        if what[-1] != " " and self._seen[-1:] != [what]:
            self._seen.append(what)

    def release(self) -> None:
        self._words.release()


def test_a_processor_that_does_not_keep_order_takes_no_half_order(
    ring: Ring, peer: RingPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ARM may show the count before what it counts, and read what it counts before the count."""
    seen: list[str] = []
    monkeypatch.setattr("sparkmirror.pipeline.relay.ring.fence", lambda: seen.append("fence"))
    for side in (ring, peer):
        monkeypatch.setattr(side, "_words", Watched(side._words, seen))
    peer.order(0, paused=True, offset=100, turns=3)
    written = [what for what in seen if not what.startswith("read")]
    assert written == ["write place", "fence", "write count", "fence", "write changes"]
    seen.clear()
    assert ring.slot_orders(range(1)) == [SlotOrder(0, True, 100, 3)]
    assert seen == ["read changes", "fence", "read count", "fence", "read place", "fence", "read count"]


def test_inline_payload_is_counted_on_both_sides(ring: Ring, peer: RingPeer) -> None:
    ring.note_inline(1000)
    ring.note_inline(500)
    peer.free_inline(1000)
    assert ring.inline_outstanding_bytes == 500


def test_a_writers_failure_reaches_the_reader(ring: Ring) -> None:
    assert ring.peer == 0
    peer = RingPeer(ring.address)
    assert ring.peer == os.getpid()
    assert not ring.peer_failed
    peer.fail()
    assert ring.peer_failed
    assert is_woken(ring)
    peer.close()


CHILD = """
import sys
from sparkmirror.pipeline.relay.ring import RingAddress, RingPeer
address = RingAddress(*map(int, sys.argv[1:7]))
lease, size = int(sys.argv[7]), int(sys.argv[8])
peer = RingPeer(address)
sys.stdout.write(bytes(peer.slice(lease, size)).decode())
peer.give_back(lease)
peer.order(2, paused=True, offset=77, turns=3)
peer.publish()
peer.close()
"""


def test_a_writer_in_another_process_reads_what_the_reader_received() -> None:
    ring = Ring(RING_BYTES)
    first = ring.reserve(RING_BYTES - 10)
    assert first is not None
    ring.lend(first, [])
    region = ring.reserve(100)
    assert region is not None
    ring.slice(region, 5)[:] = b"hello"
    ring.lend(region, [region])
    arguments = [str(number) for number in (*ring.address, region, 5)]
    child = subprocess.Popen([sys.executable, "-c", CHILD, *arguments], stdout=subprocess.PIPE)
    output, _ = child.communicate(timeout=60)
    assert (child.returncode, output) == (0, b"hello")
    assert ring.peer == child.pid
    ring.collect()
    assert ring.reserve(RING_BYTES) is not None
    assert ring.slot_orders(range(5)) == [SlotOrder(2, True, 77, 3)]
    ring.close()


LIMITED = """
import resource
from sparkmirror.pipeline.relay.ring import Ring, RingPeer
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
ring = Ring(64 << 20)
ring.data[:] = b"x" * ring.ring_bytes
peer = RingPeer(ring.address)
peer.order(0, paused=True, offset=1, turns=3)
print(ring.ring_bytes, len(ring.slot_orders(range(1))), ring.reserve(1))
"""


@pytest.mark.parametrize(("limit", "ring_bytes", "first_region"), [(24 << 20, 16 << 20, "0"), (1 << 20, 0, "None")])
def test_where_memory_is_short_the_ring_is_smaller_or_none_and_every_page_is_there(
    limit: int, ring_bytes: int, first_region: str
) -> None:
    """`posix_fallocate` fails before a page is missing: SIGBUS would kill the process with signal 7."""
    code = LIMITED.format(limit=limit)
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)
    assert child.returncode == 0, child.stderr.decode()
    assert child.stdout.decode().split() == [str(ring_bytes), "1", first_region]


def test_a_number_that_is_no_ring_any_more_is_an_oserror(ring: Ring, tmp_path: Path) -> None:
    """The writer then takes payload through Spark: process and descriptor numbers are used again."""
    small = tmp_path / "small"
    small.write_bytes(b"x")
    large = tmp_path / "large"
    large.write_bytes(bytes(4 << 20))
    for path in (small, large):
        descriptor = os.open(path, os.O_RDWR)
        with contextlib.closing(os.fdopen(descriptor, "rb")), pytest.raises(OSError, match="ring"):
            RingPeer(ring.address._replace(memory=descriptor))
    with pytest.raises(OSError):
        RingPeer(RingAddress(2**22 - 1, 3, 4, 5, RING_BYTES))
    with pytest.raises(OSError):
        RingPeer(ring.address._replace(memory=ring.address.wake))


def test_another_ring_under_the_number_of_one_that_was_closed_is_not_taken_for_it() -> None:
    """A worker of Spark's runs a task after the other. What its next reader announces is of other partitions."""
    with contextlib.closing(Ring(RING_BYTES)) as former:
        address = former.address
    with contextlib.closing(Ring(RING_BYTES)) as ring:
        assert ring.address.memory == address.memory, "numbers are used again"
        with pytest.raises(FileNotFoundError, match="another ring"):
            RingPeer(address)
        RingPeer(ring.address).close()


def test_memory_is_gone_when_both_sides_have_closed_it() -> None:
    before, mapped_before = len(list(Path("/proc/self/fd").iterdir())), mapped_rings()
    ring = Ring(RING_BYTES)
    peer = RingPeer(ring.address)
    peer.close()
    ring.close()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before, "what other tests left may go at any time"
    assert mapped_rings() <= mapped_before


def mapped_rings() -> set[str]:
    """The inodes of the rings that this process has mapped."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.split()[4] for line in lines if "sparkmirror-ring" in line}


def test_private_memory_has_no_room_and_says_so() -> None:
    memory = PrivateMemory()
    assert memory.ring_bytes == 0
    for misuse in (lambda: memory.reserve(1), lambda: memory.slice(0, 1), lambda: memory.lend(0, [])):
        with pytest.raises(AssertionError):
            misuse()


def test_the_reader_knows_how_many_batches_are_on_their_way_where_the_writer_counts_them(ring: Ring) -> None:
    ring.note_given()
    ring.note_given()
    assert ring.untaken == 0, "this writer may be one that does not count"
    peer = RingPeer(ring.address)
    peer.note_taken(1)
    assert ring.untaken == 1
    peer.note_taken(1)
    assert ring.untaken == 0
    peer.close()
