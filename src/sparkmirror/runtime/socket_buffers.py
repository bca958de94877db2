"""What the operating system grants of a socket buffer that a file asks for. Called by `cli.kafka_mirror_maker`."""

import socket
import sys
from collections.abc import Iterable, Iterator

from sparkmirror.config.flow.flows import FlowConfig

_LIMITS = {socket.SO_RCVBUF: "net.core.rmem_max", socket.SO_SNDBUF: "net.core.wmem_max"}


def granted_bytes(option: int, wanted_bytes: int) -> int:
    """The size that a new TCP socket gets for SO_RCVBUF or SO_SNDBUF. Linux reports the double, for its own records."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, option, wanted_bytes)
        granted = probe.getsockopt(socket.SOL_SOCKET, option)
    return granted // 2 if sys.platform == "linux" else granted


def describe_buffers(flows: Iterable[FlowConfig]) -> list[str]:
    """A sentence for each buffer that is asked for: the size that this machine grants."""
    return list(dict.fromkeys(sentence for flow in flows for sentence in _of_flow(flow)))


def _of_flow(flow: FlowConfig) -> Iterator[str]:
    for option, name, alias, wanted in (
        (socket.SO_RCVBUF, "receive.buffer.bytes", flow.name.source, flow.consumer.receive_buffer_bytes),
        (socket.SO_SNDBUF, "send.buffer.bytes", flow.name.target, flow.producer.send_buffer_bytes),
    ):
        if wanted > 0:
            granted = granted_bytes(option, wanted)
            less = f"; raise {_LIMITS[option]} for more" if granted < wanted else ""
            yield f"{alias}: {name} is {wanted}, the system grants {granted} bytes{less}"
