"""One process per cluster, as MirrorMaker's documentation has it: one of them may have heartbeats to write only."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from tests.oracle import Client, list_topics, read_messages
from tests.scenarios.mirror import StartMirror, flow_file

from sparkmirror.errors import ProtocolError
from sparkmirror.ledger.mirror_records import Heartbeat
from sparkmirror.model import FlowName


@pytest.mark.parametrize("switch", ["true", "false"])
def test_the_process_of_a_cluster_that_nothing_is_mirrored_into_writes_its_heartbeats(
    switch: str, source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    """With the flow enabled and `--clusters` naming its source, and with no flow enabled at all."""
    alias = unique("primary")
    lines = ["heartbeats.topic.replication.factor = 1"]
    text = flow_file(source, target, alias=alias, topics="orders", lines=lines)
    text = text.replace(f"{alias}->backup.enabled = true", f"{alias}->backup.enabled = {switch}")
    mirror = start_mirror(text, "--clusters", alias)
    back = FlowName("backup", alias)
    mirror.wait_until(lambda: back in _beating(source), f"heartbeats of {back} are on {alias}")
    assert not mirror.jvms()
    ended = mirror.stop()
    assert f"only the heartbeats of {back} are written" in ended.errors
    assert FlowName(alias, "backup") not in _beating(target)


def _beating(client: Client) -> set[FlowName]:
    """The pairs of clusters whose heartbeats were written on this cluster itself."""
    found: set[FlowName] = set()
    logs = read_messages(client, "heartbeats") if "heartbeats" in list_topics(client) else []
    for message in (message for _, messages in logs for message in messages):
        with suppress(ProtocolError):
            found.add(Heartbeat.parse(message.key(), message.value()).flow)
    return found
