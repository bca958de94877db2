"""What cannot keep its offsets is refused at the start, partition by partition and by name; all else goes on."""

import re
import socket
import struct
from collections.abc import Callable
from contextlib import suppress

import pytest
from tests.faults.hollow_answers import HollowProxy
from tests.oracle import Client
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import StartMirror
from tests.scenarios.test_identical_offsets import assert_identical, file_of, spans

from sparkmirror.testing.kafka import KafkaCluster

pytestmark = pytest.mark.long

_DESCRIBE_PRODUCERS = re.compile(rb"(\x00\x3c\x00\x00\x00.\x00?\x00\x3d)\x00\x00\x00\x00", re.DOTALL)
"""In an answer to ApiVersions: its key and its versions, behind those of DescribeCluster."""


def _later_version(found: re.Match[bytes]) -> bytes:
    return found[1] + b"\x00\x09\x00\x09"


class LackingProxy(HollowProxy):
    """Clients that reach a broker through it find no version of DescribeProducers that they know."""

    def _carry(self, inlet: socket.socket, outlet: socket.socket, is_request: bool) -> None:
        if is_request:
            super()._carry(inlet, outlet, is_request)
            return
        with suppress(OSError, struct.error):
            while data := inlet.recv(1 << 16):
                outlet.sendall(_DESCRIBE_PRODUCERS.sub(_later_version, data))
        for sock in (inlet, outlet):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


def test_each_partition_that_cannot_keep_its_offsets_is_named_and_the_others_are_mirrored(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    alias, good, counts, ahead, foreign = map(unique, ("same", "good", "counts", "ahead", "foreign"))
    remotes = {topic: f"{alias}.{topic}" for topic in (good, counts, ahead, foreign)}
    make_topics(source, {good: 1, counts: 2, ahead: 1, foreign: 1})
    make_topics(target, {remotes[counts]: 3, remotes[ahead]: 1, remotes[foreign]: 1})
    for topic in remotes:
        write(source, topic, numbered(0, 10))
    write(target, remotes[ahead], numbered(0, 20))
    write(target, remotes[foreign], numbered(5, 10))
    before = {topic: spans(target, remotes[topic], 1) for topic in (ahead, foreign)}

    ended = start_mirror(file_of(source, target, alias, ",".join(remotes)), "--once").finish()

    assert ended.status != 0
    said = {
        f"{counts}-0": "it has 2 partitions on the source and 3 on the target",
        f"{counts}-1": "it has 2 partitions on the source and 3 on the target",
        f"{ahead}-0": "the target's log ends at offset 20, and its source's at 10",
        f"{foreign}-0": "somebody else has written records to the target from offset 0 on",
    }
    for where, reason in said.items():
        assert re.search(f"{re.escape(where)}[^\n]*{reason}", ended.errors), (where, ended.errors)
    assert_identical(source, target, good, remotes[good], 1)
    assert {topic: spans(target, remotes[topic], 1) for topic in (ahead, foreign)} == before
    assert spans(target, remotes[counts], 3) == {0: (0, 0), 1: (0, 0), 2: (0, 0)}


def test_brokers_that_do_not_describe_producers_are_named_and_what_keeps_no_offsets_is_mirrored(
    source: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    alias, kept, other = map(unique, ("same", "kept", "other"))
    make_topics(source, {kept: 1, other: 1})
    for topic in (kept, other):
        write(source, topic, numbered(0, 10))
    with LackingProxy() as proxy:
        own = {1: {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}}
        with KafkaCluster(name="lacking", broker_config=own) as cluster:
            proxy.server_port = cluster.broker(1).port
            target = {"bootstrap.servers": f"127.0.0.1:{proxy.port}"}
            text = file_of(source, target, alias, f"{kept},{other}", [f"preserve.offsets.topics = {kept}"])
            ended = start_mirror(text, "--once").finish()
            assert re.search(f"{kept}-0[^\n]*is too old for describing producers", ended.errors), ended.errors
            assert "set `preserve.offsets.enabled = false`" in ended.errors
            assert spans(target, f"{alias}.{kept}", 1) == {0: (0, 0)}
            assert spans(target, f"{alias}.{other}", 1) == {0: (0, 10)}
