"""As `one_task`, with records that go to several partitions and topics: what a flow with transforms sends."""

from collections.abc import Callable, Collection, Iterable, Sequence

from tests.faults.one_task import Mirrored, OneTask, Place
from tests.oracle import read_topic

from sparkmirror.batch.piece import Piece, Span
from sparkmirror.batch.records import encode_batch
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.delivery import Bundle, Delivery

Route = Callable[[TopicPartition, int], TopicPartition | None]
"""Where a record of a source partition goes; None where it is dropped."""


class RoutedTask(OneTask):
    """`route` is asked again for what is read again, and may then answer otherwise. A record has its number as value,
    behind `filler` bytes, and its source partition as key."""

    route: Route
    filler_bytes = 0

    def _run(self, partition: int, place: Place, following: int) -> Bundle:
        run: Delivery = self._delivery(partition, place, following, memoryview(b""))
        source = TopicPartition(self._flow.topic, partition)
        routed: dict[TopicPartition, list[int]] = {}
        for number in range(place.at, following):
            target = self.route(source, number)
            if target is not None:
                routed.setdefault(target, []).append(number)
        pieces = tuple((target, self._piece(partition, numbers)) for target, numbers in routed.items())
        return Bundle(run, 100, pieces)

    def _piece(self, partition: int, numbers: Sequence[int]) -> Piece:
        filler = b"." * self.filler_bytes
        data = encode_batch([(b"%d" % partition, b"%011d " % number + filler) for number in numbers])
        return Piece(bytearray(data), tuple(Span(number, 1) for number in numbers), len(numbers))


def assert_once(flow: Mirrored, topics: Iterable[str], ends: Sequence[int], dropped: Collection[int] = ()) -> None:
    """A read_committed consumer sees each record once, in the order of its source in each partition."""
    client = {"bootstrap.servers": flow.servers, "isolation.level": "read_committed"}
    seen: dict[int, list[int]] = {number: [] for number in range(len(ends))}
    for topic in topics:
        for where, log in read_topic(client, topic).items():
            here: dict[int, int] = {}
            for record in log:
                source, number = int(record.key or b""), int((record.value or b"")[:11])
                assert number > here.get(source, -1), f"{topic}-{where}: {number} follows {here[source]}"
                here[source] = number
                seen[source].append(number)
    for source, numbers in seen.items():
        wanted = [number for number in range(ends[source]) if number not in dropped]
        repeated = len(numbers) - len(set(numbers))
        missing = sorted(set(wanted) - set(numbers))
        assert sorted(numbers) == wanted, f"partition {source}: {repeated} came again, missing are {missing[:10]}"
