"""What a long link carries for a plain socket: one connection that only copies bytes. Called by `bench.plan`."""

import socket
import threading
import time

from bench.copying import Copy
from bench.loading import Batches
from bench.workloads import LINK, Workload
from sparkmirror.testing.proxy import LinkProxy

_CHUNK = bytes(1 << 20)
_SECONDS = 3.0


def measure_socket(workload: Workload, batches: Batches) -> Copy:
    """As many bytes as the link's window allows in a few seconds, counted in records as large as the batches' are."""
    size = int(LINK.window_bytes / LINK.round_trip_seconds * _SECONDS)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        LinkProxy(LINK, [listener.getsockname()[1]]) as proxy,
        socket.create_connection(("127.0.0.1", proxy.ports[0])) as sender,
        listener.accept()[0] as receiver,
    ):
        seconds, cpu_seconds = _carry(sender, receiver, size)
    records = int(size / batches.bytes * batches.records)
    return Copy(records, records * workload.value_bytes / 1e6, seconds, cpu_seconds, 0, 0.0)


def _carry(sender: socket.socket, receiver: socket.socket, size: int) -> tuple[float, float]:
    """Seconds from the first byte that arrives to the last, and CPU seconds of this process."""
    thread = threading.Thread(target=_send, args=(sender, size), daemon=True)
    thread.start()
    memory = bytearray(1 << 20)
    received = receiver.recv_into(memory)
    started_at, cpu_before = time.monotonic(), time.process_time()
    while received < size:
        received += receiver.recv_into(memory)
    seconds = time.monotonic() - started_at
    thread.join()
    return seconds, time.process_time() - cpu_before


def _send(sender: socket.socket, size: int) -> None:
    left = size
    while left:
        left -= sender.send(memoryview(_CHUNK)[:left])
