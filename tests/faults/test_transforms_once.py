"""Exactly-once in flows that send records to partitions of their own choosing, while workers and runs are killed."""

import pytest
from tests.faults.numbered import NumberedWriter, create_topic
from tests.faults.story import Story
from tests.faults.test_exactly_once import EXACTLY_ONCE, kill_a_worker, kill_whatever_runs
from tests.oracle import read_messages

from sparkmirror.testing.kafka import KafkaCluster

HEAL_SECONDS_MAX = 30
"""After a killed broker or process."""


def lines_of(story: Story) -> list[str]:
    """Numbers that 5 divides are dead letters, odd ones go elsewhere by chance, those that 7 divides nowhere."""
    number = "cast(substring(cast(value AS string), 1, 11) AS bigint)"
    return [
        *EXACTLY_ONCE,
        f"transforms.where = {number} % 7 <> 0",
        f"transforms.deadletter.when = {number} % 5 = 0",
        f"transforms.deadletter.topic = {story.topic}-dead",
        f"transforms.set.topic = if({number} % 2 = 1, '{story.topic}-odd', target_topic)",
        "transforms.set.partition = cast(rand() * 2 AS int)",
        "transforms.set.key = cast(partition AS string)",
    ]


def assert_once(story: Story, writer: NumberedWriter) -> None:
    """A read_committed consumer sees each record where it belongs, once."""
    client = {"bootstrap.servers": story.target, "isolation.level": "read_committed"}
    seen: dict[str, dict[int, list[int]]] = {}
    for name in (story.remote_topic, f"{story.topic}-odd", f"{story.topic}-dead"):
        numbers = seen[name] = {number: [] for number in range(len(writer.produced))}
        for _, messages in read_messages(client, name):
            for message in messages:
                headers = dict(message.headers() or ())
                origin = headers.get("__connect.errors.partition") or message.key()
                numbers[int(origin)].append(int(message.value()[:11]))
    for source, count in enumerate(writer.produced):
        kept = [number for number in range(count) if number % 7]
        wanted = {
            f"{story.topic}-dead": [number for number in kept if number % 5 == 0],
            f"{story.topic}-odd": [number for number in kept if number % 5 and number % 2],
            story.remote_topic: [number for number in kept if number % 5 and number % 2 == 0],
        }
        for name, due in wanted.items():
            found = seen[name][source]
            repeated, missing = len(found) - len(set(found)), sorted(set(due) - set(found))
            assert sorted(found) == due, (
                f"{name} from {source}: {repeated} came again, {len(missing)} are missing: {missing[:10]}"
            )
    assert story.positions() == writer.produced


@pytest.mark.long
def test_whatever_is_killed_under_load_each_record_comes_once_wherever_it_goes(story: Story) -> None:
    with story.writer() as writer:
        kill_whatever_runs(story, writer, lines_of(story))
    assert_once(story, writer)


@pytest.mark.long
def test_whatever_is_killed_all_that_became_of_a_record_comes_once(story: Story) -> None:
    """Of number n become n % 4 records, one of them in another topic: none comes twice, none is missing."""
    number = "cast(substring(cast(value AS string), 1, 11) AS bigint)"
    lines = [
        *EXACTLY_ONCE,
        f"transforms.explode = slice(array(0, 1, 2), 1, cast({number} % 4 AS int))",
        "transforms.set.key = concat(cast(partition AS string), '-', cast(col AS string))",
        f"transforms.set.topic = if(col = 1, '{story.topic}-middle', target_topic)",
    ]
    with story.writer() as writer:
        kill_whatever_runs(story, writer, lines)
    client = {"bootstrap.servers": story.target, "isolation.level": "read_committed"}
    for topic, pieces in ((story.remote_topic, (0, 2)), (f"{story.topic}-middle", (1,))):
        for source, messages in read_messages(client, topic):
            found = [(int(message.value()[:11]), message.key()) for message in messages]
            assert found == [
                (one, f"{source}-{piece}".encode())
                for one in range(writer.produced[source])
                for piece in pieces
                if piece < one % 4
            ], f"{topic}-{source}"
    assert story.positions() == writer.produced


@pytest.mark.long
@pytest.mark.parametrize("is_once", [True, False])
def test_whatever_is_killed_records_that_stay_where_they_belong_are_all_there(story: Story, is_once: bool) -> None:
    """Those that 7 divides are dropped, of the others the key is set; no lane is needed."""
    number = "cast(substring(cast(value AS string), 1, 11) AS bigint)"
    lines = [*(EXACTLY_ONCE if is_once else ()), f"transforms.where = {number} % 7 <> 0", "transforms.set.key = topic"]
    with story.writer() as writer:
        kill_whatever_runs(story, writer, lines)
    client = {"bootstrap.servers": story.target, "isolation.level": "read_committed"}
    for source, messages in read_messages(client, story.remote_topic):
        found = [int(message.value()[:11]) for message in messages]
        wanted = [one for one in range(writer.produced[source]) if one % 7]
        assert (found if is_once else sorted(set(found))) == wanted, f"partition {source}"
    assert story.positions() == writer.produced


@pytest.mark.long
def test_with_older_transactions_a_killed_worker_and_a_killed_target_repeat_nothing(
    first_protocol_story: Story, first_protocol_target: KafkaCluster
) -> None:
    story = first_protocol_story
    with story.writer() as writer, story.run(lines=lines_of(story)) as run:
        story.wait_until_close(run, writer)
        kill_a_worker(story, run, writing=True)
        first_protocol_target.broker(1).kill()
        first_protocol_target.broker(1).start()
        story.wait_for_flow(run, HEAL_SECONDS_MAX)
        story.wait_for_all(run, writer)
        run.stop(30)
    assert_once(story, writer)


@pytest.mark.long
def test_where_records_are_put_by_key_a_killed_worker_repeats_nothing(story: Story) -> None:
    """A target of three partitions for a source of two; the records have no key, so each run goes to one by chance."""
    create_topic(story.target, story.remote_topic, 3)
    lines = [*EXACTLY_ONCE, "partitioning = key"]
    with story.writer() as writer, story.run(lines=lines) as run:
        story.wait_until_close(run, writer)
        kill_a_worker(story, run, writing=True)
        story.wait_until_passed(run, writer.produced)
        story.wait_for_all(run, writer)
        run.stop(30)
    client = {"bootstrap.servers": story.target, "isolation.level": "read_committed"}
    logs = [log for _, log in read_messages(client, story.remote_topic)]
    assert all(logs), "each partition has some"
    numbers = sorted(int(message.value()[:11]) for log in logs for message in log)
    assert numbers == sorted(number for count in writer.produced for number in range(count))
