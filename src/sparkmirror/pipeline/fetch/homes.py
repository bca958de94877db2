"""Takes what a look-up shows of a task's partitions: the broker of each, another log, or why it has none. No I/O;
owned by `pipeline.fetch.reader`.
"""

from collections.abc import Container

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.kafka.wire.leaderless import Leaderless
from sparkmirror.kafka.wire.lookup import ClusterView
from sparkmirror.pipeline.fetch.partitions import PartitionFetchState, Partitions
from sparkmirror.pipeline.fetch.responses import FetchResponseReader
from sparkmirror.pipeline.fetch.topic_ids import TopicIds


class Homes:
    """`response_reader` reports why partitions do not move."""

    def __init__(self, response_reader: FetchResponseReader, clock: Clock = SYSTEM_CLOCK) -> None:
        self._response_reader = response_reader
        self._clock = clock
        self._topic_ids = TopicIds(response_reader, clock)
        self._leaderless = Leaderless()

    def take(self, partitions: Partitions, view: ClusterView, addresses: Container[int]) -> None:
        """Take a look-up's answer. `addresses` are the brokers that can be dialled. Where it has an error for a topic,
        partitions that have a broker stay there: it will have an error too."""
        for fetch_state in partitions:
            where = fetch_state.partition
            if where.topic in view.errors and fetch_state.node is None:
                self._response_reader.back_off(
                    fetch_state, f"the source answers error {view.errors[where.topic]} for topic {where.topic}"
                )
            elif where.topic in view.topic_ids:
                self._topic_ids.settle(fetch_state, view)
                self._look_for_leader(fetch_state, view, addresses)

    def _look_for_leader(self, fetch_state: PartitionFetchState, view: ClusterView, addresses: Container[int]) -> None:
        where = fetch_state.partition
        if fetch_state.node is not None and fetch_state.node not in addresses:
            fetch_state.node = None
        if fetch_state.node is not None or fetch_state.paused or fetch_state.done:
            self._leaderless.found(where)
        elif view.topic_ids[where.topic] == fetch_state.topic_id:
            reason = self._leaderless.missed(where, view, self._clock.monotonic())
            if reason:
                self._response_reader.report([fetch_state], reason)
