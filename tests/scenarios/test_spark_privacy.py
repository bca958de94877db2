"""What another user of the machine meets who looks at a mirror's processes: nothing to read, and nobody who listens."""

import json
import os
import socket
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import psutil
from tests.oracle import Client, count_records
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import Mirror, StartMirror, flow_file

from sparkmirror.testing.ports import PortReservation

OTHERS = 0o077
RPC_REQUEST = 3
RPC_FAILURE = 4
ANSWER_SECONDS_MAX = 10.0


def open_umask() -> None:
    """What a shell may have, and a service often has."""
    os.umask(0)


def sockets_of(mirror: Mirror) -> set[Path]:
    """The Unix domain sockets that its processes have bound to a file."""
    found: set[Path] = set()
    for process in mirror.processes():
        with suppress(psutil.Error):
            found |= {Path(one.laddr) for one in process.net_connections("unix") if one.laddr.startswith("/")}
    return {path for path in found if path.suffix == ".sock" and path.exists()}


def ask_unknown(port: int) -> str:
    """What a port of Spark's RPC answers to somebody unknown; empty for one that speaks otherwise."""
    body = b"\0\0\0\0\0"
    request = struct.pack(">bqi", RPC_REQUEST, 7, len(body)) + body
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS_MAX) as other:
        other.sendall(struct.pack(">q", len(request) + 8) + request)
        answer = b""
        while len(answer) < 21 and (part := other.recv(65_536)):
            answer += part
        with suppress(OSError):
            while len(answer) < struct.unpack(">q", answer[:8])[0] and (part := other.recv(65_536)):
                answer += part
        return answer[21:].decode(errors="replace")
    return ""


def test_sockets_ports_and_command_lines_are_of_no_use_to_others(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    topic, alias = unique("private"), unique("closed")
    make_topics(source, {topic: 1})
    write(source, topic, numbered(0, 100))
    lines = ["backup.sasl.password.of.nobody = hunter2", "sync.topic.acls.enabled = false"]
    with PortReservation(1) as reserved:
        pages = ["--conf", "spark.ui.enabled=true", "--conf", f"spark.ui.port={reserved.ports[0]}"]
        text = flow_file(source, target, alias=alias, topics=topic, lines=lines)
        mirror = start_mirror(text, *pages, before_start=open_umask)
        mirror.wait_until(lambda: count_records(target, f"{alias}.{topic}") == 100, "all arrive")

        sockets = sockets_of(mirror)
        assert sockets, "Spark's Python daemon listens"
        for path in sockets:
            assert path.stat().st_mode & OTHERS == 0, path
            assert path.parent.stat().st_mode & OTHERS == 0, path.parent
            assert path.parent.stat().st_uid == os.getuid()

        listening = [one.laddr.port for one in mirror.jvm().net_connections("tcp") if one.status == psutil.CONN_LISTEN]
        others = [port for port in listening if port != reserved.ports[0]]
        with ThreadPoolExecutor(len(others)) as asking:  # those that speak otherwise say nothing
            answers = [answer for answer in asking.map(ask_unknown, others) if answer]
        refusals = [answer for answer in answers if "SaslRpcHandler" in answer or "AuthRpcHandler" in answer]
        assert len(refusals) >= 2, f"the driver and its block manager ask who it is: {answers}"
        assert not [answer for answer in answers if "NettyRpcEnv" in answer], "nothing of it was read as an object"

        base = f"http://127.0.0.1:{reserved.ports[0]}/api/v1/applications"
        (application,) = json.load(urlopen(base, timeout=60))
        page = urlopen(f"{base}/{application['id']}/environment", timeout=60).read().decode()
        assert '"spark.authenticate", "true"' in " ".join(page.split())
        assert "authenticate.secret" not in page and "hunter2" not in page
        commands = mirror.commands()
        assert not [command for command in commands if "authenticate.secret" in command or "hunter2" in command]
        mirror.stop()
    assert not [path for path in sockets if path.exists()]
