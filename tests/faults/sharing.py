"""What processes that share a flow say of it, for the tests that start several."""

import re

from tests.faults.story import Story
from tests.faults.tree import Run

from sparkmirror.control.commands import Share, decode_command
from sparkmirror.kafka.clients import open_admin, open_tail
from sparkmirror.kafka.membership import list_peers
from sparkmirror.ledger.topics import SHARING_GROUP, ledger_topics
from sparkmirror.model import Cluster, TopicPartition

_RUNS = re.compile(r"this process runs tasks ([\d, ]+|none) of \d+")


def tasks_of(run: Run) -> set[int]:
    """What the process has last said that it runs."""
    said = _RUNS.findall(run.errors)
    return {int(task) for task in said[-1].split(", ")} if said and said[-1] != "none" else set()


def wait_until_shared(one: Run, other: Run) -> None:
    """Until each runs one of two tasks."""
    other.wait_until(
        lambda: are_shared(one, other),
        "each process runs one of two tasks",
        120,
    )


def are_shared(one: Run, other: Run) -> bool:
    """Whether each has last said that it runs one of two tasks."""
    return len(tasks_of(one)) == len(tasks_of(other)) == 1 and tasks_of(one) != tasks_of(other)


def last_share(story: Story) -> Share:
    """What the last process that was given tasks was told."""
    commands = TopicPartition(ledger_topics(story.alias).commands, 0)
    with open_tail(Cluster("backup", {"bootstrap.servers": story.target}), "test", [commands]) as tail:
        said = [decode_command(record.value) for record in tail.read_to_end()]
    return [one for one in said if isinstance(one, Share) and one.tasks][-1]


def members(story: Story) -> set[str]:
    """The ids of the processes that the group knows."""
    with open_admin(Cluster("backup", {"bootstrap.servers": story.target}), "test") as admin:
        return {peer.member_id for peer in list_peers(admin, SHARING_GROUP)}
