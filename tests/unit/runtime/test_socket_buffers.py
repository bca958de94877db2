"""What is asked for and what is granted."""

import socket

from sparkmirror.cli.kafka_mirror_maker import granted_bytes


def test_a_small_buffer_is_granted_as_asked_and_an_absurd_one_is_cut() -> None:
    assert granted_bytes(socket.SO_RCVBUF, 65_536) == 65_536
    assert granted_bytes(socket.SO_SNDBUF, 1 << 30) < 1 << 30
