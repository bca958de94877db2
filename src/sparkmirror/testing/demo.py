"""`sparkmirror demo`: a year of flights, two Kafka clusters on this machine, and a mirror between them.

Called by `cli.demo`. Its parts: `demo_data` and `demo_events` (what is sent), `demo_client` (which sends and reads),
`demo_mirror` (the process that is shown), `demo_board` and `demo_screen` (what is seen), `demo_client` (the proof).
"""

import argparse
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from sparkmirror.errors import EnvironmentProblem, SparkMirrorError
from sparkmirror.testing.demo_board import SENT_AT, Arrivals, Board, Screen, TopicLine
from sparkmirror.testing.demo_client import find_difference, read_to_ends
from sparkmirror.testing.demo_data import fetch_data
from sparkmirror.testing.demo_events import NEW_TOPIC, TOPICS, Event, read_year
from sparkmirror.testing.demo_mirror import MirrorProcess, free_page, render_config, run_verb
from sparkmirror.testing.guard import Guard
from sparkmirror.testing.kafka import KafkaCluster

if TYPE_CHECKING:
    from sparkmirror.testing.demo_client import Client, Producer

RECORDS = 200_000
RECORDS_MAX = 500_000
LIVE_SECONDS = 8.0
LIVE_RECORDS_PER_SECOND = 400
CATCH_UP_SECONDS_MAX = 120.0
LOOK_SECONDS = 0.2
PACE_SECONDS = 0.002
LOAD_LINGER_MS = 50
_GROUP, _READ_TOPIC = "departure-boards", "flights"


def main(argv: Sequence[str]) -> int:
    """Runs the demonstration; 0 when source and target are equal.

    Raises SparkMirrorError when they are not or a part of it fails; nothing is left behind in any case.
    """
    args = _parser().parse_args(argv)
    client = find_client()
    with _terminated_as_interrupted(), Screen() as screen, ExitStack() as cleanup:
        screen.say(
            "Starting two brokers. The first time, a year of flights (9 MB) and Kafka's jars (45 MB) are fetched."
        )
        events = read_year(fetch_data())
        source, target = (cleanup.enter_context(KafkaCluster(name=name)) for name in ("A", "B"))
        screen.say(f"Cluster A listens on {source.bootstrap_servers}, cluster B on {target.bootstrap_servers}.")
        clients = client(source.bootstrap_servers), client(target.bootstrap_servers)
        demonstration = Demonstration(*clients, events, screen, cleanup)
        demonstration.load(args.records)
        demonstration.start_mirror()
        demonstration.catch_up()
        demonstration.live(args.seconds)
        demonstration.rehearse()
        demonstration.stop_mirror()
        demonstration.compare()
    screen.say("Both clusters are stopped and their files removed; nothing is left running.")
    return 0


def find_client() -> "type[Client]":
    """The demo's client. Raises EnvironmentProblem where its package is missing."""
    try:
        from sparkmirror.testing.demo_client import Client
    except ModuleNotFoundError:
        hint = "Install it with `pip install 'sparkmirror[demo]'`."
        raise EnvironmentProblem("The demo sends and reads by confluent-kafka, which is not installed.", hint) from None
    return Client


