"""Several values of one key in Connect's offsets topic: which is the newest."""

from sparkmirror.kafka.tail import TailRecord
from sparkmirror.ledger.copies import HEADER, Copies, Mark, choose
from sparkmirror.model import TopicPartition

KEY = b'["MirrorSourceConnector",{}]'
HOME = 5


def copy(at: int, value: bytes | None, mark: Mark | None = None, at_ms: int = -1) -> TailRecord:
    headers = () if mark is None else ((HEADER, mark.header()[1]),)
    return TailRecord(TopicPartition("offsets", at), 0, at_ms, KEY, value, headers)


def chosen(*copies: TailRecord) -> tuple[bytes | None, bool]:
    newest, is_certain = choose({one.partition.partition: one for one in copies}, HOME)
    return newest.value, is_certain


def test_ours_are_in_the_order_of_generation_and_sequence_wherever_they_lie() -> None:
    assert chosen(copy(1, b"old", Mark(4, 99)), copy(HOME, b"new", Mark(5, 1))) == (b"new", True)
    late = copy(1, b"by a process that did not know of the new partitions", Mark(5, 2))
    assert chosen(late, copy(HOME, b"new", Mark(5, 1))) == (late.value, True)


def test_where_connect_alone_wrote_the_time_decides_and_that_is_no_certainty() -> None:
    assert chosen(copy(1, b"new", at_ms=7), copy(HOME, b"old", at_ms=6)) == (b"new", False)
    assert chosen(copy(1, b"old"), copy(HOME, b"new")) == (b"new", False), "without times, where it belongs now"
    assert chosen(copy(1, b"old", at_ms=6), copy(HOME, None, at_ms=7)) == (None, False), "a position taken away"


def test_connects_beside_ours_counts_where_the_key_belongs_now() -> None:
    assert chosen(copy(1, b"ours", Mark(4, 1)), copy(HOME, b"mm2", at_ms=7)) == (b"mm2", False)
    assert chosen(copy(1, b"mm2", at_ms=7), copy(HOME, b"ours", Mark(4, 1))) == (b"ours", False)


def test_a_mark_is_read_as_it_was_written_and_what_is_none_is_not() -> None:
    name, value = Mark(7, 12).header()
    assert Mark.read([("other", b"1.2"), (name.decode(), value)]) == Mark(7, 12)
    for strange in (None, b"", b"7", b"7.", b"x.1", b"-1.2", b"1." + b"9" * 5000):
        assert Mark.read([(HEADER, strange)]) is None


def test_a_key_in_one_partition_is_never_in_doubt() -> None:
    copies = Copies({}, set())
    first, second = copy(1, b"1", at_ms=6), copy(1, b"2", at_ms=3)
    assert (copies.take(first, 8), copies.take(second, 8), copies.doubtful) == (first, second, set())