class Demonstration:
    """The demonstration, step by step. `cleanup` ends everything that must end in any case."""

    def __init__(
        self, source: "Client", target: "Client", events: Iterator[Event], screen: Screen, cleanup: ExitStack
    ) -> None:
        self._source, self._target = source, target
        self._page = free_page()
        self._config = render_config(source.bootstrap_servers, target.bootstrap_servers, self._page)
        self._guard = cleanup.enter_context(Guard(Path(tempfile.mkdtemp(prefix="sparkmirror-demo-"))))
        self._file = self._guard.directory / "mirror.properties"
        self._cleanup = cleanup
        self._events = events
        self._screen = screen
        self._board = Board(self._source, self._target, TOPICS)
        self._new = TopicLine(NEW_TOPIC)
        self._waiting: list[Event] = []
        self._mirror: MirrorProcess | None = None

    def load(self, records: int) -> None:
        """Create the topics of A and send the first `records` events of the year, except those of the new topic."""
        self._source.create_topics(line.spec for line in self._board.lines)
        producers = self._producers(LOAD_LINGER_MS)
        started_at = time.monotonic()
        for event in islice(self._events, records):
            self._send(event, producers)
        for producer in set(producers.values()):
            producer.flush()
        self._board.look()
        count, seconds = self._board.source_records, time.monotonic() - started_at
        self._screen.say(f"{count:,} records of 2013 are on A, sent by {self._source.name} in {seconds:.1f} s.")
        self._source.commit_halves(_READ_TOPIC, _GROUP)
        self._screen.say(f"A consumer group, {_GROUP}, has read half of {_READ_TOPIC} on A.")

    def start_mirror(self) -> None:
        """Write the file and start the mirror on it."""
        self._file.write_text(self._config)
        self._screen.say(f"sparkmirror run {self._file}")
        self._screen.quote(self._config)
        self._screen.say(f"While the mirror runs, its page is at http://{self._page}/")
        self._mirror = MirrorProcess(self._file, self._guard)
        self._cleanup.callback(self._mirror.kill)

    def catch_up(self) -> None:
        """Wait until B has what A had."""
        started_at = time.monotonic()
        self._wait(lambda: self._board.target_records > 0, "the first record is on B")
        first_at = time.monotonic()
        self._wait(lambda: self._board.lag_records == 0, "B has caught up")
        now = time.monotonic()
        self._screen.say(
            f"The first records were on B after {first_at - started_at:.1f} s, "
            f"all {self._board.target_records:,} {now - first_at:.1f} s later."
        )

    def live(self, seconds: float) -> None:
        """The year continues: the producers send records one by one, and after a third of the time a new topic
        appears."""
        self._screen.say(f"The year goes on, {LIVE_RECORDS_PER_SECOND} records a second for {seconds:g} s.")
        arrivals = Arrivals(self._target.reader(), [*self._board.lines, self._new])
        arrivals.start(self._board.target_ends)
        producers = self._producers(linger_ms=0)
        started_at = time.monotonic()
        try:
            self._live_until(started_at + seconds / 3, producers, arrivals)
            self._create_new_topic(producers)
            created_at = time.monotonic()
            self._live_until(created_at + seconds * 2 / 3, producers, arrivals)
            for producer in set(producers.values()):
                producer.flush()
            self._wait(lambda: self._board.lag_records == 0, "B has the live records")
        finally:
            arrivals.stop()

    def rehearse(self) -> None:
        """Shows what a failover would mean now, and whether B has the same records as A, by the commands that a
        person would use."""
        self._screen.hide()
        for verb in (("failover", "drill"), ("verify",)):
            self._screen.say(f"sparkmirror {' '.join(verb)} {self._file}")
            self._screen.quote(run_verb(self._file, self._guard, *verb))

    def stop_mirror(self) -> None:
        assert self._mirror is not None
        self._screen.hide()
        started_at = time.monotonic()
        count = self._mirror.stop()
        seconds = time.monotonic() - started_at
        self._screen.say(f"The mirror was sent SIGTERM and ended in {seconds:.1f} s with status 0, {count} processes.")

    def compare(self) -> None:
        """Reads all records of both clusters. Raises SparkMirrorError at the first difference."""
        self._screen.say(f"Comparing key, value, headers, timestamp and order of each record ({self._target.name}).")
        compared = sum(self._compare(line) for line in self._board.lines)
        self._board.look()
        self._screen.conclude(self._board)
        self._screen.say(f"Source and target are equal: {compared:,} records in {len(self._board.lines)} topics.")

    def _compare(self, line: TopicLine) -> int:
        source = read_to_ends(self._source, self._source.ends([line.spec.name]))
        target = read_to_ends(self._target, self._target.ends([line.remote_name]))
        originals, copies = (
            {partition.partition: records for partition, records in side.items()} for side in (source, target)
        )
        for number in sorted(originals.keys() | copies.keys()):
            difference = find_difference(originals.get(number, []), copies.get(number, []))
            if difference:
                raise SparkMirrorError(f"Source and target are not equal: {line.spec.name}-{number}: {difference}.")
        line.verdict = "equal"
        return sum(map(len, source.values()))

    def _live_until(self, end_at: float, producers: "dict[str, Producer]", arrivals: Arrivals) -> None:
        started_at, sent, look_at = time.monotonic(), 0, 0.0
        while (now := time.monotonic()) < end_at:
            due = int((now - started_at) * LIVE_RECORDS_PER_SECOND) - sent
            for event in islice(self._events, due):
                self._send(_stamped(event), producers)
            sent += due
            if now >= look_at:
                look_at = now + LOOK_SECONDS
                self._look()
                arrivals.add(dict.fromkeys(self._board.target_ends, 0))
            time.sleep(PACE_SECONDS)

    def _create_new_topic(self, producers: "dict[str, Producer]") -> None:
        """Creates the new topic with all events up to now."""
        spec = self._new.spec
        self._source.create_topics([spec])
        self._board.lines.append(self._new)
        producers[spec.name] = self._source.producer(spec.compression, 0)
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            self._send(event, producers)
        self._screen.say(f"A new topic on A: {spec.name}, with {len(waiting):,} records so far.")

    def _send(self, event: Event, producers: "dict[str, Producer]") -> None:
        producer = producers.get(event.topic)
        if producer is None:
            self._waiting.append(event)
        else:
            producer.send(event)

    def _producers(self, linger_ms: int) -> "dict[str, Producer]":
        """A producer for each topic, one per codec; none for topics that do not exist yet."""
        codecs = {line.spec.compression for line in self._board.lines}
        by_codec = {codec: self._source.producer(codec, linger_ms) for codec in codecs}
        return {line.spec.name: by_codec[line.spec.compression] for line in self._board.lines}

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + CATCH_UP_SECONDS_MAX
        self._look()
        while not condition():
            if time.monotonic() > deadline:
                assert self._mirror is not None
                raise SparkMirrorError(
                    f"It took longer than {CATCH_UP_SECONDS_MAX:.0f} s until {what}: {self._board.lag_records:,} "
                    f"records are missing there. {self._mirror.last_words()}"
                )
            time.sleep(LOOK_SECONDS)
            self._look()

    def _look(self) -> None:
        if self._mirror is not None:
            self._mirror.check()
        self._board.look()
        self._screen.show(self._board)


def _stamped(event: Event) -> Event:
    stamp = (SENT_AT, str(time.time_ns()).encode())
    return event._replace(headers=(*event.headers, stamp))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sparkmirror demo",
        description="Starts two Kafka brokers here, mirrors the flights out of New York in 2013 from one to the other, "
        "rehearses a failover, and compares the two. Takes about a minute and leaves nothing behind.",
        epilog=f"Example: sparkmirror demo --records {RECORDS}",
    )
    parser.add_argument("--records", type=_count, default=RECORDS, help=f"how many to begin with (default: {RECORDS})")
    parser.add_argument(
        "--seconds", type=float, default=LIVE_SECONDS, help=f"how long records go on coming (default: {LIVE_SECONDS:g})"
    )
    return parser


def _count(text: str) -> int:
    count = int(text)
    if not 0 < count <= RECORDS_MAX:
        raise argparse.ArgumentTypeError(f"{count} is not between 1 and {RECORDS_MAX}, what the year has")
    return count


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Lets SIGTERM end the demonstration as Ctrl-C does, so that it stops all its processes."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
